/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SYNTHESIS_WALK_H
#define ORR_SYNTHESIS_WALK_H

#include "synthesis/source.h"

/* What a generated job is made of: a matched-block bootstrap over the cuts of the sources.
 *
 * A step is begun at the beginning of some step and goes on in the recorded order. Each time that
 * another 1/ORR_SYNTHESIS_BLOCKS of a step is done, the next block is drawn, with equal chances,
 * among the cuts of all sources that went before by the same three operators and stand at the same
 * place of their step, within ORR_SYNTHESIS_NEAR of the nodes of the first rank, and twice that of
 * its time and of the nodes of every other; of those, among the steps that gave least so far: every
 * step counts as much as another. Place is counted by what was emitted, so that errors do not add
 * up. Obfuscated, the source is drawn first, of those that gave least or up to two blocks more,
 * then a step of it, and the nearest cut is taken whatever went before it.
 *
 * Sources: Künsch, Annals of Statistics 17(3), 1989 (block bootstrap); Carlstein et al., Bernoulli
 * 4(3), 1998 (matched blocks). */
enum { ORR_SYNTHESIS_BLOCKS = 16 };
#define ORR_SYNTHESIS_NEAR    0.01
#define ORR_SYNTHESIS_NEAR_BY (1.0 / 32) /* obfuscated */

typedef struct orr_block_run {
    uint32_t source;
    uint32_t from_cut, to_cut;
    uint32_t step; /* of the generated job */
} orr_block_run;

typedef struct orr_walk {
    const orr_block_run *runs; /* shape (n_runs), in order */
    uint32_t n_runs, n_steps;
    uint32_t follows; /* the source in which the first step begins */
} orr_walk;

/* n_steps 0: as many as the source that it follows has. In the arena. Errors: NO_MEMORY. */
orr_status orr_walk_draw(const orr_source *sources, uint32_t n, uint32_t n_steps, uint64_t seed,
                         bool obfuscate, orr_arena *arena, orr_walk *ret,
                         orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_SYNTHESIS_WALK_H */
