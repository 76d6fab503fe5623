/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/arguments/factor.h"
#include "cli/command/interrupt.h"
#include "cli/search/explore.h"

/* The plans of a search with their transfers over cuts as flows. */

/* "pp-ep": these axes in that order, all others after them. */
static orr_status read_first(const char *list, orr_network_check_options *ret, orr_error *err)
{
    uint8_t place = 0;
    memset(ret->priority, UINT8_MAX, sizeof ret->priority);
    for (const char *at = list; *at != '\0'; place++) {
        const size_t len = strcspn(at, "-");
        int axis = 0;
        while (axis < ORR_AXES && (strlen(orr_axis_name((orr_axis)axis)) != len ||
                                   memcmp(orr_axis_name((orr_axis)axis), at, len) != 0))
            axis++;
        if (axis == ORR_AXES)
            return orr_fail(
                err, ORR_INVALID,
                "--network-flows: no axis '%.*s'; as first=pp-ep, of pp, cp, ep, dp_cp, "
                "shard, replica, edp, outer",
                (int)len, at);
        ret->priority[axis] = place;
        at += len + (at[len] == '-');
    }
    for (int axis = 0; axis < ORR_AXES; axis++)
        if (ret->priority[axis] == UINT8_MAX)
            ret->priority[axis] = place;
    return ORR_OK;
}

static orr_status read_setting(const char *key, const char *value, orr_network_check_options *ret,
                               orr_error *err)
{
    if (strcmp(key, "first") == 0)
        return read_first(value, ret, err);
    if (strcmp(key, "others") == 0)
        return orr_parse_share("network-flows others", value, &ret->others_frac, err);
    if (strcmp(key, "seed") == 0)
        return orr_parse_seed(value, &ret->seed, err);
    ret->selective = strcmp(value, "selective") == 0;
    return strcmp(key, "recovery") == 0 && (ret->selective || strcmp(value, "go_back_n") == 0)
               ? ORR_OK
               : orr_fail(err, ORR_INVALID,
                          "--network-flows: '%s=%s' is none of others=20%%, first=pp-ep, "
                          "recovery=selective, recovery=go_back_n, seed=2",
                          key, value);
}

orr_status orr_explore_network_read(orr_explore_request *r)
{
    const orr_settings *s = r->session.settings;
    orr_error *err = &r->session.err;
    orr_network_check_options_init(&r->network);
    if (s->network_draws > 10000)
        return orr_fail(err, ORR_INVALID, "--network-draws: at most 10000");
    r->network.draws = (uint32_t)s->network_draws;
    for (const char *at = s->network_flows; at != NULL && *at != '\0';) {
        char key[32] = "", value[64] = "";
        const size_t len = strcspn(at, ","), name = strcspn(at, "=,");
        if (name >= sizeof key || at[name] != '=' || len - name > sizeof value)
            return orr_fail(err, ORR_INVALID,
                            "--network-flows: '%.*s' is no NAME=VALUE; as others=20%%,first=pp-ep",
                            (int)len, at);
        memcpy(key, at, name);
        memcpy(value, at + name + 1, len - name - 1);
        ORR_TRY(read_setting(key, value, &r->network, err));
        at += len + (at[len] == ',');
    }
    return ORR_OK;
}

orr_status orr_explore_network_ask(orr_explore_request *r)
{
    if (r->network.draws == 0 || !orr_explore_has_network(r->job.cluster))
        return ORR_OK;
    r->options.stop = orr_interrupt_flag();
    ORR_TRY(orr_explore_network(r->job.model, r->job.cluster, &r->options, &r->network,
                                ORR_EXPLORE_SHOWN, &r->exploration, r->session.arena, &r->checks,
                                &r->n_checks, &r->session.err));
    for (uint32_t i = 0; i < r->n_checks; i++)
        if (r->checks[i].was != i) {
            orr_session_remark(&r->session,
                               "the plans are ranked anew: with transfers over cuts as flows "
                               "their steps differ from the closed forms by more than 3 %%");
            return ORR_OK;
        }
    return ORR_OK;
}
