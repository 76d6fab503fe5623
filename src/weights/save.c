/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "weights/gguf_model.h"
#include "weights/gguf_tokenizer_write.h"
#include "weights/tensor_names.h"
#include "weights/write.h"

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static orr_dtype dtype_of(orr_row_format format)
{
    switch (format) {
    case ORR_ROW_FORMAT_FP16:
        return ORR_DTYPE_FP16;
    case ORR_ROW_FORMAT_BF16:
        return ORR_DTYPE_BF16;
    default:
        return ORR_DTYPE_FP32;
    }
}

/* Writes config.json beside the model in a folder. */
static orr_status write_config(const orr_model *model, orr_row_format format, const char *path,
                               orr_error *err)
{
    if (ends_with(path, ".safetensors"))
        return ORR_OK;
    orr_arena *arena = orr_arena_new(0, 0);
    const char *file = arena != NULL ? orr_arena_printf(arena, "%s/config.json", path) : NULL;
    const orr_status status = file != NULL
                                  ? orr_model_config_write(model, dtype_of(format), file, err)
                                  : orr_fail_memory(err);
    orr_arena_free(arena);
    return status;
}

orr_status orr_weights_save(const orr_model *model, const orr_parameter_reader *reader,
                            orr_row_format format, const char *path, int64_t shard_bytes,
                            orr_error *err)
{
    orr_save_plan *plan;
    if (format > ORR_ROW_FORMAT_BF16)
        return orr_fail(err, ORR_UNSUPPORTED, "safetensors are written in fp32, fp16 or bf16");
    ORR_TRY(orr_save_plan_make(model, reader, format, false, &plan, err));
    const orr_weight_source source = orr_save_plan_source(plan);
    orr_status status = orr_safetensors_write(&source, path, shard_bytes, err);
    orr_save_plan_free(plan);
    if (status == ORR_OK)
        status = write_config(model, format, path, err);
    return status;
}

static orr_status write_gguf(orr_save_plan *plan, orr_gguf_metadata_writer *keys,
                             const orr_model *model, orr_row_format format,
                             const orr_tokenizer *tokenizer, const char *path, orr_error *err)
{
    const orr_weight_source source = orr_save_plan_source(plan);
    orr_architecture architecture;
    ORR_TRY(orr_architecture_of(model, &architecture, err));
    orr_gguf_put_model(keys, model, orr_architecture_gguf(architecture), format);
    if (tokenizer != NULL)
        ORR_TRY(orr_gguf_put_tokenizer(keys, tokenizer, err));
    return orr_gguf_write(&source, keys, path, err);
}

orr_status orr_gguf_save(const orr_model *model, const orr_parameter_reader *reader,
                         orr_row_format format, const orr_tokenizer *tokenizer, const char *path,
                         orr_error *err)
{
    orr_save_plan *plan = NULL;
    orr_gguf_metadata_writer keys = {0};
    orr_status status;
    ORR_TRY_OUT(status, orr_output_open_memory(&keys.out, err));
    ORR_TRY_OUT(status, orr_save_plan_make(model, reader, format, true, &plan, err));
    status = write_gguf(plan, &keys, model, format, tokenizer, path, err);
out:
    orr_save_plan_free(plan);
    orr_output_close(keys.out);
    return status;
}
