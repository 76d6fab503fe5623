/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/embedding/sharded_table.h"
#include "kernel/format/row.h"

/* Formats in which vectors travel: rows of the format of that name. */
static orr_row_format format_of(orr_embedding_codec codec)
{
    static const orr_row_format FORMATS[ORR_EMBEDDING_CODECS] = {
        [ORR_EMBEDDING_CODEC_FP32] = ORR_ROW_FORMAT_FP32,
        [ORR_EMBEDDING_CODEC_FP16] = ORR_ROW_FORMAT_FP16,
        [ORR_EMBEDDING_CODEC_BF16] = ORR_ROW_FORMAT_BF16,
        [ORR_EMBEDDING_CODEC_INT8] = ORR_ROW_FORMAT_INT8,
    };
    return FORMATS[codec];
}

int64_t orr_embedding_codec_bytes(orr_embedding_codec codec, int64_t columns)
{
    return orr_row_format_bytes(format_of(codec), columns);
}

void orr_codec_encode(orr_embedding_codec codec, const float *from, int64_t n, int64_t columns,
                      int64_t from_stride, void *to)
{
    const int64_t bytes = orr_embedding_codec_bytes(codec, columns);
    for (int64_t i = 0; i < n; i++)
        orr_row_from_fp32(format_of(codec), from + i * from_stride, columns,
                          (char *)to + i * bytes);
}

void orr_codec_decode(orr_embedding_codec codec, const void *from, int64_t n, int64_t columns,
                      float *to, int64_t to_stride)
{
    const int64_t bytes = orr_embedding_codec_bytes(codec, columns);
    for (int64_t i = 0; i < n; i++)
        orr_row_to_fp32(format_of(codec), (const char *)from + i * bytes, columns,
                        to + i * to_stride);
}
