/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_RESCALE_EMIT_HOST_OVERHEADS_H
#define ORR_RESCALE_EMIT_HOST_OVERHEADS_H

/* Host times of operators that nobody recorded, in ns. Assumed: round numbers of the size that Lin
 * et al., "Building a performance model for deep learning recommendation model training on GPUs"
 * (ISPASS 2022), give for T1 to T5 of PyTorch operators on V100 hosts. */
enum {
    ORR_HOST_T1_BETWEEN_OPS_NS = 4000,    /* T1: end of an operator -> start of the next        */
    ORR_HOST_T2_OP_TO_CALL_NS = 2000,     /* T2: start of an operator -> its first call, a level */
    ORR_HOST_T3_CALL_TO_OP_END_NS = 1000, /* T3: last call of an operator -> its end, a level    */
    ORR_HOST_T4_LAUNCH_NS = 5000,         /* T4: a launch                                        */
    ORR_HOST_T5_BETWEEN_CALLS_NS = 3000,  /* T5: between two calls of an operator                */
    ORR_HOST_EVENT_NS = 1000              /* recording of an event, a stream's wait for one      */
};

#endif /* ORR_RESCALE_EMIT_HOST_OVERHEADS_H */
