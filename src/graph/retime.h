/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_GRAPH_RETIME_H
#define ORR_GRAPH_RETIME_H

#include "graph/frozen.h"

/* What a retimed graph has of its own, freed. */
void orr_retimed_free(orr_frozen *frozen);

#endif /* ORR_GRAPH_RETIME_H */
