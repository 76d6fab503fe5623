/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_ROUTES_CELL_H
#define ORR_EXPERTS_ROUTES_CELL_H

#include <orrery/experts.h>

#include "io/json/reader.h"

/* Experts of a token in a layer as text: "3;17", "3-17" or "3 17". Almost all of the bytes of
 * routes are such cells. */
typedef struct orr_route_cells {
    uint32_t top_k, experts;        /* experts: of a layer; 0: any below ORR_EXPERTS_MAX */
    uint64_t cell;                  /* number of cells that were read */
    uint64_t seen[ORR_EXPERTS_MAX]; /* the last cell that had the expert */
} orr_route_cells;

/* Reads top_k different experts from `at` on and returns the byte behind them; NULL: there is
 * something else, which orr_route_cell_read() tells. Looks at up to 4 bytes behind what it reads.
 */
const char *orr_route_cell_scan(orr_route_cells *cells, const char *at, uint16_t *ret);
/* The same, slowly, of a whole cell, which may have leading zeros. Errors: PARSE, INVALID (an
 * expert beyond the model), LIMIT; *ret_at is the byte of the cell. */
orr_status orr_route_cell_read(orr_route_cells *cells, orr_text cell, uint16_t *ret, size_t *ret_at,
                               orr_error *err) ORR_MUST_CHECK;
/* Begins a cell, then adds experts to it. Errors as above. */
void orr_route_cell_begin(orr_route_cells *cells);
orr_status orr_route_cell_add(orr_route_cells *cells, uint64_t expert,
                              orr_error *err) ORR_MUST_CHECK;
/* The next part of a cell; false: there is none. Scores, which may be negative, are not split by
 * '-'. */
bool orr_route_cell_next(orr_text *rest, bool scores, orr_text *ret);

#endif /* ORR_EXPERTS_ROUTES_CELL_H */
