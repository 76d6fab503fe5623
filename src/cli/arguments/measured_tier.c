/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <unistd.h>

#include <orrery/measure.h>

#include "cli/arguments/machine_file.h"
#include "cli/arguments/tiers.h"

/* The best that was measured of one kind of access. */
static orr_measured_access best_of(const orr_measured_storage *s, orr_storage_access kind)
{
    orr_measured_access best = {.access = (uint8_t)kind};
    for (uint32_t i = 0; i < s->n_accesses; i++)
        if (s->accesses[i].access == kind && s->accesses[i].per_s > best.per_s)
            best = s->accesses[i];
    return best;
}

orr_status orr_measured_tier(orr_session *session, orr_tier_rates *ret, bool *ret_found)
{
    const char *path;
    orr_measured measured;
    *ret_found = false;
    ORR_TRY(orr_machine_file_path(session->settings->machine, false, session->arena, &path,
                                  &session->err));
    if (session->settings->machine == NULL && access(path, F_OK) != 0)
        return ORR_OK;
    ORR_TRY(orr_measured_load(path, session->arena, &measured, &session->err));
    if (measured.n_storage == 0)
        return ORR_OK;
    const orr_measured_storage *s = &measured.storage[0];
    const orr_measured_access random = best_of(s, ORR_STORAGE_RANDOM_READ),
                              hole = best_of(s, ORR_STORAGE_RANDOM_WRITE),
                              read = best_of(s, ORR_STORAGE_READ),
                              write = best_of(s, ORR_STORAGE_WRITE);
    if (!(random.per_s > 0) || !(hole.per_s > 0 || write.per_s > 0))
        return ORR_OK;
    const double cpu_ns = random.cpu_ns + fmax(hole.cpu_ns, 0);
    *ret = (orr_tier_rates){.name = "this machine's storage",
                            .sector_bytes = s->sector,
                            .read_iops = random.per_s,
                            .write_iops = hole.per_s,
                            .read_bytes_per_s = read.per_s * read.bytes,
                            .write_bytes_per_s = write.per_s * write.bytes,
                            .read_ns = (double)random.p50_ns,
                            .request_ns = random.cpu_ns > 0 ? cpu_ns : ORR_TIER_REQUEST_NS,
                            .source = path};
    orr_session_remark(session, "%s: rates are those measured under %s", ret->name, s->path);
    *ret_found = true;
    return ORR_OK;
}
