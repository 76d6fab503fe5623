/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/comm/names.h"

#include <string.h>

/* Longer words first: "reducescatter" contains "reduce" and "scatter". */
static const struct {
    const char *word;
    orr_collective collective;
} WORDS[] = {
    {"reducescatter", ORR_COLL_REDUCE_SCATTER},
    {"allreduce", ORR_COLL_ALL_REDUCE},
    {"allgather", ORR_COLL_ALL_GATHER},
    {"alltoall", ORR_COLL_ALL_TO_ALL},
    {"all2all", ORR_COLL_ALL_TO_ALL},
    {"broadcast", ORR_COLL_BROADCAST},
    {"barrier", ORR_COLL_BARRIER},
    {"sendrecv", ORR_COLL_UNKNOWN},
    {"reduce", ORR_COLL_REDUCE},
    {"gather", ORR_COLL_GATHER},
    {"scatter", ORR_COLL_SCATTER},
    {"send", ORR_COLL_SEND},
    {"recv", ORR_COLL_RECV},
};

/* Lower case, without '_', and without the arguments of a kernel's name. */
static size_t squeeze(const char *name, size_t len, char *out, size_t room)
{
    size_t n = 0;
    for (size_t i = 0; i < len && n + 1 < room && name[i] != '(' && name[i] != '<'; i++) {
        const char c = name[i];
        if (c != '_')
            out[n++] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
    }
    out[n] = '\0';
    return n;
}

orr_collective orr_collective_from_name(const char *name, size_t len, bool *ret_vector)
{
    char text[160];
    squeeze(name, len, text, sizeof text);
    *ret_vector = false;
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        const char *at = strstr(text, WORDS[i].word);
        if (at == NULL)
            continue;
        const char after = at[strlen(WORDS[i].word)];
        *ret_vector = after == 'v' || strstr(text, "coalesced") != NULL;
        return WORDS[i].collective;
    }
    return ORR_COLL_UNKNOWN;
}

/* As C++ and PyTorch spell them, without case and '_'. */
static const struct {
    const char *name;
    uint32_t bytes;
} DTYPES[] = {
    {"float", 4},
    {"double", 8},
    {"half", 2},
    {"bfloat16", 2},
    {"int", 4},
    {"long", 8},
    {"long int", 8},
    {"short", 2},
    {"short int", 2},
    {"char", 1},
    {"signed char", 1},
    {"byte", 1},
    {"unsigned char", 1},
    {"bool", 1},
    {"float8e4m3fn", 1},
    {"float8e5m2", 1},
    {"float8e4m3fnuz", 1},
    {"float8e5m2fnuz", 1},
    {"complexhalf", 4},
    {"complex<half>", 4},
    {"complex<c10::half>", 4},
    {"complexfloat", 8},
    {"complex<float>", 8},
    {"complexdouble", 16},
    {"complex<double>", 16},
    {"uint8", 1},
    {"uint16", 2},
    {"uint32", 4},
    {"uint64", 8},
    {"int8", 1},
    {"int16", 2},
    {"int32", 4},
    {"int64", 8},
    {"float16", 2},
    {"float32", 4},
    {"float64", 8},
    {"qint8", 1},
    {"quint8", 1},
    {"qint32", 4},
};

uint32_t orr_element_bytes(const char *name, size_t len)
{
    if (len > 8 && memcmp(name, "Tensor(", 7) == 0 && name[len - 1] == ')') {
        name += 7;
        len -= 8;
    }
    if (len > 5 && memcmp(name, "c10::", 5) == 0) {
        name += 5;
        len -= 5;
    }
    char text[32];
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (name[i] == '_')
            continue;
        if (n + 1 == sizeof text)
            return 0;
        text[n++] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] + 32 : name[i]);
    }
    text[n] = '\0';
    for (size_t i = 0; i < sizeof DTYPES / sizeof *DTYPES; i++)
        if (strcmp(text, DTYPES[i].name) == 0)
            return DTYPES[i].bytes;
    return 0;
}

static int64_t times(int64_t bytes, int32_t n)
{
    int64_t product;
    return bytes < 0 || n <= 0 || __builtin_mul_overflow(bytes, n, &product) ? -1 : product;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t orr_comm_size(const orr_comm *comm)
{
    const int64_t in = comm->in_bytes, out = comm->out_bytes;
    switch ((orr_collective)comm->collective) {
    case ORR_COLL_BARRIER:
        return 0;
    case ORR_COLL_BROADCAST:
        return larger(in, out);
    case ORR_COLL_RECV:
    case ORR_COLL_SCATTER:
        return out >= 0 ? out : in;
    case ORR_COLL_ALL_GATHER:
        return in >= 0 ? in : out >= 0 && comm->group_size > 0 ? out / comm->group_size : -1;
    case ORR_COLL_REDUCE_SCATTER:
        return in >= 0 ? in : times(out, comm->group_size);
    default:
        return in >= 0 ? in : out;
    }
}
