/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/comm/hint.h"

#include <string.h>

#include "trace/comm/names.h"

/* Names are compared without case, '_' and blanks: "void ncclDevKernel_AllReduce" starts with
 * "voidnccl". The part that tells the collective is near the start of every name seen. */
enum { FOLDED_MOST = 128 };
typedef struct folded {
    char at[FOLDED_MOST + 1];
} folded;

static folded fold(const char *name, size_t len)
{
    folded f;
    size_t n = 0;
    for (size_t i = 0; i < len && n < FOLDED_MOST; i++) {
        const char c = name[i];
        if (c != '_' && c != ' ')
            f.at[n++] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    f.at[n] = '\0';
    return f;
}

static bool begins(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static orr_comm_hint hint_of_word(const char *text, size_t len)
{
    bool vector = false;
    const orr_collective collective = orr_collective_from_name(text, len, &vector);
    return (orr_comm_hint){.communicates = collective != ORR_COLL_UNKNOWN,
                           .vector = vector,
                           .collective = (uint8_t)collective};
}

/* Libraries all of whose kernels communicate. */
static const char *const kernel_families[] = {"nccl", "rccl",   "msccl", "hccl",
                                              "hcom", "oneccl", "ccl::", "nvshmem"};

static const struct {
    const char *word;
    uint8_t collective;
} direct_kernels[] = {
    {"crossdevicereduce", ORR_COLL_ALL_REDUCE},
    {"oneshotallreduce", ORR_COLL_ALL_REDUCE},
    {"twoshotallreduce", ORR_COLL_ALL_REDUCE},
    {"multimemallreduce", ORR_COLL_ALL_REDUCE},
    {"multimemoneshotallreduce", ORR_COLL_ALL_REDUCE},
    {"multimemallgather", ORR_COLL_ALL_GATHER},
    {"deepep::", ORR_COLL_ALL_TO_ALL},
};

orr_comm_hint orr_comm_of_kernel(const char *name, size_t len)
{
    const folded f = fold(name, len);
    const char *text = begins(f.at, "void") ? f.at + 4 : f.at;
    for (size_t i = 0; i < sizeof kernel_families / sizeof *kernel_families; i++)
        if (begins(text, kernel_families[i])) {
            orr_comm_hint hint = hint_of_word(text, strlen(text));
            hint.communicates = true;
            hint.vector = false; /* a kernel's name says nothing about sizes */
            return hint;
        }
    for (size_t i = 0; i < sizeof direct_kernels / sizeof *direct_kernels; i++)
        if (strstr(text, direct_kernels[i].word) != NULL)
            return (orr_comm_hint){.communicates = true,
                                   .collective = direct_kernels[i].collective};
    return (orr_comm_hint){.communicates = false};
}

static const char *const backends[] = {
    "nccl:", "gloo:", "mpi:", "ucc:", "xccl:", "hccl:", "rccl:", "c10d::"};

orr_comm_hint orr_comm_of_host(const char *name, size_t len)
{
    const folded f = fold(name, len);
    if (strcmp(f.at, "recordparamcomms") == 0)
        return (orr_comm_hint){.communicates = true};
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
        if (begins(f.at, backends[i])) {
            const char *text = f.at + strlen(backends[i]);
            return orr_comm_of_collective(text, strlen(text));
        }
    return (orr_comm_hint){.communicates = false};
}

bool orr_comm_runs_on_host(const char *name, size_t len)
{
    return (len > 5 && memcmp(name, "gloo:", 5) == 0) || (len > 4 && memcmp(name, "mpi:", 4) == 0);
}

orr_comm_hint orr_comm_of_collective(const char *name, size_t len)
{
    orr_comm_hint hint = hint_of_word(name, len);
    if (!hint.communicates && strstr(fold(name, len).at, "coalesced") != NULL)
        hint = (orr_comm_hint){.communicates = true, .vector = true};
    return hint;
}

/* Derives one side of a collective whose other side is n times as large. */
static void widen(int64_t *part, int64_t *whole, int32_t n, bool vector)
{
    int64_t product;
    if (n < 1)
        return;
    if (*part < 0 && *whole >= 0 && !vector)
        *part = *whole / n;
    else if (*part >= 0 && (*whole < 0 || (*whole == *part && !vector)) &&
             !__builtin_mul_overflow(*part, (int64_t)n, &product))
        *whole = product;
}

void orr_comm_set_bytes(orr_comm *comm, int64_t in_bytes, int64_t out_bytes)
{
    int64_t in = in_bytes, out = out_bytes;
    const int64_t most = in > out ? in : out;
    switch ((orr_collective)comm->collective) {
    case ORR_COLL_ALL_REDUCE:
    case ORR_COLL_REDUCE:
    case ORR_COLL_BROADCAST:
        in = out = most;
        break;
    case ORR_COLL_ALL_GATHER:
        widen(&in, &out, comm->group_size, comm->vector);
        break;
    case ORR_COLL_REDUCE_SCATTER:
        widen(&out, &in, comm->group_size, comm->vector);
        break;
    case ORR_COLL_SEND:
        in = most;
        out = most < 0 ? -1 : 0;
        break;
    case ORR_COLL_RECV:
        out = most;
        in = most < 0 ? -1 : 0;
        break;
    case ORR_COLL_BARRIER:
        in = out = 0;
        break;
    case ORR_COLL_UNKNOWN:
    case ORR_COLL_GATHER:
    case ORR_COLL_SCATTER:
    case ORR_COLL_ALL_TO_ALL:
        break;
    }
    comm->in_bytes = in;
    comm->out_bytes = out;
}
