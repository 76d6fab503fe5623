/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/experts/counted_transport.h"

static orr_status exchange(orr_transport *self, const orr_exchange *x, orr_error *err)
{
    orr_counted_transport *t = self->ctx;
    const bool shares = x->to / t->host_ranks == self->rank / t->host_ranks;
    if (x->to != self->rank)
        t->sent[shares ? ORR_WIRE_HOST : ORR_WIRE_NETWORK] += x->out_bytes;
    return t->to->exchange(t->to, x, err);
}

static void stop(orr_transport *self)
{
    orr_counted_transport *t = self->ctx;
    t->to->abort(t->to);
}

/* The other transport is its owner's to close. */
static void do_nothing(orr_transport *self)
{
    (void)self;
}

void orr_counted_transport_init(orr_counted_transport *ret, orr_transport *to, uint32_t host_ranks)
{
    *ret = (orr_counted_transport){.transport = {.rank = to->rank,
                                                 .ranks = to->ranks,
                                                 .name = to->name,
                                                 .ctx = ret,
                                                 .exchange = exchange,
                                                 .abort = stop,
                                                 .close = do_nothing},
                                   .to = to,
                                   .host_ranks = host_ranks > 0 ? host_ranks : to->ranks};
    ret->sent = ret->other;
}
