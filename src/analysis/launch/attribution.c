/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/launch/attribution.h"

#include <string.h>

#include "base/strtab.h"

/* Work that has an owner, in the order asked for: by time of launch, then of start. */
static orr_status order_of_work(const orr_view *view, const orr_work_list *work, unsigned classes,
                                const orr_node_id *owner_of, orr_attributed_order order,
                                orr_arena *arena, orr_keyed **ret, size_t *ret_n, orr_error *err)
{
    const orr_graph *g = view->graph;
    orr_keyed *items = orr_arena_array(arena, orr_keyed, work->n);
    if (items == NULL)
        return orr_fail_memory(err);
    size_t n = 0;
    for (size_t i = 0; i < work->n; i++) {
        if (!(work->class[i] & classes))
            continue;
        const orr_node_id call = orr_launch_of(g, work->node[i]);
        if (call == ORR_NONE || owner_of[call] == ORR_NONE)
            continue;
        const int64_t key = order == ORR_ATTRIBUTED_BY_LAUNCH ? g->start_ns[call] : 0;
        items[n++] = (orr_keyed){.key = key, .id = (uint32_t)i};
    }
    *ret = items;
    *ret_n = n;
    return orr_sort_keyed(items, n, arena, err);
}

orr_status orr_attribute_work(const orr_view *view, const orr_work_list *work, unsigned classes,
                              const orr_node_id *owner_of, orr_attributed_order order,
                              orr_arena *arena, const orr_attributed_work **ret, size_t *ret_n,
                              orr_error *err)
{
    const orr_graph *g = view->graph;
    orr_keyed *items = NULL;
    size_t n = 0;
    ORR_TRY(order_of_work(view, work, classes, owner_of, order, arena, &items, &n, err));
    orr_node_id *in_order = orr_arena_array(arena, orr_node_id, n);
    orr_node_id *grouped = orr_arena_array(arena, orr_node_id, n);
    orr_attributed_work *owned = orr_arena_array(arena, orr_attributed_work, n);
    if (in_order == NULL || grouped == NULL || owned == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n; i++)
        in_order[i] = work->node[items[i].id];
    for (size_t i = 0; i < n; i++) /* the id keeps the order inside an owner */
        items[i] = (orr_keyed){.key = owner_of[orr_launch_of(g, in_order[i])], .id = (uint32_t)i};
    ORR_TRY(orr_sort_keyed(items, n, arena, err));

    size_t n_owned = 0;
    for (size_t i = 0; i < n; i++) {
        grouped[i] = in_order[items[i].id];
        if (i == 0 || items[i].key != items[i - 1].key)
            owned[n_owned++] =
                (orr_attributed_work){.owner = (orr_node_id)items[i].key, .work = grouped + i};
        owned[n_owned - 1].n++;
    }
    *ret = owned;
    *ret_n = n_owned;
    return ORR_OK;
}

uint32_t orr_attributed_sequence(const orr_graph *g, const orr_attributed_work *owned,
                                 struct orr_strtab *tab, orr_arena *arena)
{
    const orr_arena_mark mark = orr_arena_get_mark(arena);
    orr_str *names = orr_arena_array(arena, orr_str, owned->n + 1);
    if (names == NULL)
        return UINT32_MAX;
    names[0] = g->name[owned->owner];
    for (size_t i = 0; i < owned->n; i++)
        names[i + 1] = g->name[owned->work[i]];
    const uint32_t number =
        orr_strtab_add(tab, (const char *)names, (owned->n + 1) * sizeof *names);
    orr_arena_rewind(arena, mark);
    return number;
}

const char *orr_attributed_text(const orr_graph *g, const orr_attributed_work *owned,
                                bool owner_too, const char *separator, orr_arena *arena)
{
    const size_t separator_len = strlen(separator), first = owner_too ? 0 : 1;
    size_t len = 1;
    for (size_t i = first; i <= owned->n; i++)
        len += orr_graph_str_len(g, g->name[i == 0 ? owned->owner : owned->work[i - 1]]) +
               separator_len;
    char *text = orr_arena_array(arena, char, len);
    if (text == NULL)
        return NULL;
    char *at = text;
    for (size_t i = first; i <= owned->n; i++) {
        const orr_str name = g->name[i == 0 ? owned->owner : owned->work[i - 1]];
        if (i > first) {
            memcpy(at, separator, separator_len);
            at += separator_len;
        }
        memcpy(at, orr_graph_str(g, name), orr_graph_str_len(g, name));
        at += orr_graph_str_len(g, name);
    }
    *at = '\0';
    return text;
}
