/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <orrery/cost.h>
#include <orrery/experts.h>

#include "model/plan/plan.h"

/* Table of a plan's fields: name, offset, and the words of those that are choices. */

#define TEXT_ROW_(name, text) text,
static const char *const SCHEDULES[] = {ORR_SCHEDULE_MAP(TEXT_ROW_)};
static const char *const RECOMPUTES[] = {ORR_RECOMPUTE_MAP(TEXT_ROW_)};
static const char *const PRECISIONS[] = {ORR_PRECISION_MAP(TEXT_ROW_)};
static const char *const CONTEXT_KINDS[] = {ORR_CONTEXT_KIND_MAP(TEXT_ROW_)};
static const char *const OFFLOADS[] = {ORR_OFFLOAD_MAP(TEXT_ROW_)};
static const char *const DISPATCHERS[] = {ORR_DISPATCHER_MAP(TEXT_ROW_)};
static const char *const SWITCHES[] = {ORR_SWITCH_MAP(TEXT_ROW_)};
static const char *const CROSSES[] = {ORR_CROSS_MAP(TEXT_ROW_)};
static const char *const ALGORITHMS[] = {ORR_ALGORITHM_MAP(TEXT_ROW_)};
static const char *const COMPRESSES[] = {ORR_COMPRESS_MAP(TEXT_ROW_)};
static const char *const WIRES[] = {ORR_RDMA_PRESET_MAP(TEXT_ROW_)};
static const char *const AXES[] = {ORR_AXIS_MAP(TEXT_ROW_)};
#define POLICY_ROW_(name, text) text,
static const char *const EXPERT_POLICIES[] = {"unknown", ORR_EXPERT_POLICY_MAP(POLICY_ROW_)};
#undef POLICY_ROW_
static const char *const TURNS[] = {ORR_SLOT_MAP(TEXT_ROW_)};
#undef TEXT_ROW_
#define NAME_ROW_(name) #name,
static const char *const MODULES[] = {ORR_RECOMPUTE_MODULE_MAP(NAME_ROW_)};
#undef NAME_ROW_
enum {
    N_SCHEDULE = sizeof SCHEDULES / sizeof *SCHEDULES,
    N_RECOMPUTE = sizeof RECOMPUTES / sizeof *RECOMPUTES,
    N_PRECISION = sizeof PRECISIONS / sizeof *PRECISIONS,
    N_CONTEXT_KIND = sizeof CONTEXT_KINDS / sizeof *CONTEXT_KINDS,
    N_OFFLOAD = sizeof OFFLOADS / sizeof *OFFLOADS,
    N_DISPATCHER = sizeof DISPATCHERS / sizeof *DISPATCHERS,
    N_SWITCH = sizeof SWITCHES / sizeof *SWITCHES,
    N_CROSS = sizeof CROSSES / sizeof *CROSSES,
    N_ALGORITHM = sizeof ALGORITHMS / sizeof *ALGORITHMS,
    N_COMPRESS = sizeof COMPRESSES / sizeof *COMPRESSES,
    N_WIRE = sizeof WIRES / sizeof *WIRES,
    N_EXPERT_POLICY = sizeof EXPERT_POLICIES / sizeof *EXPERT_POLICIES,
};

#define WORDS_SCHEDULE      SCHEDULES
#define WORDS_RECOMPUTE     RECOMPUTES
#define WORDS_PRECISION     PRECISIONS
#define WORDS_CONTEXT_KIND  CONTEXT_KINDS
#define WORDS_OFFLOAD       OFFLOADS
#define WORDS_DISPATCHER    DISPATCHERS
#define WORDS_SWITCH        SWITCHES
#define WORDS_CROSS         CROSSES
#define WORDS_ALGORITHM     ALGORITHMS
#define WORDS_COMPRESS      COMPRESSES
#define WORDS_WIRE          WIRES
#define WORDS_EXPERT_POLICY EXPERT_POLICIES

static const orr_plan_number NUMBERS[] = {
#define NUMBER_ROW_(name, text) {#name, text, offsetof(orr_plan, name)},
    ORR_PLAN_MAP(NUMBER_ROW_)
#undef NUMBER_ROW_
};
static const orr_plan_choice CHOICES[] = {
#define CHOICE_ROW_(name, type, text)                                                              \
    {#name, text, offsetof(orr_plan, name), WORDS_##type, N_##type},
    ORR_PLAN_CHOICE_MAP(CHOICE_ROW_)
#undef CHOICE_ROW_
};
_Static_assert(sizeof NUMBERS / sizeof *NUMBERS == ORR_PLAN_NUMBERS, "one row a number");
_Static_assert(sizeof CHOICES / sizeof *CHOICES == ORR_PLAN_CHOICES, "one row a choice");

const orr_plan_number *orr_plan_number_at(uint32_t i)
{
    return i < ORR_PLAN_NUMBERS ? &NUMBERS[i] : NULL;
}

const orr_plan_choice *orr_plan_choice_at(uint32_t i)
{
    return i < ORR_PLAN_CHOICES ? &CHOICES[i] : NULL;
}

uint32_t *orr_plan_field(orr_plan *plan, uint32_t i)
{
    return i < ORR_PLAN_NUMBERS ? (uint32_t *)(void *)((char *)plan + NUMBERS[i].offset) : NULL;
}

uint8_t *orr_plan_choice_field(orr_plan *plan, uint32_t i)
{
    return i < ORR_PLAN_CHOICES ? (uint8_t *)plan + CHOICES[i].offset : NULL;
}

const char *orr_plan_field_name(uint32_t i)
{
    return NUMBERS[i].name;
}

const char *orr_plan_field_about(uint32_t i)
{
    return NUMBERS[i].about;
}

orr_dtype orr_precision_dtype(uint8_t precision)
{
    switch (precision) {
    case ORR_PRECISION_FP32:
        return ORR_DTYPE_FP32;
    case ORR_PRECISION_TF32:
        return ORR_DTYPE_TF32;
    case ORR_PRECISION_FP16:
        return ORR_DTYPE_FP16;
    case ORR_PRECISION_FP8:
    case ORR_PRECISION_MXFP8:
        return ORR_DTYPE_FP8;
    case ORR_PRECISION_FP4:
        return ORR_DTYPE_FP4;
    default:
        return ORR_DTYPE_BF16;
    }
}

static const char *word(const char *const *words, size_t n, size_t i)
{
    return i < n ? words[i] : "?";
}

const char *orr_schedule_name(orr_schedule schedule)
{
    return word(SCHEDULES, N_SCHEDULE, schedule);
}

const char *orr_axis_name(orr_axis axis)
{
    return word(AXES, ORR_AXES, axis);
}

const char *orr_recompute_module_name(orr_recompute_module module)
{
    return word(MODULES, ORR_RECOMPUTE_MODULES, module);
}

const char *orr_slot_phase_name(orr_slot_phase phase)
{
    return word(TURNS, ORR_SLOT_PHASES, phase);
}
