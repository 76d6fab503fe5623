/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ASTRA_TEXT_H
#define ASTRA_TEXT_H

/* Programs of astra/README.md as Chakra traces: what astra/chakra.py does. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct proto {
    uint8_t *at;
    size_t n, room;
} proto;

static inline void proto_byte(proto *p, uint8_t byte)
{
    if (p->n == p->room)
        p->at = realloc(p->at, p->room = 2 * p->room + 256);
    p->at[p->n++] = byte;
}

static inline void proto_varint(proto *p, uint64_t value)
{
    for (; value > 127; value >>= 7)
        proto_byte(p, (uint8_t)(value | 128));
    proto_byte(p, (uint8_t)value);
}

static inline void proto_number(proto *p, uint32_t field, uint64_t value)
{
    proto_varint(p, field << 3);
    proto_varint(p, value);
}

static inline void proto_bytes(proto *p, uint32_t field, const void *bytes, size_t n)
{
    if (field > 0)
        proto_varint(p, field << 3 | 2);
    proto_varint(p, n);
    for (size_t i = 0; i < n; i++)
        proto_byte(p, ((const uint8_t *)bytes)[i]);
}

static inline void proto_attr(proto *p, const char *name, uint32_t field, uint64_t value)
{
    proto a = {0};
    proto_bytes(&a, 1, name, strlen(name));
    proto_number(&a, field, value);
    proto_bytes(p, 10, a.at, a.n);
    free(a.at);
}

static inline void proto_attr_bytes(proto *p, const char *name, uint32_t field, const void *bytes,
                                    size_t n)
{
    proto a = {0};
    proto_bytes(&a, 1, name, strlen(name));
    proto_bytes(&a, field, bytes, n);
    proto_bytes(p, 10, a.at, a.n);
    free(a.at);
}

enum { FIELD_INT32 = 7, FIELD_INT64 = 9, FIELD_UINT64 = 13, FIELD_BOOL = 27, FIELD_TEXT = 29 };
enum { TYPE_COMP = 4, TYPE_SEND, TYPE_RECV, TYPE_COLL };

static inline void put_collective(proto *p, const char *word, size_t n)
{
    static const struct {
        const char *name;
        uint32_t type;
    } kinds[] = {{"AR", 0}, {"AG", 2}, {"BC", 5}, {"AA", 6}, {"RS", 7}};
    const bool broadcast = word[0] == 'B';
    char *end;
    const uint64_t size = strtoull(word + 2, &end, 10);
    proto_number(p, 3, TYPE_COLL);
    if (broadcast)
        proto_number(p, 7, size);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (memcmp(word, kinds[i].name, 2) == 0)
            proto_attr(p, "comm_type", FIELD_INT64, kinds[i].type);
    proto_attr(p, "comm_size", FIELD_INT64, broadcast ? 0 : size);
    if (*end == '@') {
        const char *group = end + 1;
        (void)strtoull(group, &end, 10);
        proto_attr_bytes(p, "pg_name", FIELD_TEXT, group, (size_t)(end - group));
    }
    if (*end == '%') {
        uint8_t flags[16] = {10};
        uint32_t k = 0;
        for (end++; end < word + n && (*end == '0' || *end == '1'); end++)
            flags[2 + k++] = *end == '1';
        flags[1] = (uint8_t)k;
        proto_attr_bytes(p, "involved_dim", 28, flags, 2 + k);
    }
}

static inline void put_message(proto *p, const char *word)
{
    const bool send = word[0] == 's';
    char *end;
    const uint64_t peer = strtoull(word + 1, &end, 10), tag = strtoull(end + 1, &end, 10);
    proto_number(p, 3, send ? TYPE_SEND : TYPE_RECV);
    proto_attr(p, "comm_size", FIELD_INT64, strtoull(end + 1, &end, 10));
    proto_attr(p, "comm_tag", FIELD_INT32, tag);
    proto_attr(p, send ? "comm_dst" : "comm_src", FIELD_INT32, peer);
    proto_attr(p, "is_cpu_op", FIELD_INT32, 0);
}

static inline void put_word(proto *p, const char *word, size_t n)
{
    char *end;
    switch (word[0]) {
    case 'h':
    case 'g':
        proto_attr(p, "is_cpu_op", FIELD_BOOL, word[0] == 'h');
        /* fall through */
    case 'c':
        proto_number(p, 3, TYPE_COMP);
        proto_number(p, 7, strtoull(word + 1, &end, 10));
        break;
    case 'f':
        proto_number(p, 3, TYPE_COMP);
        proto_attr(p, "num_ops", FIELD_INT64, strtoull(word + 1, &end, 10));
        proto_attr(p, "tensor_size", FIELD_UINT64, strtoull(end + 1, &end, 10));
        break;
    case 'i': /* an invalid node: type 0 */
        break;
    case 's':
    case 'r':
        put_message(p, word);
        break;
    default:
        put_collective(p, word, n);
    }
}

static inline const char *put_deps(proto *p, uint32_t field, const char *text)
{
    char *end = (char *)text;
    do
        proto_number(p, field, strtoull(end + 1, &end, 10));
    while (*end == ',');
    return end;
}

/* A program, up to a '|', a tab or the end. */
static inline proto program_encode(const char *text, size_t n)
{
    static const uint8_t version[] = {10, 5, '0', '.', '0', '.', '4'};
    const char *end = text + n;
    proto out = {0};
    uint64_t id = 0;
    proto_bytes(&out, 0, version, sizeof version);
    while (text < end) {
        proto node = {0};
        const bool free_node = *text == '!';
        const char *word = text + free_node, *stop = word;
        while (stop < end && strchr(" <^", *stop) == NULL)
            stop++;
        proto_number(&node, 1, ++id);
        proto_bytes(&node, 2, "n", 1);
        text = stop;
        if (text < end && *text == '<')
            text = put_deps(&node, 5, text);
        else if (!free_node && id > 1)
            proto_number(&node, 5, id - 1);
        if (text < end && *text == '^')
            text = put_deps(&node, 4, text);
        put_word(&node, word, (size_t)(stop - word));
        proto_bytes(&out, 0, node.at, node.n);
        free(node.at);
        while (text < end && *text == ' ')
            text++;
    }
    return out;
}

#endif /* ASTRA_TEXT_H */
