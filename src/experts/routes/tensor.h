/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_ROUTES_TENSOR_H
#define ORR_EXPERTS_ROUTES_TENSOR_H

#include "base/array.h"
#include "io/json/reader.h"

/* Experts of tokens as servers log them in JSON: shape (tokens, layers, K), or (layers, K) of one
 * token. */
typedef struct orr_route_tensor {
    bool there;
    uint64_t tokens;
    uint32_t layers, top_k;
    orr_array(int64_t) value; /* negative: was not recorded, as of a token that was in a cache */
} orr_route_tensor;
void orr_route_tensor_done(orr_route_tensor *tensor);

/* The next value of a JSON reader: null, nested lists, base64 of a .npy file (vLLM), or an object
 * with `shape`, `dtype` and `data` in base64 (Dynamo). Errors: PARSE with the byte; UNSUPPORTED:
 * bytes without a shape; NO_MEMORY. */
orr_status orr_route_tensor_read(orr_json *json, orr_route_tensor *ret,
                                 orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPERTS_ROUTES_TENSOR_H */
