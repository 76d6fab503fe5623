/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/feeder.h>

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "io/protobuf/wire.h"
#include "io/stream/stream.h"
#include "trace/chakra/chakra.h"
#include "trace/chakra/feeder_node.h"
#include "trace/chakra/id_ranges.h"

/* The window is a hash table of entries by id. An entry is a node that was read and is not done, or
 * an id that was asked for and not read yet; both know who waits for them. */
typedef enum entry_state { AWAITED, WAITING, READY, ISSUED } entry_state;

typedef struct entry {
    orr_feeder_node node; /* texts in `message`; of an AWAITED entry only the id */
    entry_state state;
    uint64_t waits;                 /* dependencies that are not done */
    orr_array(struct entry *) next; /* who waits for it, as often as it names it */
    struct entry *chain;            /* in its bucket */
    uint8_t message[];
} entry;

struct orr_feeder {
    orr_stream *stream;
    bool control, ended;
    uint32_t window, n_held, n_issued, n_awaited;
    entry **bucket; /* shape (n_buckets), a power of two */
    uint32_t n_buckets, n_entries;
    orr_array(entry *) ready; /* heap: the lowest id first */
    orr_id_ranges done;
    orr_array(char) recording; /* the metadata message */
    orr_output *converted;     /* what the stream is of, where the file was JSON; or NULL */
};

void orr_feeder_options_init(orr_feeder_options *options)
{
    *options = (orr_feeder_options){.struct_bytes = sizeof *options, .window = 4096 * 256};
}

static entry **bucket_of(const orr_feeder *f, uint64_t id)
{
    const uint64_t hash = id * UINT64_C(0x9e3779b97f4a7c15);
    return &f->bucket[(hash >> 32) & (f->n_buckets - 1)];
}

static entry *find(const orr_feeder *f, uint64_t id)
{
    entry *e = *bucket_of(f, id);
    while (e != NULL && e->node.id != id)
        e = e->chain;
    return e;
}

static void link_entry(orr_feeder *f, entry *e)
{
    entry **bucket = bucket_of(f, e->node.id);
    e->chain = *bucket;
    *bucket = e;
}

static orr_status insert(orr_feeder *f, entry *e, orr_error *err)
{
    if (f->n_entries >= f->n_buckets && f->n_buckets < 1u << 30) {
        entry **old = f->bucket;
        const uint32_t n_old = f->n_buckets;
        entry **bucket = orr_calloc(2 * (size_t)n_old, sizeof *bucket);
        if (bucket == NULL)
            return orr_fail_memory(err);
        f->bucket = bucket;
        f->n_buckets = 2 * n_old;
        for (uint32_t i = 0; i < n_old; i++)
            for (entry *at = old[i], *chain; at != NULL; at = chain) {
                chain = at->chain;
                link_entry(f, at);
            }
        orr_free(old);
    }
    link_entry(f, e);
    f->n_entries++;
    return ORR_OK;
}

static void take_out(orr_feeder *f, const entry *e)
{
    entry **at = bucket_of(f, e->node.id);
    while (*at != e)
        at = &(*at)->chain;
    *at = e->chain;
    f->n_entries--;
}

static void free_entry(entry *e)
{
    orr_array_done(&e->next);
    orr_free(e);
}

/* Room in the heap was made when the node was read. */
static void push_ready(orr_feeder *f, entry *e)
{
    size_t at = f->ready.n++;
    e->state = READY;
    while (at > 0 && f->ready.at[(at - 1) / 2]->node.id > e->node.id) {
        f->ready.at[at] = f->ready.at[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    f->ready.at[at] = e;
}

static entry *pop_ready(orr_feeder *f)
{
    entry *top = f->ready.at[0], *last = f->ready.at[--f->ready.n];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < f->ready.n; at = child) {
        if (child + 1 < f->ready.n && f->ready.at[child + 1]->node.id < f->ready.at[child]->node.id)
            child++;
        if (f->ready.at[child]->node.id >= last->node.id)
            break;
        f->ready.at[at] = f->ready.at[child];
    }
    if (f->ready.n > 0)
        f->ready.at[at] = last;
    return top;
}

/* The entry that a dependency names, awaited if it was not read; NULL in *ret: it is done. */
static orr_status depended_on(orr_feeder *f, uint64_t id, entry **ret, orr_error *err)
{
    *ret = find(f, id);
    if (*ret != NULL || orr_id_ranges_has(&f->done, id))
        return ORR_OK;
    entry *e = orr_calloc(1, sizeof *e);
    if (e == NULL)
        return orr_fail_memory(err);
    e->node.id = id;
    const orr_status status = insert(f, e, err);
    if (status != ORR_OK) {
        free_entry(e);
        return status;
    }
    f->n_awaited++;
    *ret = e;
    return ORR_OK;
}

static orr_status wait_for(orr_feeder *f, entry *e, uint32_t field, orr_error *err)
{
    orr_feeder_deps deps = orr_feeder_deps_of(&e->node, field);
    for (uint64_t id; orr_feeder_deps_next(&deps, &id);) {
        entry *on;
        if (id == e->node.id && field == CHAKRA_NODE_CTRL_DEPS)
            continue; /* a root names itself */
        ORR_TRY(depended_on(f, id, &on, err));
        if (on == NULL)
            continue;
        if (!orr_array_push(&on->next, e))
            return orr_fail_memory(err);
        e->waits++;
    }
    return deps.failed
               ? orr_fail(err, ORR_PARSE, "node %" PRIu64 ": a list of ids is broken", e->node.id)
               : ORR_OK;
}

/* A new node into the window; it takes over who waits for its id. */
static orr_status hold(orr_feeder *f, entry *e, orr_error *err)
{
    entry *known = find(f, e->node.id);
    if ((known != NULL && known->state != AWAITED) || orr_id_ranges_has(&f->done, e->node.id)) {
        const orr_status status =
            orr_fail(err, ORR_INVALID, "two nodes of id %" PRIu64, e->node.id);
        free_entry(e);
        return status;
    }
    if (known != NULL) {
        take_out(f, known);
        f->n_awaited--;
        e->next.at = known->next.at, e->next.n = known->next.n, e->next.room = known->next.room;
        orr_free(known);
    }
    e->state = WAITING;
    const orr_status status = insert(f, e, err);
    if (status != ORR_OK) {
        free_entry(e);
        return status;
    }
    f->n_held++;
    if (!orr_array_reserve(&f->ready, f->n_held))
        return orr_fail_memory(err);
    ORR_TRY(wait_for(f, e, CHAKRA_NODE_DATA_DEPS, err));
    if (f->control)
        ORR_TRY(wait_for(f, e, CHAKRA_NODE_CTRL_DEPS, err));
    if (e->waits == 0)
        push_ready(f, e);
    return ORR_OK;
}

static orr_status read_node(orr_feeder *f, orr_error *err)
{
    const uint8_t *bytes;
    size_t len;
    ORR_TRY(orr_proto_read_message(f->stream, &bytes, &len, &f->ended, err));
    if (f->ended)
        return ORR_OK;
    entry *e = orr_calloc(1, sizeof *e + len);
    if (e == NULL)
        return orr_fail_memory(err);
    memcpy(e->message, bytes, len);
    if (!orr_feeder_node_parse(e->message, len, &e->node)) {
        free_entry(e);
        return orr_fail(err, ORR_PARSE, "a node before byte %llu is broken",
                        (unsigned long long)orr_stream_offset(f->stream));
    }
    return hold(f, e, err);
}

/* The stream of a JSON workload gives way to one of the file that it was converted to. */
static orr_status convert(orr_feeder *f, orr_error *err)
{
    orr_stream *stream;
    size_t len;
    ORR_TRY(orr_feeder_convert_json(f->stream, &f->converted, err));
    if (f->converted == NULL)
        return ORR_OK;
    const void *bytes = orr_output_memory(f->converted, &len);
    ORR_TRY(orr_stream_open_memory(bytes, len, &stream, err));
    orr_stream_close(f->stream);
    f->stream = stream;
    return ORR_OK;
}

static orr_status start(orr_stream *stream, const orr_feeder_options *options, orr_feeder **ret,
                        orr_error *err)
{
    orr_feeder_options full;
    const uint8_t *bytes;
    size_t len;
    orr_status status;
    orr_feeder_options_init(&full);
    if (options != NULL)
        memcpy(&full, options,
               options->struct_bytes < sizeof full ? options->struct_bytes : sizeof full);
    orr_feeder *f = orr_calloc(1, sizeof *f);
    if (f == NULL) {
        orr_stream_close(stream);
        return orr_fail_memory(err);
    }
    f->stream = stream;
    f->control = full.control;
    f->window = full.window > 0 ? full.window : 1;
    f->n_buckets = 64;
    f->bucket = orr_calloc(f->n_buckets, sizeof *f->bucket);
    if (f->bucket == NULL)
        ORR_TRY_OUT(status, orr_fail_memory(err));
    ORR_TRY_OUT(status, convert(f, err));
    ORR_TRY_OUT(status, orr_proto_read_message(f->stream, &bytes, &len, &f->ended, err));
    if (f->ended)
        ORR_TRY_OUT(status, orr_fail(err, ORR_PARSE, "the file is empty"));
    if (!orr_array_reserve(&f->recording, len + 1))
        ORR_TRY_OUT(status, orr_fail_memory(err));
    memcpy(f->recording.at, bytes, len);
    f->recording.n = len;
    *ret = f;
    return ORR_OK;
out:
    orr_feeder_close(f);
    return status;
}

orr_status orr_feeder_open(const char *path, const orr_feeder_options *options, orr_feeder **ret,
                           orr_error *err)
{
    orr_stream *stream;
    ORR_TRY(orr_stream_open(path, &stream, err));
    const orr_status status = start(stream, options, ret, err);
    if (status != ORR_OK)
        orr_error_prefix(err, path);
    return status;
}

orr_status orr_feeder_open_memory(const void *bytes, size_t len, const orr_feeder_options *options,
                                  orr_feeder **ret, orr_error *err)
{
    orr_stream *stream;
    ORR_TRY(orr_stream_open_memory(bytes, len, &stream, err));
    return start(stream, options, ret, err);
}

void orr_feeder_close(orr_feeder *f)
{
    if (f == NULL)
        return;
    for (uint32_t i = 0; f->bucket != NULL && i < f->n_buckets; i++)
        for (entry *e = f->bucket[i], *chain; e != NULL; e = chain) {
            chain = e->chain;
            free_entry(e);
        }
    orr_free(f->bucket);
    orr_array_done(&f->ready);
    orr_id_ranges_done(&f->done);
    orr_array_done(&f->recording);
    orr_stream_close(f->stream);
    orr_output_close(f->converted);
    orr_free(f);
}

/* Nothing can be issued, and nothing that was issued will end. */
static orr_status stuck(const orr_feeder *f, orr_error *err)
{
    const entry *waiting = NULL, *missing = NULL;
    for (uint32_t i = 0; i < f->n_buckets; i++)
        for (const entry *e = f->bucket[i]; e != NULL; e = e->chain) {
            const entry **lowest = e->state == AWAITED ? &missing : &waiting;
            if (*lowest == NULL || e->node.id < (*lowest)->node.id)
                *lowest = e;
        }
    if (missing != NULL)
        return orr_fail(err, ORR_INVALID,
                        "node %" PRIu64 " waits for node %" PRIu64 ", which is not in the file",
                        missing->next.at[0]->node.id, missing->node.id);
    return orr_fail(err, ORR_INVALID, "node %" PRIu64 " waits for itself, in a circle",
                    waiting->node.id);
}

orr_status orr_feeder_next(orr_feeder *f, const orr_feeder_node **ret, orr_error *err)
{
    while (!f->ended && (f->n_held < f->window || (f->ready.n == 0 && f->n_issued == 0)))
        ORR_TRY(read_node(f, err));
    *ret = NULL;
    if (f->ready.n == 0)
        return f->n_issued == 0 && f->n_held > 0 ? stuck(f, err) : ORR_OK;
    entry *e = pop_ready(f);
    e->state = ISSUED;
    f->n_issued++;
    *ret = &e->node;
    return ORR_OK;
}

static orr_status issued(const orr_feeder *f, uint64_t id, entry **ret, orr_error *err)
{
    *ret = find(f, id);
    if (*ret != NULL && (*ret)->state == ISSUED)
        return ORR_OK;
    return orr_fail(err, ORR_INVALID, "node %" PRIu64 " was not issued", id);
}

orr_status orr_feeder_push_back(orr_feeder *f, uint64_t id, orr_error *err)
{
    entry *e;
    ORR_TRY(issued(f, id, &e, err));
    f->n_issued--;
    push_ready(f, e);
    return ORR_OK;
}

orr_status orr_feeder_done(orr_feeder *f, uint64_t id, orr_error *err)
{
    entry *e;
    ORR_TRY(issued(f, id, &e, err));
    if (!orr_id_ranges_add(&f->done, id))
        return orr_fail_memory(err);
    for (size_t i = 0; i < e->next.n; i++)
        if (--e->next.at[i]->waits == 0)
            push_ready(f, e->next.at[i]);
    take_out(f, e);
    free_entry(e);
    f->n_issued--;
    f->n_held--;
    return ORR_OK;
}

const orr_feeder_node *orr_feeder_find(const orr_feeder *f, uint64_t id)
{
    const entry *e = find(f, id);
    return e != NULL && e->state != AWAITED ? &e->node : NULL;
}

uint32_t orr_feeder_n_ready(const orr_feeder *f)
{
    return (uint32_t)f->ready.n;
}

uint32_t orr_feeder_n_held(const orr_feeder *f)
{
    return f->n_held;
}

uint32_t orr_feeder_n_ranges(const orr_feeder *f)
{
    return (uint32_t)f->done.list.n;
}

bool orr_feeder_is_finished(const orr_feeder *f)
{
    return f->ended && f->n_held == 0;
}

bool orr_feeder_recording(const orr_feeder *f, const char *name, uint32_t index,
                          orr_feeder_value *ret)
{
    const orr_feeder_text message = {f->recording.at, f->recording.n};
    return orr_feeder_find_attr(&message, CHAKRA_METADATA_ATTR, name, index, ret);
}
