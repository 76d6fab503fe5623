/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/kineto/reader.h"

#include <stdlib.h>
#include <string.h>

/* Lanes of a Kineto recording by (pid, tid), and their names from metadata events. */

static bool same_id(kineto_id a, kineto_id b)
{
    return a.number == b.number && a.text == b.text;
}

/* "stream 7": stream names in recordings of 2020. */
static bool stream_number(const kineto *k, kineto_id tid, int64_t *ret)
{
    static const char word[] = "stream ";
    if (tid.number != INT64_MIN)
        return false;
    const char *text = orr_builder_text(k->builder, tid.text);
    const size_t len = orr_strtab_len(k->builder->strings, tid.text);
    if (len < sizeof word || memcmp(text, word, sizeof word - 1) != 0)
        return false;
    return orr_text_int64((orr_text){text + sizeof word - 1, len - (sizeof word - 1)}, ret);
}

static orr_status note_stream(kineto *k, orr_lane_id lane, int64_t stream, orr_error *err)
{
    while (k->recovery.lane_stream.n <= lane)
        if (!orr_array_push(&k->recovery.lane_stream, INT64_MIN))
            return orr_fail_memory(err);
    k->recovery.lane_stream.at[lane] = stream;
    return ORR_OK;
}

static orr_status new_lane(kineto *k, const kineto_event *e, orr_lane_kind kind, orr_lane_id *ret,
                           orr_error *err)
{
    orr_lane lane = {.kind = (uint8_t)kind,
                     .device = -1,
                     .pid = e->pid.number,
                     .tid = e->tid.number,
                     .process = e->pid.text,
                     .name = e->tid.text};
    if (kind == ORR_LANE_HOST)
        return orr_builder_lane(k->builder, &lane, ret, err);

    stream_number(k, e->tid, &lane.tid);
    const int64_t device = kineto_value(e, ARG_DEVICE, e->pid.number);
    lane.device = device >= 0 && device < INT32_MAX ? (int32_t)device : -1;
    if (k->first_device < 0)
        k->first_device = lane.device;
    ORR_TRY(orr_builder_lane(k->builder, &lane, ret, err));
    const int64_t stream = kineto_value(e, ARG_STREAM, lane.tid);
    return stream != lane.tid ? note_stream(k, *ret, stream, err) : ORR_OK;
}

static unsigned cache_slot(const kineto_event *e, orr_lane_kind kind)
{
    const uint64_t mix = ((uint64_t)e->pid.number + e->pid.text) * 31 + (uint64_t)e->tid.number +
                         e->tid.text + (uint64_t)kind * 97;
    return (unsigned)((mix * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
}

orr_status kineto_lane(kineto *k, const kineto_event *e, orr_lane_kind kind, orr_lane_id *ret,
                       orr_error *err)
{
    kineto_lane_slot *slot = &k->lane_cache[cache_slot(e, kind)];
    if (slot->kind == kind && same_id(slot->pid, e->pid) && same_id(slot->tid, e->tid)) {
        *ret = slot->lane;
        return ORR_OK;
    }
    ORR_TRY(new_lane(k, e, kind, ret, err));
    *slot = (kineto_lane_slot){e->pid, e->tid, (uint8_t)kind, (uint16_t)*ret};
    return ORR_OK;
}

orr_status kineto_add_label(kineto *k, const kineto_event *e, orr_error *err)
{
    if (!kineto_has(e, ARG_META_NAME))
        return ORR_OK;
    const char *what = orr_builder_text(k->builder, e->name);
    const bool of_process = strcmp(what, "process_name") == 0;
    if (!of_process && strcmp(what, "thread_name") != 0)
        return ORR_OK;
    const kineto_label label = {e->pid, e->tid, (orr_str)e->value[ARG_META_NAME], of_process};
    return orr_array_push(&k->labels, label) ? ORR_OK : orr_fail_memory(err);
}

/* Both lanes and labels are sorted and merged, to avoid a quadratic search. */
static int by_ids(const void *a, const void *b)
{
    const kineto_label *x = a, *y = b;
#define COMPARE(f)                                                                                 \
    if (x->f != y->f)                                                                              \
    return x->f < y->f ? -1 : 1
    COMPARE(of_process);
    COMPARE(pid.number);
    COMPARE(pid.text);
    if (x->of_process)
        return 0;
    COMPARE(tid.number);
    COMPARE(tid.text);
#undef COMPARE
    return 0;
}

static const kineto_label *find_label(const kineto *k, const kineto_label *wanted)
{
    return k->labels.n == 0 ? NULL
                            : bsearch(wanted, k->labels.at, k->labels.n, sizeof *wanted, by_ids);
}

void kineto_apply_labels(kineto *k)
{
    if (k->labels.n > 1)
        qsort(k->labels.at, k->labels.n, sizeof *k->labels.at, by_ids);
    for (size_t i = 0; i < k->builder->lanes.n; i++) {
        orr_lane *lane = &k->builder->lanes.at[i];
        kineto_label wanted = {.pid = {lane->pid, lane->pid == INT64_MIN ? lane->process : 0},
                               .tid = {lane->tid, lane->tid == INT64_MIN ? lane->name : 0}};
        const kineto_label *label = find_label(k, &wanted);
        if (label != NULL && lane->tid != INT64_MIN)
            lane->name = label->name;
        wanted.of_process = true;
        label = find_label(k, &wanted);
        if (label != NULL && lane->pid != INT64_MIN)
            lane->process = label->name;
    }
}
