/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_SPEC_PACKING_H
#define ORR_MODEL_SPEC_PACKING_H

#include <orrery/model.h>

/* What attention of samples packed of documents computes. A token sees tokens of its own document
 * alone. Letters: c slices of the context, b samples of a micro-batch.
 *
 * A context-parallel group cuts each sample into 2 c parts of equal length, whatever documents
 * stand in it, and slice i has the parts i and 2 c - 1 - i (Llama 3, arXiv 2407.21783, section
 * 3.3.2). Slices of one document have equally many pairs of a query and a key; of several they do
 * not, and a micro-batch takes as long as its slowest slice. */
typedef struct orr_packing {
    uint32_t seq, slices, samples;
    uint32_t window; /* of layers that see a part of the context: its tokens; 0: all of it */
    bool sliding;    /* the window ends at the query; else the context is cut into chunks */
} orr_packing;
/* Of one document that fills the sample both are 1. */
typedef struct orr_packed_pairs {
    double seen_frac; /* pairs that are seen, of those of one document; mean of samples */
    double uneven;    /* pairs of the slowest slice over the mean slice, mean of micro-batches */
} orr_packed_pairs;
/* Means over micro-batches packed one behind another from the stream of documents: at least 64
 * of them, and 4,096 samples or 2^17 documents, whichever comes first. `documents` NULL: one
 * document a sample. The arena is for scratch. Errors: LIMIT: samples of more than 2^26 tokens;
 * NO_MEMORY. */
orr_status orr_packed_pairs_of(const orr_documents *documents, const orr_packing *packing,
                               orr_arena *arena, orr_packed_pairs *ret,
                               orr_error *err) ORR_MUST_CHECK;

/* An empty cache; in the arena. NULL: out of memory. */
struct orr_packings *orr_packings_new(orr_arena *arena);

/* orr_model_flops() of a sample in whose layers of global attention, and in the others, so many
 * pairs of those of one document are seen. */
double orr_model_packed_flops(const orr_model *model, uint32_t seq, const orr_packed_pairs *whole,
                              const orr_packed_pairs *windowed);

#endif /* ORR_MODEL_SPEC_PACKING_H */
