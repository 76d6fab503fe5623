/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_PLACEMENT_FILE_H
#define ORR_EXPERTS_PLACEMENT_FILE_H

#include "experts/placement/index.h"
#include "io/stream/output.h"

/* Files of placements. A parser makes the placement of a text, which messages call `file`; the
 * result is checked by the caller. */
typedef struct orr_placement_text {
    const char *at;
    size_t n;
    const char *file;
    uint32_t ranks, host_ranks; /* as in orr_expert_placement_read() */
} orr_placement_text;

/* placement.yaml. ret_missing: shape (*ret_n, 2), experts that the file says have no slot. */
orr_status orr_placement_parse_yaml(const orr_placement_text *text, orr_arena *arena,
                                    orr_expert_placement *ret, const uint32_t (**ret_missing)[2],
                                    uint32_t *ret_n, orr_error *err) ORR_MUST_CHECK;
orr_status orr_placement_print_yaml(const orr_expert_placement *placement, orr_output *out,
                                    orr_error *err) ORR_MUST_CHECK;

/* What SGLang and vLLM have. */
orr_status orr_placement_parse_json(const orr_placement_text *text, orr_arena *arena,
                                    orr_expert_placement *ret, orr_error *err) ORR_MUST_CHECK;
/* `placement` has equally many slots on all ranks and layers; `index` is of it. */
void orr_placement_print_sglang(const orr_expert_placement *placement, orr_output *out);
void orr_placement_print_vllm(const orr_expert_placement *placement, orr_copy_index *index,
                              orr_output *out);

/* orr_expert_placement_read() of a text. */
orr_status orr_placement_parse(const orr_placement_text *text, orr_arena *arena,
                               orr_expert_placement *ret, orr_error *err) ORR_MUST_CHECK;
/* orr_expert_placement_write() to an output. */
orr_status orr_placement_print(const orr_expert_placement *placement, orr_placement_format format,
                               orr_output *out, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPERTS_PLACEMENT_FILE_H */
