/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "graph/builder.h"
#include "trace/chakra/node.h"

/* Tarjan's strongly connected components (Tarjan 1972), without recursion. Two nodes of one
 * component wait for each other. */
typedef struct finder {
    const orr_chakra_nodes *nodes;
    const uint32_t *on; /* shape (n waiting): node depended on, or ORR_NONE */
    uint32_t n, n_stack, n_path, visited;
    uint32_t *first;       /* shape (N + 1): rows of waiting */
    uint32_t *at;          /* shape (N): next dependency to look at */
    uint32_t *order, *low; /* shape (N): of the visit, from 1 */
    uint32_t *stack, *path;
    uint32_t *component; /* out, shape (N) */
} finder;

static void enter(finder *f, uint32_t v)
{
    f->order[v] = f->low[v] = ++f->visited;
    f->at[v] = f->first[v];
    f->stack[f->n_stack++] = f->path[f->n_path++] = v;
}

static void leave(finder *f, uint32_t v)
{
    f->n_path--;
    if (f->n_path > 0 && f->low[v] < f->low[f->path[f->n_path - 1]])
        f->low[f->path[f->n_path - 1]] = f->low[v];
    if (f->low[v] != f->order[v])
        return;
    uint32_t u;
    do {
        u = f->stack[--f->n_stack];
        f->component[u] = v;
    } while (u != v);
}

static void visit(finder *f, uint32_t root)
{
    enter(f, root);
    while (f->n_path > 0) {
        const uint32_t v = f->path[f->n_path - 1];
        if (f->at[v] == f->first[v + 1]) {
            leave(f, v);
            continue;
        }
        const uint32_t u = f->on[f->at[v]++];
        if (u == ORR_NONE)
            continue;
        if (f->order[u] == 0)
            enter(f, u);
        else if (f->component[u] == ORR_NONE && f->order[u] < f->low[v])
            f->low[v] = f->order[u];
    }
}

orr_status orr_chakra_components(const orr_chakra_nodes *nodes, const uint32_t *on, uint32_t **ret,
                                 orr_error *err)
{
    const uint32_t n = orr_builder_n_nodes(nodes->builder);
    uint32_t *memory = orr_calloc((size_t)n + 1, 7 * sizeof *memory);
    if (memory == NULL)
        return orr_fail_memory(err);
    finder f = {.nodes = nodes, .on = on, .n = n, .component = memory};
    uint32_t **const arrays[] = {&f.at, &f.order, &f.low, &f.stack, &f.path, &f.first};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        *arrays[i] = memory + (i + 1) * n;
    memset(f.component, 0xff, n * sizeof *f.component);
    for (size_t i = 0; i < nodes->waiting.n; i++)
        f.first[nodes->waiting.at[i].node + 1]++;
    for (uint32_t v = 0; v < n; v++)
        f.first[v + 1] += f.first[v];
    for (uint32_t v = 0; v < n; v++)
        if (f.order[v] == 0)
            visit(&f, v);
    *ret = memory;
    return ORR_OK;
}
