/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_FRAMEWORK_H
#define ORR_FRAMEWORK_H

#include <orrery/machine.h>
#include <orrery/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Training frameworks: which plans each can run, what it does where a plan leaves a field open, and
 * its launch flags or configuration for a plan.
 *
 * Sources are the frameworks' own argument parsers and their checks: Megatron-LM core_v0.16.1
 * (megatron/training/arguments.py, megatron/core/transformer/transformer_config.py), torchtitan
 * 0.2.2 (torchtitan/config/job_config.py), DeepSpeed 0.19.8 (deepspeed/runtime/config.py,
 * zero/config.py, pipe/engine.py) with Megatron-DeepSpeed (megatron/arguments.py), MaxText 0.2.5
 * (maxtext/configs/base.yml and types.py).
 *
 * All functions are pure; threads may share what they read. */
#define ORR_FRAMEWORK_MAP(X)                                                                       \
    X(NONE, "none")                                                                                \
    X(MEGATRON, "megatron")                                                                        \
    X(TORCHTITAN, "torchtitan") X(DEEPSPEED, "deepspeed") X(MAXTEXT, "maxtext")
typedef enum orr_framework {
#define ORR_FRAMEWORK_ENUM_(name, text) ORR_FRAMEWORK_##name,
    ORR_FRAMEWORK_MAP(ORR_FRAMEWORK_ENUM_)
#undef ORR_FRAMEWORK_ENUM_
        ORR_FRAMEWORKS
} orr_framework;
ORR_API const char *orr_framework_name(orr_framework framework);

/* The plan with the framework's defaults in fields that it leaves open (0) and in which the
 * framework differs from orr_plan_with_defaults(); other fields stay 0. `model` has the plan's
 * overrides of its shape. NONE: the plan as it is. */
ORR_API orr_plan orr_framework_defaults(orr_framework framework, const orr_model *model,
                                        const orr_plan *plan);
/* Checks that the framework can run the plan, whose open fields mean what orr_plan_with_defaults()
 * says: call orr_framework_defaults() first. INVALID: names the field, its value, and the values
 * that the framework can run. NONE: ORR_OK. */
ORR_API ORR_MUST_CHECK orr_status orr_framework_check(orr_framework framework,
                                                      const orr_model *model, const orr_plan *plan,
                                                      orr_error *err);
/* The framework's launch flags (Megatron) or configuration (torchtitan: TOML, DeepSpeed: JSON,
 * MaxText: YAML) for a plan that orr_framework_check() accepts, as text in the arena: the shape of
 * the model and all of the plan. What the framework has no option for is named in a comment, in
 * JSON under "not_expressed". The same arguments give the same bytes. `cluster` gives the devices
 * of its first level (MaxText's ICI axes). INVALID: NONE, or as orr_framework_check(); NO_MEMORY.
 */
ORR_API ORR_MUST_CHECK orr_status orr_framework_emit(orr_framework framework,
                                                     const orr_model *model,
                                                     const orr_cluster *cluster,
                                                     const orr_plan *plan, orr_arena *arena,
                                                     const char **ret, orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_FRAMEWORK_H */
