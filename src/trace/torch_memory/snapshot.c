/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/torch_memory/snapshot.h"

#include <stdio.h>
#include <string.h>

static const char *const words[] = {
#define WORD_TEXT(name, text) text,
    SNAPSHOT_WORDS(WORD_TEXT)
#undef WORD_TEXT
};

snapshot_word snapshot_word_of(orr_text text)
{
    for (int w = 0; w < WORD_OTHER; w++)
        if (text.n > 0 && orr_text_equal(text, words[w], strlen(words[w])))
            return (snapshot_word)w;
    return WORD_OTHER;
}

static int64_t value_of(const snapshot_record *r, snapshot_word word, int64_t otherwise)
{
    return (r->has >> word & 1) != 0 ? r->value[word] : otherwise;
}

static orr_status find_device(snapshot *s, uint64_t device, snapshot_device **ret, orr_error *err)
{
    static const uint64_t most_devices = 4096;
    if (device >= most_devices)
        return orr_fail(err, ORR_LIMIT, "a snapshot of device %llu: at most %llu devices are read",
                        (unsigned long long)device, (unsigned long long)most_devices);
    while (s->devices.n <= device)
        if (!orr_array_push(&s->devices, ((snapshot_device){.requested_bytes = 0})))
            return orr_fail_memory(err);
    *ret = &s->devices.at[device];
    return ORR_OK;
}

orr_status snapshot_add_segment(snapshot *s, const snapshot_record *segment, orr_error *err)
{
    snapshot_device *d;
    ORR_TRY(find_device(s, (uint64_t)value_of(segment, WORD_DEVICE, 0), &d, err));
    d->rounded |= (segment->has >> WORD_REQUESTED_SIZE & 1) == 0;
    d->unsure |=
        __builtin_add_overflow(d->requested_bytes, value_of(segment, WORD_REQUESTED_SIZE, 0),
                               &d->requested_bytes) ||
        __builtin_add_overflow(d->allocated_bytes, value_of(segment, WORD_ALLOCATED_SIZE, 0),
                               &d->allocated_bytes) ||
        __builtin_add_overflow(d->reserved_bytes, value_of(segment, WORD_TOTAL_SIZE, 0),
                               &d->reserved_bytes);
    return ORR_OK;
}

static orr_status bad_entry(snapshot *s, const char *what, orr_error *err)
{
    if (!s->options->tolerant)
        return orr_fail(err, ORR_PARSE,
                        "entry %llu of its traces %s; read tolerantly to leave it out",
                        (unsigned long long)s->report->events, what);
    s->report->faults[ORR_TRACE_FAULT_BAD_EVENT]++;
    return ORR_OK;
}

static orr_status lane_of(snapshot *s, uint64_t device, orr_lane_id *ret, orr_error *err)
{
    char name[48];
    const int n = snprintf(name, sizeof name, "allocator of cuda:%llu", (unsigned long long)device);
    orr_lane lane = {.kind = ORR_LANE_HOST, .device = -1, .tid = (int64_t)device};
    ORR_TRY(orr_builder_str(s->builder, name, (size_t)n, &lane.name, err));
    return orr_builder_lane(s->builder, &lane, ret, err);
}

/* What an action changes: memory of tensors, memory taken of the device. */
typedef struct change {
    int allocated, reserved; /* 1: more, -1: less */
} change;

static change change_of(int64_t action)
{
    switch (action) {
    case WORD_ALLOC:
        return (change){1, 0};
    case WORD_FREE:
    case WORD_FREE_COMPLETED:
        return (change){-1, 0};
    case WORD_SEGMENT_ALLOC:
    case WORD_SEGMENT_MAP:
        return (change){0, 1};
    case WORD_SEGMENT_FREE:
    case WORD_SEGMENT_UNMAP:
        return (change){0, -1};
    default: /* a free that is asked for, and waits for streams; no memory; a mark */
        return (change){0, 0};
    }
}

orr_status snapshot_add_entry(snapshot *s, uint64_t device, const snapshot_record *entry,
                              orr_error *err)
{
    enum { EVENTS_A_STEP = 4096, CUDA = 1 };
    snapshot_device *d;
    orr_node node = {.parent = ORR_NONE};
    orr_node_id id;
    const int64_t action = value_of(entry, WORD_ACTION, WORD_OTHER);
    const int64_t size = value_of(entry, WORD_SIZE, 0);
    const change c = change_of(action);
    if (++s->report->events % EVENTS_A_STEP == 0)
        ORR_TRY(orr_read_progress(s->options, s->stream, err));
    if ((entry->has >> WORD_TIME_US & 1) == 0)
        return bad_entry(s, "has no time: PyTorch 2.1 and later record it", err);
    if (size < 0 || __builtin_mul_overflow(entry->value[WORD_TIME_US], 1000, &node.start_ns) ||
        node.start_ns > INT64_MAX / 4 || node.start_ns < -(INT64_MAX / 4))
        return bad_entry(s, "has a size or time that is not possible", err);
    ORR_TRY(find_device(s, device, &d, err));
    ORR_TRY(lane_of(s, device, &node.lane, err));
    const char *name = action >= WORD_ALLOC && action < WORD_OTHER ? words[action] : "other";
    ORR_TRY(orr_builder_str(s->builder, name, strlen(name), &node.name, err));
    const bool changes = c.allocated != 0 || c.reserved != 0;
    node.kind = changes ? ORR_NODE_MEMORY : ORR_NODE_OTHER;
    ORR_TRY(orr_builder_node(s->builder, &node, &id, err));
    if (!changes)
        return ORR_OK;
    const orr_memory memory = {.addr = (uint64_t)value_of(entry, WORD_ADDR, 0),
                               .bytes = c.allocated * size,
                               .allocated_bytes = -1,
                               .reserved_bytes = -1,
                               .device_type = CUDA,
                               .device = (int32_t)device};
    if (!orr_array_push(&s->reserved_change, c.reserved * size))
        return orr_fail_memory(err);
    return orr_builder_memory(s->builder, id, &memory, err);
}

/* One pass backwards over all events, with what their devices held after them. False in `set`: only
 * looks whether a total would be negative. */
static void walk_back(snapshot *s, bool set)
{
    for (size_t i = s->builder->memories.n; i-- > 0;) {
        orr_memory *m = &s->builder->memories.at[i];
        snapshot_device *d = &s->devices.at[m->device];
        if (set && !d->unsure) {
            m->allocated_bytes = d->allocated_bytes;
            m->reserved_bytes = d->reserved_bytes;
        }
        d->unsure |= __builtin_sub_overflow(d->allocated_bytes, m->bytes, &d->allocated_bytes) ||
                     __builtin_sub_overflow(d->reserved_bytes, s->reserved_change.at[i],
                                            &d->reserved_bytes) ||
                     d->allocated_bytes < 0 || d->reserved_bytes < 0;
    }
}

orr_status snapshot_finish(snapshot *s, orr_error *err)
{
    orr_array(snapshot_device) ends = {0};
    if (!s->has_traces || s->builder->n_nodes == 0)
        return orr_fail(err, ORR_PARSE,
                        "it has no trace of allocations: call "
                        "torch.cuda.memory._record_memory_history() before what is to be seen");
    if (!orr_array_reserve(&ends, s->devices.n))
        return orr_fail_memory(err);
    for (size_t i = 0; i < s->devices.n; i++) {
        snapshot_device *d = &s->devices.at[i];
        if (!d->rounded)
            d->allocated_bytes = d->requested_bytes;
        ends.at[i] = *d;
    }
    walk_back(s, false);
    for (size_t i = 0; i < s->devices.n; i++) {
        const bool unsure = s->devices.at[i].unsure;
        s->devices.at[i] = ends.at[i];
        s->devices.at[i].unsure = unsure;
    }
    walk_back(s, true);
    orr_array_done(&ends);
    return orr_builder_str(s->builder, "torch-memory", 12, &s->builder->recording.source, err);
}

void snapshot_done(snapshot *s)
{
    orr_array_done(&s->devices);
    orr_array_done(&s->reserved_change);
}
