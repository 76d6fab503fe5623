/* SPDX-License-Identifier: Apache-2.0 */
#include "weights_file.h"

#include "model/module/module.h"

/* A model that metadata describe can be asked for its weights, whatever these are. */
static void check_model(const orr_weights *weights, orr_arena *arena)
{
    static const char *const names[] = {"qkv", "gate_up", "expert_gate_up", "attention_norm"};
    const orr_model *model;
    orr_error err = {.text = ""};
    const orr_status status = orr_model_of_weights(weights, arena, &model, &err);
    FUZZ_CHECK(status == ORR_OK || err.text[0] != '\0');
    if (status != ORR_OK)
        return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const orr_weight_key key = {.module = ORR_MODULE_LAYER, .name = names[i]};
        orr_weight_rows rows;
        if (orr_weights_rows(weights, model, &key, arena, &rows, &err) == ORR_OK)
            FUZZ_CHECK(rows.n_segments > 0 && rows.row_bytes > 0);
        else
            FUZZ_CHECK(err.text[0] != '\0');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    orr_weights *weights;
    orr_error err = {.text = ""};
    if (open_input(bytes, len, &weights, &err) != ORR_OK)
        return 0;
    check_weights(weights);
    orr_arena *arena = orr_arena_new(0, (size_t)64 << 20);
    FUZZ_CHECK(arena != NULL);
    check_model(weights, arena);
    orr_arena_free(arena);
    orr_weights_close(weights);
    return 0;
}
