/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/fit/boost.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include <xgboost/c_api.h>

#include "base/alloc.h"
#include "base/library.h"
#include "io/json/number.h"

/* The functions of its C API that are used; all are stable since 1.6. */
#define FUNCTION_MAP(X)                                                                            \
    X(XGBGetLastError)                                                                             \
    X(XGDMatrixCreateFromMat)                                                                      \
    X(XGDMatrixFree)                                                                               \
    X(XGDMatrixSetFloatInfo)                                                                       \
    X(XGBoosterCreate)                                                                             \
    X(XGBoosterFree)                                                                               \
    X(XGBoosterSetParam)                                                                           \
    X(XGBoosterUpdateOneIter)                                                                      \
    X(XGBoosterPredict)                                                                            \
    X(XGBoosterSaveModelToBuffer)

ORR_LIBRARY_API(FUNCTION_MAP, "libxgboost.so.0", "libxgboost.so")
static bool available;
static pthread_once_t opened = PTHREAD_ONCE_INIT;

static void open_library(void)
{
    available = find_api();
}

bool orr_boost_available(const char **ret_why)
{
    (void)pthread_once(&opened, open_library);
    if (ret_why != NULL)
        *ret_why =
            available ? ""
            : missing_function != NULL
                ? "fitting a learned model needs XGBoost 1.6 or newer, and libxgboost is older"
                : "fitting a learned model needs XGBoost, and libxgboost is not installed";
    return available;
}

struct orr_boost {
    DMatrixHandle train, watch;
    BoosterHandle booster;
};

static orr_status refused(const char *what, orr_error *err)
{
    return orr_fail(err, ORR_UNSUPPORTED, "XGBoost: %s: %s", what, api.XGBGetLastError());
}

#define XGB_TRY(err, call)                                                                         \
    do {                                                                                           \
        if ((api.call) != 0)                                                                       \
            return refused(#call, (err));                                                          \
    } while (0)

static orr_status set_up(orr_boost *boost, const orr_boost_options *options, orr_error *err)
{
    char depth[ORR_INT_CHARS + 1] = "", rate[ORR_DOUBLE_CHARS + 1] = "";
    (void)orr_print_uint64(depth, options->depth);
    (void)orr_print_double(rate, options->rate);
    const struct {
        const char *name, *value;
    } params[] = {
        {"verbosity", "0"},
        {"nthread", "1"},
        {"seed", "0"},
        {"objective", "reg:squarederror"},
        {"base_score", "0"},
        {"tree_method", "hist"},
        {"min_child_weight", "4"}, /* a leaf rests on four shapes or more; assumed */
        {"max_depth", depth},
        {"eta", rate},
    };

    XGB_TRY(err, XGDMatrixCreateFromMat(options->x, options->n, ORR_FEATURES, NAN, &boost->train));
    XGB_TRY(err, XGDMatrixSetFloatInfo(boost->train, "label", options->y, options->n));
    XGB_TRY(err, XGDMatrixSetFloatInfo(boost->train, "weight", options->weight, options->n));
    if (options->n_watch > 0)
        XGB_TRY(err, XGDMatrixCreateFromMat(options->watch_x, options->n_watch, ORR_FEATURES, NAN,
                                            &boost->watch));
    const DMatrixHandle cached[] = {boost->train, boost->watch};
    XGB_TRY(err, XGBoosterCreate(cached, options->n_watch > 0 ? 2 : 1, &boost->booster));
    for (size_t i = 0; i < sizeof params / sizeof *params; i++)
        XGB_TRY(err, XGBoosterSetParam(boost->booster, params[i].name, params[i].value));
    return ORR_OK;
}

orr_status orr_boost_new(const orr_boost_options *options, orr_boost **ret, orr_error *err)
{
    const char *why;
    if (!orr_boost_available(&why))
        return orr_fail(err, ORR_UNSUPPORTED, "%s", why);
    orr_boost *boost = orr_calloc(1, sizeof *boost);
    if (boost == NULL)
        return orr_fail_memory(err);
    const orr_status status = set_up(boost, options, err);
    if (status != ORR_OK) {
        orr_boost_free(boost);
        return status;
    }
    *ret = boost;
    return ORR_OK;
}

void orr_boost_free(orr_boost *boost)
{
    if (boost == NULL)
        return;
    if (boost->booster != NULL)
        (void)api.XGBoosterFree(boost->booster);
    if (boost->watch != NULL)
        (void)api.XGDMatrixFree(boost->watch);
    if (boost->train != NULL)
        (void)api.XGDMatrixFree(boost->train);
    orr_free(boost);
}

orr_status orr_boost_round(orr_boost *boost, uint32_t round, orr_error *err)
{
    XGB_TRY(err, XGBoosterUpdateOneIter(boost->booster, (int)round, boost->train));
    return ORR_OK;
}

orr_status orr_boost_watch(orr_boost *boost, const float **ret, orr_error *err)
{
    bst_ulong n;
    XGB_TRY(err, XGBoosterPredict(boost->booster, boost->watch, 0, 0, 0, &n, ret));
    return ORR_OK;
}

orr_status orr_boost_trees(orr_boost *boost, orr_arena *arena, orr_trees *ret, orr_error *err)
{
    bst_ulong len;
    const char *json;
    XGB_TRY(err, XGBoosterSaveModelToBuffer(boost->booster, "{\"format\":\"json\"}", &len, &json));
    return orr_boost_trees_read(json, len, arena, ret, err);
}
