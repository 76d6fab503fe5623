/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_XPLANE_HLO_H
#define ORR_TRACE_XPLANE_HLO_H

#include <stdbool.h>

#include "io/json/reader.h"

/* Operators of HLO by their names, "all-reduce.3", and categories. Opcodes: XLA's "Operation
 * Semantics" (openxla.org/xla/operation_semantics). */

/* The collective that an operator is, as PyTorch names it; NULL: none. Of an asynchronous one
 * ("all-gather-start", "all-gather-done") it is the end, which waits. */
const char *hlo_collective(orr_text name);

/* Loops, calls and branches: they only contain operators. By the category where there is one. */
bool hlo_is_control_flow(orr_text name, orr_text category);

#endif /* ORR_TRACE_XPLANE_HLO_H */
