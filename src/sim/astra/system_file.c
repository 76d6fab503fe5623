/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/astra.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/astra/json.h"

/* Keys that have to be there. */
enum { HAS_SPLITS = 1, HAS_MEMORY = 2 };

typedef struct reader {
    orr_astra_system *system;
    unsigned has;
} reader;

static bool is(orr_text text, const char *word)
{
    return text.n == strlen(word) && memcmp(text.at, word, text.n) == 0;
}

/* Does the text begin with the word, as "direct" and "direct4" do? The rest is a window. */
static bool begins(orr_text text, const char *word, int32_t *ret_window)
{
    const size_t n = strlen(word);
    char digits[12] = "", *end;
    if (text.n < n || memcmp(text.at, word, n) != 0 || text.n - n >= sizeof digits)
        return false;
    *ret_window = -1;
    if (text.n == n)
        return true;
    memcpy(digits, text.at + n, text.n - n);
    const long window = strtol(digits, &end, 10);
    *ret_window = (int32_t)window;
    return *end == '\0' && window > 0 && window < 1 << 24;
}

static bool way_of(orr_text text, orr_astra_implementation *ret)
{
    *ret = (orr_astra_implementation){.window = -1};
    if (text.n > 3 && memcmp(text.at, "one", 3) == 0) {
        static const struct {
            const char *one, *plain;
        } names[] = {{"oneRing", "ring"}, {"oneHalvingDoubling", "halvingDoubling"}};
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (is(text, names[i].one)) {
                const bool known = way_of((orr_text){names[i].plain, strlen(names[i].plain)}, ret);
                ret->one = true;
                return known;
            }
        ret->algorithm = ORR_ASTRA_DIRECT;
        ret->one = true;
        return begins(text, "oneDirect", &ret->window);
    }
    if (is(text, "ring"))
        ret->algorithm = ORR_ASTRA_RING;
    else if (is(text, "halvingDoubling"))
        ret->algorithm = ORR_ASTRA_HALVING_DOUBLING;
    else if (is(text, "doubleBinaryTree"))
        ret->algorithm = ORR_ASTRA_DOUBLE_BINARY_TREE;
    else {
        ret->algorithm = ORR_ASTRA_DIRECT;
        return begins(text, "direct", &ret->window);
    }
    return true;
}

static orr_status read_ways(orr_json *json, reader *r, orr_astra_kind kind, const char *key,
                            orr_error *err)
{
    orr_status status = ORR_OK;
    orr_text text;
    bool is_text;
    uint32_t n = 0;
    ORR_TRY(orr_json_enter_array(json, err));
    while (orr_json_next_element(json, &status, err)) {
        if (n == ORR_ASTRA_DIMS)
            return orr_astra_json_fail(json, err, key, "at most 8 dimensions");
        ORR_TRY(orr_json_text(json, &text, &is_text, err));
        if (!is_text || !way_of(text, &r->system->ways[kind][n]))
            return orr_astra_json_fail(json, err, key,
                                       "ring, direct, halvingDoubling, doubleBinaryTree, oneRing, "
                                       "oneDirect or oneHalvingDoubling");
        if (n > 0 && r->system->ways[kind][n].one)
            return orr_astra_json_fail(json, err, key, "\"one...\" stands alone");
        n++;
    }
    r->system->n_ways[kind] = n;
    return status;
}

static orr_status read_number(orr_json *json, const char *key, double least, double most,
                              double *ret, orr_error *err)
{
    bool is_number;
    ORR_TRY(orr_json_double(json, ret, &is_number, err));
    if (!is_number || !(*ret >= least) || !(*ret <= most))
        return orr_astra_json_fail(json, err, key, "not a number in its range");
    return ORR_OK;
}

static orr_status read_count(orr_json *json, const char *key, int64_t least, int64_t most,
                             int64_t *ret, orr_error *err)
{
    bool is_number;
    ORR_TRY(orr_json_int64(json, ret, &is_number, err));
    if (!is_number || *ret < least || *ret > most)
        return orr_astra_json_fail(json, err, key, "not a whole number in its range");
    return ORR_OK;
}

/* true, false, 0 or 1. */
static orr_status read_flag(orr_json *json, const char *key, bool *ret, orr_error *err)
{
    orr_json_value value;
    ORR_TRY(orr_json_value_next(json, &value, err));
    if (value.type == ORR_JSON_TRUE || value.type == ORR_JSON_FALSE)
        *ret = value.type == ORR_JSON_TRUE;
    else if (value.type == ORR_JSON_NUMBER)
        *ret = !(value.text.n == 1 && value.text.at[0] == '0');
    else
        return orr_astra_json_fail(json, err, key, "0 or 1");
    return ORR_OK;
}

static orr_status read_word(orr_json *json, const char *key, const char *const *words, size_t n,
                            size_t *ret, orr_error *err)
{
    orr_text text;
    bool is_text;
    ORR_TRY(orr_json_text(json, &text, &is_text, err));
    for (*ret = 0; is_text && *ret < n; ++*ret)
        if (is(text, words[*ret]))
            return ORR_OK;
    return orr_astra_json_fail(json, err, key, "not a value that it may have");
}

static bool ends(orr_text text, const char *word)
{
    const size_t n = strlen(word);
    return text.n >= n && memcmp(text.at + text.n - n, word, n) == 0;
}

/* Keys that would change the result, and are not simulated. The order of dimensions and of chunks
 * could be chosen in older versions; 518bd513 has one of each. */
static orr_status read_refused(orr_json *json, orr_text key, orr_error *err)
{
    static const char *const orders[] = {"baseline", "ascending", "FIFO"};
    orr_text text;
    bool is_text;
    if (ends(key, "-implementation-custom") || is(key, "per-node-custom-implementation"))
        return orr_fail(err, ORR_UNSUPPORTED, "%.*s is not simulated", (int)key.n, key.at);
    if (!is(key, "inter-dimension-scheduling") && !is(key, "intra-dimension-scheduling"))
        return orr_json_skip(json, err);
    ORR_TRY(orr_json_text(json, &text, &is_text, err));
    for (size_t i = 0; is_text && i < sizeof orders / sizeof *orders; i++)
        if (is(text, orders[i]))
            return ORR_OK;
    return orr_fail(err, ORR_UNSUPPORTED, "%.*s: only ascending dimensions and FIFO", (int)key.n,
                    key.at);
}

static orr_status read_scalar(orr_json *json, reader *r, orr_text key, orr_error *err)
{
    static const char *const policies[] = {"LIFO", "FIFO", "EXPLICIT"};
    static const char *const optimizations[] = {"baseline", "localBWAware"};
    orr_astra_system *s = r->system;
    int64_t count;
    size_t word;
    bool flag = false;
    if (is(key, "scheduling-policy")) /* a rank has one collective at a time: all are the same */
        return read_word(json, "scheduling-policy", policies, 3, &word, err);
    if (is(key, "collective-optimization")) {
        ORR_TRY(read_word(json, "collective-optimization", optimizations, 2, &word, err));
        s->local_bw_aware = word == 1;
    } else if (is(key, "endpoint-delay")) {
        double ns;
        ORR_TRY(read_number(json, "endpoint-delay", 0, 1e15, &ns, err));
        s->endpoint_delay_ns = (int64_t)ns;
    } else if (is(key, "active-chunks-per-dimension")) {
        ORR_TRY(read_count(json, "active-chunks-per-dimension", 1, 65000, &count, err));
        s->active_chunks = (uint32_t)count;
    } else if (is(key, "preferred-dataset-splits")) {
        ORR_TRY(read_count(json, "preferred-dataset-splits", 1, 65000, &count, err));
        s->splits = (uint32_t)count;
        r->has |= HAS_SPLITS;
    } else if (is(key, "local-mem-bw")) {
        ORR_TRY(read_number(json, "local-mem-bw", 1e-3, 1e9, &s->local_bytes_per_ns, err));
        r->has |= HAS_MEMORY;
    } else if (is(key, "peak-perf")) {
        ORR_TRY(read_number(json, "peak-perf", 0, 1e9, &s->peak_flops, err));
        s->peak_flops *= 1e12;
    } else if (is(key, "roofline-enabled")) {
        return read_flag(json, "roofline-enabled", &s->roofline, err);
    } else if (is(key, "replay-only")) {
        return read_flag(json, "replay-only", &s->replay_only, err);
    } else if (is(key, "model-shared-bus")) {
        ORR_TRY(read_flag(json, "model-shared-bus", &flag, err));
        if (flag)
            return orr_fail(err, ORR_UNSUPPORTED, "model-shared-bus is not simulated");
    } else {
        return read_refused(json, key, err);
    }
    return ORR_OK;
}

static orr_status read_system(orr_json *json, void *ctx, orr_error *err)
{
    static const char *const keys[ORR_ASTRA_KINDS] = {
        "all-reduce-implementation", "all-gather-implementation", "reduce-scatter-implementation",
        "all-to-all-implementation"};
    reader *r = ctx;
    orr_status status = ORR_OK;
    orr_text key;
    ORR_TRY(orr_json_enter_object(json, err));
    while (orr_json_next_key(json, &key, &status, err)) {
        int kind = 0;
        while (kind < ORR_ASTRA_KINDS && !is(key, keys[kind]))
            kind++;
        if (kind < ORR_ASTRA_KINDS)
            ORR_TRY(read_ways(json, r, (orr_astra_kind)kind, keys[kind], err));
        else
            ORR_TRY(read_scalar(json, r, key, err));
    }
    ORR_TRY(status);
    if (!(r->has & HAS_SPLITS))
        return orr_fail(err, ORR_INVALID, "no key preferred-dataset-splits");
    if (!(r->has & HAS_MEMORY))
        return orr_fail(err, ORR_INVALID, "no key local-mem-bw");
    return ORR_OK;
}

/* Values of absent keys. Source: Sys.cc of astra-sim. */
static const orr_astra_system DEFAULTS = {
    .local_bw_aware = true, .active_chunks = 1, .endpoint_delay_ns = 10};

orr_status orr_astra_system_load(const char *path, orr_astra_system *ret, orr_error *err)
{
    orr_astra_system system = DEFAULTS;
    reader r = {.system = &system};
    ORR_TRY(orr_astra_json_load(path, read_system, &r, err));
    *ret = system;
    return ORR_OK;
}

orr_status orr_astra_system_parse(const void *bytes, size_t len, const char *file,
                                  orr_astra_system *ret, orr_error *err)
{
    orr_astra_system system = DEFAULTS;
    reader r = {.system = &system};
    ORR_TRY(orr_astra_json_parse(bytes, len, file, read_system, &r, err));
    *ret = system;
    return ORR_OK;
}
