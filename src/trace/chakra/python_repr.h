/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_CHAKRA_PYTHON_REPR_H
#define ORR_TRACE_CHAKRA_PYTHON_REPR_H

#include "io/json/reader.h"
#include "io/protobuf/wire.h"

/* JSON text as Python prints the same value, for the strings of Chakra's IOInfo:
 * [[9, 6, 0, 48, 4, "cuda:0"], true, null, 1.000000] becomes
 * [[9, 6, 0, 48, 4, 'cuda:0'], True, None, 1.0]. The text must be valid JSON. */
void orr_python_repr(orr_proto_buffer *out, orr_text json);

/* The other way: what Python wrote, as JSON; with a blank after commas and colons or without. */
void orr_python_to_json(orr_proto_buffer *out, orr_text python, bool blanks);

#endif /* ORR_TRACE_CHAKRA_PYTHON_REPR_H */
