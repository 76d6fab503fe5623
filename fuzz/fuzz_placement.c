/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "experts/placement/file.h"
#include "fuzz.h"

/* A placement of experts, as Orrery's YAML or as the JSON of servers, over a number of ranks that
 * the input picks. What is read is valid but for experts that it names as missing; written and read
 * back it is the same. */

static orr_status parse(const char *text, size_t len, uint32_t ranks, orr_arena *arena,
                        orr_expert_placement *ret, orr_error *err)
{
    const orr_placement_text input = {text, len, "input", ranks, 0};
    return orr_placement_parse(&input, arena, ret, err);
}

static char *print(const orr_expert_placement *p, orr_placement_format format, orr_arena *arena)
{
    orr_output *out;
    orr_error err = {.text = ""};
    size_t len;
    char *ret = NULL;
    FUZZ_CHECK(orr_output_open_memory(&out, &err) == ORR_OK);
    const orr_status status = orr_placement_print(p, format, out, &err);
    FUZZ_CHECK(status == ORR_OK || status == ORR_UNSUPPORTED || status == ORR_LIMIT);
    if (status == ORR_OK) {
        FUZZ_CHECK(orr_output_finish(out, &err) == ORR_OK);
        const void *bytes = orr_output_memory(out, &len);
        ret = orr_arena_strndup(arena, bytes, len);
        FUZZ_CHECK(ret != NULL);
    }
    orr_output_close(out);
    return ret;
}

static void check_round_trips(orr_expert_placement *p, orr_arena *arena)
{
    enum { FEW_SLOTS = 100000 }; /* JSON fills the slots of all ranks up to the fullest one */
    orr_expert_placement again;
    orr_error err = {.text = ""};
    const uint32_t slots = orr_expert_placement_slots(p);
    const char *text = print(p, ORR_PLACEMENT_FORMAT_YAML, arena);
    FUZZ_CHECK(text != NULL);
    FUZZ_CHECK(parse(text, strlen(text), p->ranks, arena, &again, &err) == ORR_OK);
    FUZZ_CHECK(again.layers == p->layers && orr_expert_placement_slots(&again) == slots);
    FUZZ_CHECK(memcmp(again.expert, p->expert, slots * sizeof *p->expert) == 0);
    FUZZ_CHECK(memcmp(again.share, p->share, slots * sizeof *p->share) == 0);
    if ((uint64_t)p->ranks * slots > FEW_SLOTS || p->number[p->layers - 1] > FEW_SLOTS / 100)
        return;
    const char *json = print(p, ORR_PLACEMENT_FORMAT_VLLM, arena);
    if (json == NULL)
        return;
    FUZZ_CHECK(parse(json, strlen(json), 0, arena, &again, &err) == ORR_OK);
    FUZZ_CHECK(strcmp(print(&again, ORR_PLACEMENT_FORMAT_VLLM, arena), json) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_expert_placement p;
    orr_error err = {.text = ""};
    FUZZ_CHECK(arena != NULL);
    const orr_status status =
        parse((const char *)bytes, len, (uint32_t)fuzz_choice(bytes, len) % 5, arena, &p, &err);
    FUZZ_CHECK(status == ORR_OK || strncmp(err.text, "input", 5) == 0);
    if (status == ORR_OK)
        check_round_trips(&p, arena);
    orr_arena_free(arena);
    return 0;
}
