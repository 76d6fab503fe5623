/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/fit/samples.h"

#include <string.h>

#include "base/alloc.h"
#include "base/path.h"
#include "cost/models/table.h"

orr_samples *orr_samples_new(void)
{
    orr_samples *samples = orr_calloc(1, sizeof *samples);
    if (samples == NULL)
        return NULL;
    samples->names = orr_strtab_new();
    if (samples->names == NULL) {
        orr_samples_free(samples);
        return NULL;
    }
    return samples;
}

void orr_samples_free(orr_samples *samples)
{
    if (samples == NULL)
        return;
    orr_array_done(&samples->rows);
    orr_array_done(&samples->sources);
    orr_strtab_free(samples->names);
    orr_free(samples);
}

const orr_cost_sample *orr_samples_rows(const orr_samples *samples, size_t *ret_n)
{
    *ret_n = samples->rows.n;
    return samples->rows.at;
}

static const char *keep(orr_samples *samples, const char *text)
{
    const uint32_t id = orr_strtab_add(samples->names, text, strlen(text));
    return id == UINT32_MAX ? NULL : orr_strtab_text(samples->names, id);
}

/* Is the work within the limits of a fitted file, and does it distinguish shapes? */
static bool says_something(const orr_work *work)
{
    return work->n_dims <= ORR_WORK_DIMS && work->flops >= 0 &&
           work->flops <= ORR_TABLE_FLOPS_MAX && work->read_bytes >= 0 &&
           work->read_bytes <= ORR_TABLE_BYTES_MAX && work->write_bytes >= 0 &&
           work->write_bytes <= ORR_TABLE_BYTES_MAX &&
           (work->n_dims > 0 || work->flops + work->read_bytes + work->write_bytes > 0);
}

orr_status orr_samples_add(orr_samples *samples, const orr_cost_sample *sample,
                           orr_samples_report *report, orr_error *err)
{
    orr_cost_sample row = *sample;

    if (!(row.ns >= ORR_TABLE_NS_MIN && row.ns <= ORR_TABLE_NS_MAX)) {
        report->without_time++;
        return ORR_OK;
    }
    orr_work_complete(&row.work);
    if (!says_something(&row.work)) {
        report->without_work++;
        return ORR_OK;
    }
    row.work.op = keep(samples, row.work.op ? row.work.op : "");
    row.work.kernel = keep(samples, row.work.kernel ? row.work.kernel : "");
    if (!row.work.op || !row.work.kernel || !orr_array_push(&samples->rows, row))
        return orr_fail_memory(err);
    report->taken++;
    return ORR_OK;
}

orr_status orr_samples_add_source(orr_samples *samples, const char *path, orr_error *err)
{
    size_t len;
    const char *last = orr_path_basename(path, &len);
    const uint32_t id = orr_strtab_add(samples->names, last, len);
    if (id == UINT32_MAX || !orr_array_push(&samples->sources, orr_strtab_text(samples->names, id)))
        return orr_fail_memory(err);
    return ORR_OK;
}
