/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "weights/gguf.h"

/* ggml.h, enum ggml_type; numbers that are left out were withdrawn. */
static const char *const NAMES[] = {
    [0] = "F32",     [1] = "F16",      [2] = "Q4_0",   [3] = "Q4_1",    [6] = "Q5_0",
    [7] = "Q5_1",    [8] = "Q8_0",     [9] = "Q8_1",   [10] = "Q2_K",   [11] = "Q3_K",
    [12] = "Q4_K",   [13] = "Q5_K",    [14] = "Q6_K",  [15] = "Q8_K",   [16] = "IQ2_XXS",
    [17] = "IQ2_XS", [18] = "IQ3_XXS", [19] = "IQ1_S", [20] = "IQ4_NL", [21] = "IQ3_S",
    [22] = "IQ2_S",  [23] = "IQ4_XS",  [24] = "I8",    [25] = "I16",    [26] = "I32",
    [27] = "I64",    [28] = "F64",     [29] = "IQ1_M", [30] = "BF16",   [34] = "TQ1_0",
    [35] = "TQ2_0",  [39] = "MXFP4",
};

static const struct {
    uint8_t type, format;
} FORMATS[] = {
    {ORR_GGML_F32, ORR_ROW_FORMAT_FP32},  {ORR_GGML_F16, ORR_ROW_FORMAT_FP16},
    {ORR_GGML_BF16, ORR_ROW_FORMAT_BF16}, {ORR_GGML_Q8_0, ORR_ROW_FORMAT_Q8_0},
    {ORR_GGML_Q4_0, ORR_ROW_FORMAT_Q4_0},
};
enum { N_FORMATS = sizeof FORMATS / sizeof *FORMATS };

const char *orr_gguf_type_name(uint32_t type)
{
    return type < sizeof NAMES / sizeof *NAMES ? NAMES[type] : NULL;
}

orr_row_format orr_gguf_format(uint32_t type)
{
    for (int i = 0; i < N_FORMATS; i++)
        if (FORMATS[i].type == type)
            return (orr_row_format)FORMATS[i].format;
    return ORR_ROW_FORMATS;
}

uint32_t orr_gguf_type_of(orr_row_format format)
{
    for (int i = 0; i < N_FORMATS; i++)
        if (FORMATS[i].format == format)
            return FORMATS[i].type;
    return UINT32_MAX;
}

const char *orr_gguf_text(const orr_weights *weights, const char *key)
{
    for (uint32_t i = 0; i < weights->n_metadata; i++)
        if (strcmp(weights->metadata[i].key, key) == 0)
            return weights->metadata[i].value;
    return NULL;
}

const orr_gguf_array *orr_gguf_array_find(const orr_weights *weights, const char *key)
{
    const orr_weight_store *store = orr_weight_store_of(weights);
    for (size_t i = 0; i < store->arrays.n; i++)
        if (strcmp(store->arrays.at[i].key, key) == 0)
            return &store->arrays.at[i];
    return NULL;
}
