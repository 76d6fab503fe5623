/* SPDX-License-Identifier: Apache-2.0 */
#include "text/bpe.h"

#include "base/alloc.h"
#include "base/array.h"

/* Byte-pair encoding (Sennrich et al., arXiv 1508.07909). Symbols are a linked list; mergeable
 * neighbours wait in a heap, best rank first, then leftmost. A pair whose symbols have changed
 * since is skipped when it is popped. */
typedef struct pair {
    uint64_t key; /* rank, then position of the left symbol */
    int32_t left, right, id;
    uint32_t len; /* of both */
} pair;

struct orr_bpe_merger {
    const orr_tokenizer *tokenizer;
    const char *text;
    orr_array(orr_bpe_symbol) symbols;
    orr_array(pair) heap;
};

orr_status orr_bpe_merger_new(const orr_tokenizer *tokenizer, orr_bpe_merger **ret, orr_error *err)
{
    orr_bpe_merger *m = orr_calloc(1, sizeof *m);
    if (m == NULL)
        return orr_fail_memory(err);
    m->tokenizer = tokenizer;
    *ret = m;
    return ORR_OK;
}

void orr_bpe_merger_free(orr_bpe_merger *m)
{
    if (m == NULL)
        return;
    orr_array_done(&m->symbols);
    orr_array_done(&m->heap);
    orr_free(m);
}

void orr_bpe_merger_begin(orr_bpe_merger *m, const char *text)
{
    m->text = text;
    m->symbols.n = 0;
    m->heap.n = 0;
}

orr_status orr_bpe_merger_add(orr_bpe_merger *m, uint32_t at, uint32_t len, int32_t id,
                              orr_error *err)
{
    const int32_t n = (int32_t)m->symbols.n;
    const orr_bpe_symbol s = {.at = at, .len = len, .id = id, .prev = n - 1, .next = -1};
    if (!orr_array_push(&m->symbols, s))
        return orr_fail_memory(err);
    if (n > 0)
        m->symbols.at[n - 1].next = n;
    return ORR_OK;
}

static bool before(const pair *a, const pair *b)
{
    return a->key < b->key;
}

static bool push(orr_bpe_merger *m, pair p)
{
    if (!orr_array_push(&m->heap, p))
        return false;
    size_t i = m->heap.n - 1;
    for (; i > 0 && before(&p, &m->heap.at[(i - 1) / 2]); i = (i - 1) / 2)
        m->heap.at[i] = m->heap.at[(i - 1) / 2];
    m->heap.at[i] = p;
    return true;
}

static pair pop(orr_bpe_merger *m)
{
    pair *heap = m->heap.at;
    const pair first = heap[0], last = heap[--m->heap.n];
    const size_t n = m->heap.n;
    size_t i = 0;
    for (size_t child = 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &last))
            break;
        heap[i] = heap[child];
        i = child;
    }
    if (n > 0)
        heap[i] = last;
    return first;
}

/* The token that two neighbours merge to, and its rank. False: none. */
static bool match(const orr_bpe_merger *m, const orr_bpe_symbol *left, const orr_bpe_symbol *right,
                  int32_t *ret_id, uint32_t *ret_rank)
{
    const orr_tokenizer *t = m->tokenizer;
    if (t->parts.algorithm == ORR_BPE_MERGES) {
        if (left->id < 0 || right->id < 0)
            return false;
        const uint32_t merge = orr_bpe_merge_find(t, (uint32_t)left->id, (uint32_t)right->id);
        if (merge == UINT32_MAX)
            return false;
        *ret_id = (int32_t)t->parts.merges[merge].merged;
        *ret_rank = merge;
        return true;
    }
    *ret_id = orr_piece_find(t, &t->normal, m->text + left->at, left->len + right->len);
    if (*ret_id < 0)
        return false;
    *ret_rank = t->parts.algorithm == ORR_BPE_SCORES ? t->ranks[*ret_id] : (uint32_t)*ret_id;
    return true;
}

static bool consider(orr_bpe_merger *m, int32_t left, int32_t right)
{
    if (left < 0 || right < 0)
        return true;
    const orr_bpe_symbol *a = &m->symbols.at[left], *b = &m->symbols.at[right];
    int32_t id = -1;
    uint32_t rank = 0;
    if (!match(m, a, b, &id, &rank))
        return true;
    const pair p = {(uint64_t)rank << 32 | (uint32_t)left, left, right, id, a->len + b->len};
    return push(m, p);
}

static bool is_still(const orr_bpe_merger *m, const pair *p)
{
    const orr_bpe_symbol *left = &m->symbols.at[p->left], *right = &m->symbols.at[p->right];
    return left->len > 0 && right->len > 0 && left->next == p->right &&
           left->len + right->len == p->len;
}

static void join(orr_bpe_merger *m, const pair *p)
{
    orr_bpe_symbol *left = &m->symbols.at[p->left], *right = &m->symbols.at[p->right];
    left->len = p->len;
    left->id = p->id;
    left->next = right->next;
    if (right->next >= 0)
        m->symbols.at[right->next].prev = p->left;
    right->len = 0;
}

orr_status orr_bpe_merger_run(orr_bpe_merger *m, orr_error *err)
{
    for (int32_t i = 0; i + 1 < (int32_t)m->symbols.n; i++)
        if (!consider(m, i, i + 1))
            return orr_fail_memory(err);
    while (m->heap.n > 0) {
        const pair p = pop(m);
        if (!is_still(m, &p))
            continue;
        join(m, &p);
        const orr_bpe_symbol *joined = &m->symbols.at[p.left];
        if (!consider(m, joined->prev, p.left) || !consider(m, p.left, joined->next))
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

const orr_bpe_symbol *orr_bpe_merger_next(const orr_bpe_merger *m, const orr_bpe_symbol *after)
{
    if (after == NULL)
        return m->symbols.n > 0 ? m->symbols.at : NULL;
    return after->next >= 0 ? &m->symbols.at[after->next] : NULL;
}
