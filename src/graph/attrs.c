/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/attrs.h"

#include <string.h>

#include "base/alloc.h"

#define N_ATTR_KINDS   (ORR_ATTR_NONE + 1)
#define LIST_MAX_BYTES (UINT32_C(1) << 31)

/* The tag: the kind, and which of the optional words follow. */
enum { TAG_KIND = 0xff, TAG_DOC = 0x100, TAG_LIST = 0x200 };

typedef struct list_head {
    uint32_t bytes, hash;
} list_head;

size_t orr_attr_value_bytes(orr_attr_kind kind)
{
    static const uint8_t bytes[N_ATTR_KINDS] = {
#define VALUE_BYTES(name, n) n,
        ORR_ATTR_MAP(VALUE_BYTES)
#undef VALUE_BYTES
    };
    return (unsigned)kind < N_ATTR_KINDS ? bytes[kind] : 0;
}

static bool is_string_kind(uint8_t kind)
{
    return kind == ORR_ATTR_STRING || kind == ORR_ATTR_BYTES || kind == ORR_ATTR_JSON ||
           kind == ORR_ATTR_UNKNOWN;
}

static orr_status check_attr(const orr_attr *attr, uint32_t n_strings, orr_error *err)
{
    if (attr->kind >= N_ATTR_KINDS)
        return orr_fail(err, ORR_INVALID, "attribute of kind %u, which does not exist", attr->kind);
    if (!attr->list && attr->count != 1)
        return orr_fail(err, ORR_INVALID, "attribute that is no list with %u values", attr->count);
    bool known = attr->name < n_strings && attr->doc < n_strings;
    if (known && is_string_kind(attr->kind))
        for (uint32_t i = 0; i < attr->count && known; i++)
            known = ((const orr_str *)attr->values)[i] < n_strings;
    if (!known)
        return orr_fail(err, ORR_INVALID, "attribute with a string that was never added");
    return ORR_OK;
}

static size_t round_up(size_t n, size_t multiple)
{
    return (n + multiple - 1) & ~(multiple - 1);
}

/* Where the values begin, from the beginning of a list's body, for an attribute at `at`. */
static size_t values_at(size_t at, const orr_attr *attr)
{
    at += sizeof(uint32_t) * (2u + (attr->doc != 0) + attr->list);
    return orr_attr_value_bytes(attr->kind) == 8 ? round_up(at, 8) : at;
}

static size_t end_at(size_t at, const orr_attr *attr)
{
    return round_up(values_at(at, attr) + attr->count * orr_attr_value_bytes(attr->kind), 4);
}

static orr_status body_bytes(const orr_attr *attrs, uint32_t n_attrs, uint32_t n_strings,
                             size_t *ret_bytes, orr_error *err)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < n_attrs; i++) {
        ORR_TRY(check_attr(&attrs[i], n_strings, err));
        bytes = end_at(bytes, &attrs[i]);
        if (bytes > LIST_MAX_BYTES)
            return orr_fail(err, ORR_LIMIT, "the attributes of one node take over 2 GiB");
    }
    *ret_bytes = bytes;
    return ORR_OK;
}

/* A value of a size that the compiler knows is a load and a store. */
static inline void copy_values(uint8_t *to, const void *values, size_t bytes)
{
    if (bytes == 8)
        memcpy(to, values, 8);
    else if (bytes == 4)
        memcpy(to, values, 4);
    else if (bytes != 0)
        memcpy(to, values, bytes);
}

/* `body` is zeroed, so that padding compares equal. */
static void encode(uint8_t *body, const orr_attr *attrs, uint32_t n_attrs)
{
    size_t at = 0;
    for (uint32_t i = 0; i < n_attrs; i++) {
        const orr_attr *attr = &attrs[i];
        const uint32_t tag =
            attr->kind | (attr->doc != 0 ? TAG_DOC : 0u) | (attr->list ? (unsigned)TAG_LIST : 0u);
        size_t n = at;
        memcpy(body + n, &attr->name, 4);
        memcpy(body + n + 4, &tag, 4);
        n += 8;
        if (attr->doc != 0) {
            memcpy(body + n, &attr->doc, 4);
            n += 4;
        }
        if (attr->list)
            memcpy(body + n, &attr->count, 4);
        copy_values(body + values_at(at, attr), attr->values,
                    attr->count * orr_attr_value_bytes(attr->kind));
        at = end_at(at, attr);
    }
}

static const list_head *head_of(const orr_attr_heap *heap, uint32_t list)
{
    return (const list_head *)(const void *)(heap->bytes.at + heap->list.at[list - 1]);
}

static uint32_t find_equal(const orr_attr_heap *heap, const list_head *list)
{
    orr_hash_index_probe probe = orr_hash_index_find(&heap->index, list->hash);
    for (uint32_t id; (id = orr_hash_index_next(&heap->index, &probe)) != ORR_NONE;) {
        const list_head *other = head_of(heap, id);
        if (other->bytes == list->bytes && memcmp(other + 1, list + 1, list->bytes) == 0)
            return id;
    }
    return ORR_NONE;
}

orr_status orr_attr_heap_add(orr_attr_heap *heap, const orr_attr *attrs, uint32_t n_attrs,
                             uint32_t n_strings, uint32_t *ret_list, orr_error *err)
{
    size_t bytes = 0;
    ORR_TRY(body_bytes(attrs, n_attrs, n_strings, &bytes, err));
    if (n_attrs == 0) {
        *ret_list = 0;
        return ORR_OK;
    }
    if (heap->list.n >= UINT32_MAX - 2)
        return orr_fail(err, ORR_LIMIT, "over 2^32 - 2 different lists of attributes");

    /* Written where it would stay, and left there only if it is new. */
    const size_t total = round_up(sizeof(list_head) + bytes, 8);
    if (!orr_array_reserve(&heap->bytes, total) || !orr_array_reserve(&heap->list, 1))
        return orr_fail_memory(err);
    uint8_t *at = heap->bytes.at + heap->bytes.n;
    memset(at, 0, total);
    list_head *head = (list_head *)(void *)at;
    encode(at + sizeof *head, attrs, n_attrs);
    head->bytes = (uint32_t)bytes;
    head->hash = orr_hash_bytes(head + 1, bytes);

    uint32_t list = find_equal(heap, head);
    if (list == ORR_NONE) {
        list = (uint32_t)heap->list.n + 1;
        if (!orr_hash_index_add(&heap->index, head->hash, list))
            return orr_fail_memory(err);
        heap->list.at[heap->list.n++] = heap->bytes.n;
        heap->bytes.n += total;
    }
    *ret_list = list;
    return ORR_OK;
}

orr_attr_iter orr_attr_heap_list(const orr_attr_heap *heap, uint32_t list)
{
    if (list == 0 || list > heap->list.n)
        return (orr_attr_iter){NULL, NULL};
    const list_head *head = head_of(heap, list);
    const uint8_t *body = (const uint8_t *)(head + 1);
    return (orr_attr_iter){body, body + head->bytes};
}

bool orr_attr_next(orr_attr_iter *iter, orr_attr *ret_attr)
{
    if (iter->at == iter->end)
        return false;
    const uint32_t *word = iter->at;
    const uint32_t tag = word[1];
    orr_attr attr = {.name = word[0], .kind = tag & TAG_KIND, .list = tag & TAG_LIST, .count = 1};
    word += 2;
    if (tag & TAG_DOC)
        attr.doc = *word++;
    if (tag & TAG_LIST)
        attr.count = *word++;
    /* The body begins at a multiple of 8 in memory as in the heap. */
    const size_t value_bytes = orr_attr_value_bytes(attr.kind);
    const uintptr_t values = value_bytes == 8 ? round_up((uintptr_t)word, 8) : (uintptr_t)word;
    attr.values = (const void *)values;
    iter->at = (const void *)round_up(values + attr.count * value_bytes, 4);
    *ret_attr = attr;
    return true;
}

void orr_attr_heap_freeze(orr_attr_heap *heap)
{
    orr_hash_index_done(&heap->index);
    if (heap->bytes.n == 0)
        return;
    /* A shrink that fails leaves the larger block, which is right too. */
    void *bytes = orr_realloc(heap->bytes.at, heap->bytes.n);
    if (bytes != NULL) {
        heap->bytes.at = bytes;
        heap->bytes.room = heap->bytes.n;
    }
    void *list = orr_realloc(heap->list.at, heap->list.n * sizeof *heap->list.at);
    if (list != NULL) {
        heap->list.at = list;
        heap->list.room = heap->list.n;
    }
}

void orr_attr_heap_done(orr_attr_heap *heap)
{
    orr_array_done(&heap->bytes);
    orr_array_done(&heap->list);
    orr_hash_index_done(&heap->index);
}

size_t orr_attr_heap_bytes(const orr_attr_heap *heap)
{
    return heap->bytes.room + heap->list.room * sizeof *heap->list.at +
           heap->index.room * sizeof *heap->index.slot;
}

static bool double_int(double value, int64_t *ret)
{
    if (!(value >= -9.2e18 && value <= 9.2e18))
        return false;
    *ret = (int64_t)value;
    return true;
}

bool orr_attr_int(const orr_attr *attr, int64_t *ret)
{
    const void *value = attr->values;
    if (attr->list || attr->count != 1)
        return false;
    switch ((orr_attr_kind)attr->kind) {
    case ORR_ATTR_DOUBLE:
        return double_int(*(const double *)value, ret);
    case ORR_ATTR_FLOAT:
        return double_int((double)*(const float *)value, ret);
    case ORR_ATTR_INT32:
    case ORR_ATTR_SINT32:
    case ORR_ATTR_SFIXED32:
        *ret = *(const int32_t *)value;
        return true;
    case ORR_ATTR_UINT32:
    case ORR_ATTR_FIXED32:
        *ret = *(const uint32_t *)value;
        return true;
    case ORR_ATTR_INT64:
    case ORR_ATTR_SINT64:
    case ORR_ATTR_SFIXED64:
    case ORR_ATTR_UINT64:
    case ORR_ATTR_FIXED64:
        *ret = *(const int64_t *)value;
        return true;
    case ORR_ATTR_BOOL:
        *ret = *(const uint8_t *)value;
        return true;
    default:
        return false;
    }
}
