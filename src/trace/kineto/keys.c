/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/kineto/keys.h"

#include <string.h>

/* All keys of an event differ in length or in their second letter. */
kineto_key kineto_key_of(orr_text t)
{
    switch (t.n) {
    case 2:
        return orr_text_is(t, "ph")   ? KEY_PH
               : orr_text_is(t, "ts") ? KEY_TS
               : orr_text_is(t, "id") ? KEY_ID
                                      : KEY_UNKNOWN;
    case 3:
        return orr_text_is(t, "cat")   ? KEY_CAT
               : orr_text_is(t, "pid") ? KEY_PID
               : orr_text_is(t, "tid") ? KEY_TID
               : orr_text_is(t, "dur") ? KEY_DUR
                                       : KEY_UNKNOWN;
    case 4:
        return orr_text_is(t, "name") ? KEY_NAME : orr_text_is(t, "args") ? KEY_ARGS : KEY_UNKNOWN;
    default:
        return KEY_UNKNOWN;
    }
}

/* Capitals are the names of 2020. Row 0 is none. */
static const struct {
    const char *text;
    uint8_t n, cat;
} categories[] = {
    {"", 0, CAT_OTHER},
#define CATEGORY(text, cat)                                                                        \
    {                                                                                              \
        text, sizeof(text) - 1, cat                                                                \
    }
    CATEGORY("cpu_op", CAT_CPU_OP),
    CATEGORY("cuda_runtime", CAT_RUNTIME),
    CATEGORY("kernel", CAT_KERNEL),
    CATEGORY("ac2g", CAT_FLOW_LAUNCH),
    CATEGORY("async_cpu_to_gpu", CAT_FLOW_LAUNCH),
    CATEGORY("python_function", CAT_PYTHON),
    CATEGORY("fwdbwd", CAT_FLOW_FORWARD),
    CATEGORY("cpu_instant_event", CAT_INSTANT),
    CATEGORY("cuda_driver", CAT_RUNTIME),
    CATEGORY("gpu_memcpy", CAT_MEMCPY),
    CATEGORY("gpu_memset", CAT_MEMSET),
    CATEGORY("user_annotation", CAT_USER_ANNOTATION),
    CATEGORY("gpu_user_annotation", CAT_GPU_ANNOTATION),
    CATEGORY("cuda_sync", CAT_CUDA_SYNC),
    CATEGORY("cuda_event", CAT_CUDA_SYNC),
    CATEGORY("overhead", CAT_OVERHEAD),
    CATEGORY("Operator", CAT_CPU_OP),
    CATEGORY("Runtime", CAT_RUNTIME),
    CATEGORY("Kernel", CAT_KERNEL),
    CATEGORY("Memcpy", CAT_MEMCPY),
    CATEGORY("Memset", CAT_MEMSET),
    CATEGORY("async", CAT_FLOW_LAUNCH),
    CATEGORY("async_gpu", CAT_FLOW_LAUNCH),
    CATEGORY("mtia_runtime", CAT_RUNTIME),
    CATEGORY("mtia_ccp_events", CAT_MTIA_WORK),
    CATEGORY("hip_runtime", CAT_RUNTIME),
    CATEGORY("hpu_op", CAT_KERNEL),
    CATEGORY("xpu_runtime", CAT_RUNTIME),
    CATEGORY("xpu_driver", CAT_RUNTIME),
    CATEGORY("privateuse1_runtime", CAT_RUNTIME),
    CATEGORY("privateuse1_driver", CAT_RUNTIME),
    CATEGORY("glow_runtime", CAT_RUNTIME),
    CATEGORY("concurrent_kernel", CAT_KERNEL),
#undef CATEGORY
};

static const struct {
    const char *text;
    uint8_t n;
} args[KINETO_N_ARGS] = {
#define KINETO_ARG_ROW(name, text, use) {text, sizeof(text) - 1},
    KINETO_ARGS(KINETO_ARG_ROW)
#undef KINETO_ARG_ROW
};

const uint8_t kineto_arg_uses[KINETO_N_ARGS] = {
#define KINETO_ARG_USE(name, text, use) use,
    KINETO_ARGS(KINETO_ARG_USE)
#undef KINETO_ARG_USE
};

static unsigned hash(const char *text, size_t n)
{
    return (unsigned)(n * 37 + (uint8_t)text[0] * 5 + (uint8_t)text[n - 1] * 11 +
                      (uint8_t)text[n / 2] * 3) &
           255;
}

static void add(uint8_t slots[256], const char *text, size_t n, unsigned row)
{
    unsigned at = hash(text, n);
    while (slots[at] != 0)
        at = (at + 1) & 255;
    slots[at] = (uint8_t)row;
}

void kineto_words_init(kineto_words *words)
{
    for (unsigned i = 1; i < KINETO_N_ARGS; i++)
        add(words->arg_slot, args[i].text, args[i].n, i);
    for (unsigned i = 1; i < sizeof categories / sizeof *categories; i++)
        add(words->cat_slot, categories[i].text, categories[i].n, i);
}

static uint64_t load8(const char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* Names are at most some forty letters: too short to call memcmp() for. */
static bool equal(const char *a, const char *b, size_t n)
{
    if (n < 8) {
        for (size_t i = 0; i < n; i++)
            if (a[i] != b[i])
                return false;
        return true;
    }
    for (size_t i = 0; i + 8 < n; i += 8)
        if (load8(a + i) != load8(b + i))
            return false;
    return load8(a + n - 8) == load8(b + n - 8);
}

kineto_arg kineto_arg_of(const kineto_words *words, orr_text t)
{
    if (t.n == 0)
        return ARG_OTHER;
    for (unsigned at = hash(t.at, t.n), i; (i = words->arg_slot[at]) != 0; at = (at + 1) & 255)
        if (t.n == args[i].n && equal(t.at, args[i].text, t.n))
            return (kineto_arg)i;
    return ARG_OTHER;
}

kineto_cat kineto_cat_of(const kineto_words *words, orr_text t)
{
    if (t.n == 0)
        return CAT_OTHER;
    for (unsigned at = hash(t.at, t.n), i; (i = words->cat_slot[at]) != 0; at = (at + 1) & 255)
        if (t.n == categories[i].n && equal(t.at, categories[i].text, t.n))
            return categories[i].cat;
    return CAT_OTHER;
}
