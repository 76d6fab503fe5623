/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_KINETO_IMPORT_H
#define ORR_TRACE_KINETO_IMPORT_H

#include "trace/kineto/reader.h"

/* For readers of other profilers' formats: each of their events becomes the kineto_event that
 * Kineto would have written, so that what follows (lanes, nesting, launches, streams,
 * communications) is one code for all. The order of calls, for each event:
 *
 *   kineto_begin_event(k, err)
 *   kineto_event e = {.ph = 'X', .cat = CAT_KERNEL};
 *   if (!kineto_set_span(k, &e, start_ns, end_ns)) return kineto_bad_event(k, "row", "...", err);
 *   kineto_set(&e, ARG_STREAM, 7); kineto_put_int(k, "registers per thread", 32, err);
 *   kineto_add_node(k, &e, err)
 *
 * and kineto_finish_as() at the end. */

static inline void kineto_set(kineto_event *e, kineto_arg arg, int64_t value)
{
    e->value[arg] = value;
    e->has |= UINT64_C(1) << arg;
}

/* Counts an event, reports progress, and forgets the attributes of the last one. Errors: NO_MEMORY,
 * CANCELED. */
orr_status kineto_begin_event(kineto *k, orr_error *err) ORR_MUST_CHECK;
/* Times of the event; an end before the start is counted. False: no times that are possible. */
bool kineto_set_span(kineto *k, kineto_event *e, int64_t start_ns, int64_t end_ns);
/* An event (`noun`: "row", "event") that `what` is wrong with: an error, or counted where the read
 * is tolerant. */
orr_status kineto_bad_event(kineto *k, const char *noun, const char *what,
                            orr_error *err) ORR_MUST_CHECK;

/* The bytes of a copy, and its rate by the times that were set. */
void kineto_set_bytes(kineto_event *e, int64_t bytes);
/* A text of the recording, interned: of ARG_COLLECTIVE and the like. */
orr_status kineto_set_text(kineto *k, kineto_event *e, kineto_arg arg, const char *text, size_t len,
                           orr_error *err) ORR_MUST_CHECK;
orr_status kineto_set_name(kineto *k, kineto_event *e, const char *text, size_t len,
                           orr_error *err) ORR_MUST_CHECK;

/* The name of a range of NVTX or roctx, which says that it is an operator of PyTorch ("aten::mm,
 * seq = 4, op_id = 12", by emit_nvtx()) or a call of NCCL or RCCL ("ncclAllReduce"). */
orr_status kineto_set_range_name(kineto *k, kineto_event *e, const char *name,
                                 orr_error *err) ORR_MUST_CHECK;

/* Attributes of the event; the last as "[x, y, z]", as Kineto has grids and blocks. */
orr_status kineto_put_int(kineto *k, const char *name, int64_t value,
                          orr_error *err) ORR_MUST_CHECK;
orr_status kineto_put_text(kineto *k, const char *name, const char *text, size_t len,
                           orr_error *err) ORR_MUST_CHECK;
orr_status kineto_put_dims(kineto *k, const char *name, int64_t x, int64_t y, int64_t z,
                           orr_error *err) ORR_MUST_CHECK;

orr_status kineto_name_thread(kineto *k, int64_t pid, int64_t tid, const char *name, size_t len,
                              orr_error *err) ORR_MUST_CHECK;
orr_status kineto_name_device(kineto *k, int64_t id, const char *name, size_t len,
                              orr_error *err) ORR_MUST_CHECK;

/* kineto_finish(), and the recording's format. */
orr_status kineto_finish_as(kineto *k, const char *source, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_TRACE_KINETO_IMPORT_H */
