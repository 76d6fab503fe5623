/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/arguments/failures.h"

#include <string.h>

static bool is_file(const char *name)
{
    const size_t n = strlen(name);
    return strchr(name, '/') != NULL || (n > 5 && strcmp(name + n - 5, ".yaml") == 0) ||
           (n > 4 && strcmp(name + n - 4, ".yml") == 0);
}

orr_status orr_failure_choice_read(orr_session *session, orr_failure_choice *ret)
{
    const orr_settings *s = session->settings;
    const char *name = s->failures != NULL ? s->failures : "ft_hsdp_98k";
    const char *timing = s->timing != NULL ? s->timing : "ft_hsdp";
    const bool file = is_file(name);
    orr_failure_catalog built_in;
    orr_error *err = &session->err;
    ORR_TRY(orr_failure_catalog_open(NULL, session->arena, &built_in, err));
    ORR_TRY(orr_failure_catalog_open(file ? name : NULL, session->arena, &ret->catalog, err));
    ORR_TRY(orr_fleet_timing_find(&ret->catalog, timing, &ret->timing, err));
    if (file && ret->catalog.n_failures > built_in.n_failures)
        ret->failures = ret->catalog.failures[ret->catalog.n_failures - 1];
    else
        ORR_TRY(orr_failures_find(&ret->catalog, file ? "ft_hsdp_98k" : name, &ret->failures, err));
    return ORR_OK;
}
