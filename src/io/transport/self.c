/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "io/transport/parts.h"

enum { SPIN_NS = 30000, CROWDED_SPIN_NS = 1000 };

orr_status orr_transport_begin(const orr_transport *self, const orr_exchange *x, bool *ret_done,
                               orr_error *err)
{
    const bool sends = x->out_bytes > 0, receives = x->in_bytes > 0;
    if (x->channel >= ORR_CHANNELS)
        return orr_fail(err, ORR_INVALID, "channel %u, of %d", x->channel, ORR_CHANNELS);
    if ((sends && x->to >= self->ranks) || (receives && x->from >= self->ranks))
        return orr_fail(err, ORR_INVALID, "rank %u, of %u",
                        sends && x->to >= self->ranks ? x->to : x->from, self->ranks);
    const bool to_self = sends && x->to == self->rank,
               from_self = receives && x->from == self->rank;
    *ret_done = to_self || from_self || (!sends && !receives);
    if (to_self != from_self)
        return orr_fail(err, ORR_INVALID, "rank %u has only itself to %s", self->rank,
                        to_self ? "send to" : "hear from");
    if (to_self && x->out_bytes != x->in_bytes)
        return orr_transport_fail_length(self->rank, x->out_bytes, self->rank, x->in_bytes, err);
    if (to_self)
        memmove(x->in, x->out, x->in_bytes);
    return ORR_OK;
}

orr_status orr_transport_fail_length(uint32_t from, uint64_t sent, uint32_t to, uint64_t wanted,
                                     orr_error *err)
{
    return orr_fail(err, ORR_INVALID, "rank %u sent %llu bytes where rank %u wants %llu", from,
                    (unsigned long long)sent, to, (unsigned long long)wanted);
}

orr_status orr_transport_fail_timeout(uint32_t rank, int64_t deadline_ns, orr_error *err)
{
    return orr_fail(err, ORR_IO, "rank %u said nothing for %.3g s", rank,
                    1e-9 * (double)deadline_ns);
}

orr_status orr_transport_fail_aborted(uint32_t rank, orr_error *err)
{
    const orr_status status = orr_fail(err, ORR_IO, "rank %u gave up", rank);
    if (err != NULL)
        err->os_errno = ECANCELED;
    return status;
}

int64_t orr_transport_spin_ns(uint32_t ranks_here)
{
    cpu_set_t cores;
    const int n = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
    return ranks_here <= (uint32_t)n ? SPIN_NS : CROWDED_SPIN_NS;
}

static orr_status exchange(orr_transport *self, const orr_exchange *x, orr_error *err)
{
    bool done;
    return orr_transport_begin(self, x, &done, err);
}

static void nothing(orr_transport *self)
{
    (void)self;
}

orr_transport *orr_transport_self(void)
{
    static orr_transport alone = {
        .ranks = 1, .name = "self", .exchange = exchange, .abort = nothing, .close = nothing};
    return &alone;
}
