/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "explore/search/search.h"

/* Exchange of a round's results between processes: each runs every n-th work item, and an allgather
 * gives all of them the results of all. */

typedef struct item_header { /* precedes the lists of an item */
    uint32_t item;
    int32_t status;
    uint32_t stopped, n_left, n_simulated, n_seen;
    uint64_t resumed;
    orr_family_result result;
    orr_binding_constraint binding;
    char why[128];
} item_header;
typedef orr_array(char) bytes_list;

static bool put(bytes_list *bytes, const void *at, size_t n)
{
    if (!orr_array_reserve(bytes, n))
        return false;
    if (n > 0)
        memcpy(bytes->at + bytes->n, at, n);
    bytes->n += n;
    return true;
}

static bool put_list(bytes_list *bytes, const orr_explored_list *list)
{
    return put(bytes, list->at, list->n * sizeof *list->at);
}

static bool put_item(bytes_list *bytes, const orr_work_item *e, uint32_t i)
{
    item_header t;
    memset(&t, 0, sizeof t);
    t.item = i;
    t.status = (int32_t)e->status;
    t.stopped = e->stopped;
    t.n_left = (uint32_t)e->left.n;
    t.n_simulated = (uint32_t)e->simulated.n;
    t.n_seen = (uint32_t)e->seen.n;
    t.resumed = e->resumed;
    t.result = e->result;
    t.binding = e->binding;
    if (e->status != ORR_OK)
        memcpy(t.why, e->err.text, sizeof t.why - 1);
    return put(bytes, &t, sizeof t) && put_list(bytes, &e->left) &&
           put_list(bytes, &e->simulated) && put_list(bytes, &e->seen);
}

static bool take_list(orr_explored_list *list, uint32_t n, const char **at)
{
    list->n = 0;
    if (!orr_array_reserve(list, n))
        return false;
    if (n > 0)
        memcpy(list->at, *at, n * sizeof *list->at);
    list->n = n;
    *at += n * sizeof *list->at;
    return true;
}

static bool take_item(orr_work_item *items, const char **at)
{
    item_header t;
    memcpy(&t, *at, sizeof t);
    *at += sizeof t;
    orr_work_item *e = &items[t.item];
    e->status = (orr_status)t.status;
    e->stopped = t.stopped != 0;
    e->resumed = t.resumed;
    e->result = t.result;
    e->binding = t.binding;
    if (e->status != ORR_OK)
        (void)orr_fail(&e->err, e->status, "%s", t.why);
    return take_list(&e->left, t.n_left, at) && take_list(&e->simulated, t.n_simulated, at) &&
           take_list(&e->seen, t.n_seen, at);
}

bool orr_search_is_mine(const orr_search *s, uint32_t item)
{
    return item % orr_processes_count(s->processes) == orr_processes_rank(s->processes);
}

/* A process that is asked to stop stops all. */
orr_status orr_search_exchange(orr_search *s, orr_work_item *items, uint32_t n, orr_error *err)
{
    bytes_list mine = {0};
    orr_status status = ORR_OK;
    const void *all;
    size_t n_bytes;
    bool room = true, should_stop = orr_search_should_stop(s);
    double none = 0;
    if (orr_processes_count(s->processes) == 1) {
        s->stopped = should_stop;
        return ORR_OK;
    }
    for (uint32_t i = 0; i < n && room; i++)
        room = !orr_search_is_mine(s, i) || put_item(&mine, &items[i], i);
    orr_arena *arena = orr_arena_new(0, 0);
    if (!room || arena == NULL) {
        orr_processes_abort(s->processes);
        ORR_TRY_OUT(status, orr_fail_memory(err));
    }
    ORR_TRY_OUT(status, orr_processes_allreduce_min(s->processes, &none, &should_stop, err));
    ORR_TRY_OUT(status,
                orr_processes_allgather(s->processes, mine.at, mine.n, arena, &all, &n_bytes, err));
    s->stopped = should_stop;
    for (const char *at = all, *end = at + n_bytes; at < end && room;)
        room = take_item(items, &at);
    if (!room) {
        orr_processes_abort(s->processes);
        status = orr_fail_memory(err);
    }
out:
    orr_arena_free(arena);
    orr_array_done(&mine);
    return status;
}
