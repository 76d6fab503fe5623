/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/arguments/checkpoint.h"
#include "engine/checkpoint/table_folder.h"

/* Parameters straight from one checkpoint into another. */
typedef struct exporting {
    orr_session session;
    orr_checkpoint_files checkpoint;
    float *numbers;
    int64_t room;
} exporting;

static orr_status read_parameter(void *ctx, const orr_weight_key *key, const orr_type *type,
                                 const float **ret, orr_error *err)
{
    exporting *e = ctx;
    const int64_t n = orr_type_elements(type);
    if (n > e->room) {
        float *larger = orr_realloc(e->numbers, (size_t)n * sizeof *larger);
        if (larger == NULL)
            return orr_fail_memory(err);
        e->numbers = larger;
        e->room = n;
    }
    ORR_TRY(
        orr_weights_read(e->checkpoint.weights, e->checkpoint.model, key, type, e->numbers, err));
    *ret = e->numbers;
    return ORR_OK;
}

/* As most numbers of the file are kept. */
static orr_row_format format_of(const orr_weights *weights)
{
    int64_t numbers[ORR_ROW_FORMATS] = {0};
    uint8_t most = ORR_ROW_FORMAT_FP32;
    for (uint32_t i = 0; i < weights->n; i++) {
        const orr_weight *w = &weights->tensors[i];
        int64_t n = 1;
        for (int32_t d = 0; d < w->rank; d++)
            n *= w->dim[d];
        numbers[w->format] += n;
    }
    for (uint8_t f = 0; f < ORR_ROW_FORMATS; f++)
        if (numbers[f] > numbers[most])
            most = f;
    return (orr_row_format)most;
}

static bool ends_in(const char *text, const char *end)
{
    const size_t n = strlen(text), len = strlen(end);
    return n >= len && strcmp(text + n - len, end) == 0;
}

static orr_status copy_dense(const char *from, const char *folder, orr_error *err)
{
    char path[4096];
    orr_weights *dense;
    ORR_TRY(orr_weights_open(from, &dense, err));
    const orr_weight_source source = {.tensors = dense->tensors, .n = dense->n};
    snprintf(path, sizeof path, "%s/dense.safetensors", folder);
    const orr_status status = orr_safetensors_write(&source, path, 0, err);
    orr_weights_close(dense);
    return status;
}

/* A recommendation model that training exported: `dense`, and its tables. */
static orr_status run_recommendation(exporting *e, const char *dense)
{
    const orr_settings *s = e->session.settings;
    const orr_row_format format = orr_row_format_parse(s->quantize);
    orr_error *err = &e->session.err;
    if (format == ORR_ROW_FORMATS)
        return orr_fail(err, ORR_INVALID, "export: in which format? Add --quantize int8");
    if (ends_in(s->output, ".gguf"))
        return orr_fail(err, ORR_UNSUPPORTED,
                        "export: a recommendation model is a folder of files");
    ORR_TRY(orr_tables_convert(s->args[0], format, s->output, err));
    return copy_dense(dense, s->output, err);
}

static orr_status run(exporting *e)
{
    const orr_settings *s = e->session.settings;
    orr_error *err = &e->session.err;
    const int64_t shard = (int64_t)5 << 30;
    const char *dense = orr_arena_printf(e->session.arena, "%s/dense.safetensors", s->args[0]);
    if (dense == NULL)
        return orr_fail_memory(err);
    if (access(dense, F_OK) == 0)
        return run_recommendation(e, dense);
    ORR_TRY(
        orr_checkpoint_files_open(s->args[0], s->tokenizer, e->session.arena, &e->checkpoint, err));
    const orr_parameter_reader reader = {read_parameter, e};
    orr_row_format format = orr_row_format_parse(s->quantize);
    if (format == ORR_ROW_FORMATS)
        format = format_of(e->checkpoint.weights);
    if (format == ORR_ROW_FORMAT_INT4)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "export: int4 is for embedding tables alone; --quantize q4_0");
    if (ends_in(s->output, ".gguf"))
        return orr_gguf_save(e->checkpoint.model, &reader, format, e->checkpoint.tokenizer,
                             s->output, err);
    if (format > ORR_ROW_FORMAT_BF16)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "export: safetensors in %s; --quantize bf16, fp16 or fp32",
                        orr_row_format_name(format));
    return orr_weights_save(e->checkpoint.model, &reader, format, s->output, shard, err);
}

int orr_command_export(const orr_settings *settings)
{
    exporting e = {0};
    int code = EXIT_DONE;
    if (settings->output == NULL) {
        fprintf(stderr, "orrery: export: where to? Add -o FILE.gguf or -o FOLDER\n");
        return EXIT_USAGE;
    }
    if (orr_session_init(&e.session, settings) != ORR_OK || run(&e) != ORR_OK)
        code = orr_session_fail(&e.session);
    else
        orr_session_remark(&e.session, "written to %s", settings->output);
    orr_checkpoint_files_close(&e.checkpoint);
    orr_free(e.numbers);
    orr_session_done(&e.session);
    return code;
}
