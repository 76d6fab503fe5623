/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/arguments/factor.h"
#include "cli/traces/predict.h"

static orr_status factor_of(const char *option, const char *text, double *ret, orr_error *err)
{
    return text ? orr_parse_factor(option, text, strlen(text), ret, err) : ORR_OK;
}

static orr_status parse_scale(orr_predict *p, const char *item, size_t len, orr_name_factor *ret,
                              bool remove)
{
    orr_error *err = &p->session.err;
    const char *equals = remove ? NULL : memrchr(item, '=', len);
    const size_t name_len = remove ? len : equals ? (size_t)(equals - item) : 0;
    if (name_len == 0)
        return orr_fail(err, ORR_INVALID, "--%s: '%.*s' is not %s", remove ? "remove" : "scale",
                        (int)(len < 60 ? len : 60), item, remove ? "a name" : "NAME=FACTOR");
    ret->name = orr_arena_strndup(p->session.arena, item, name_len);
    ret->factor = 0;
    if (ret->name == NULL)
        return orr_fail_memory(err);
    return remove ? ORR_OK
                  : orr_parse_factor("scale", equals + 1, len - name_len - 1, &ret->factor, err);
}

/* --scale and --remove, in one list. */
static orr_status parse_scales(orr_predict *p)
{
    const orr_settings *settings = p->session.settings;
    const char *lists[2] = {settings->scale, settings->remove};
    const uint32_t n = orr_count_items(lists[0]) + orr_count_items(lists[1]);
    orr_name_factor *scales = orr_arena_array(p->session.arena, orr_name_factor, n);
    if (scales == NULL)
        return orr_fail_memory(&p->session.err);
    for (int list = 0; list < 2; list++)
        for (const char *at = lists[list]; at && *at;) {
            const size_t len = strcspn(at, ",");
            ORR_TRY(parse_scale(p, at, len, &scales[p->what.n_scales++], list == 1));
            at += len + (at[len] == ',');
        }
    p->what.scales = scales;
    return ORR_OK;
}

static orr_status parse_stragglers(orr_predict *p)
{
    return orr_parse_stragglers(p->session.settings->straggler, p->session.arena,
                                &p->what.stragglers, &p->what.n_stragglers, &p->session.err);
}

/* "all", or ranks. */
static orr_status parse_without_stragglers(orr_predict *p)
{
    const char *text = p->session.settings->without_stragglers;
    const orr_job *job = p->session.job;
    const bool all = text != NULL && strcmp(text, "all") == 0;
    if (text == NULL)
        return ORR_OK;
    uint32_t n = 0, *ranks = orr_arena_array(p->session.arena, uint32_t,
                                             all ? job->n_graphs : orr_count_items(text));
    if (ranks == NULL)
        return orr_fail_memory(&p->session.err);
    for (uint32_t d = 0; all && d < job->n_graphs; d++)
        ranks[n++] = job->rank_of_graph[d];
    for (const char *at = text; !all && *at != '\0';) {
        char *end;
        const unsigned long rank = strtoul(at, &end, 10);
        if (end == at || (*end != '\0' && *end != ',') || rank >= UINT32_MAX ||
            !isdigit((uint8_t)*at))
            return orr_fail(&p->session.err, ORR_INVALID,
                            "--without-stragglers: '%.60s' is not all, nor ranks", at);
        ranks[n++] = (uint32_t)rank;
        at = end + (*end == ',');
    }
    p->what.without_stragglers = ranks;
    p->what.n_without_stragglers = n;
    return ORR_OK;
}

/* "1.3:1.1": computation, then communication. */
static orr_status parse_overlap(orr_predict *p)
{
    orr_error *err = &p->session.err;
    const char *text = p->session.settings->overlap;
    if (text == NULL)
        return ORR_OK;
    const size_t len = strcspn(text, ":");
    ORR_TRY(orr_parse_factor("overlap", text, len, &p->sim.compute_slowdown, err));
    if (text[len] == ':')
        ORR_TRY(factor_of("overlap", text + len + 1, &p->sim.comm_slowdown, err));
    if (p->sim.compute_slowdown < 1 || p->sim.comm_slowdown < 1)
        return orr_fail(err, ORR_INVALID, "--overlap: a slowdown is at least 1");
    return ORR_OK;
}

static orr_status parse_host(orr_predict *p)
{
    orr_error *err = &p->session.err;
    const orr_settings *settings = p->session.settings;
    ORR_TRY(factor_of("host-speed", settings->host_speed, &p->sim.host_speed, err));
    if (p->sim.host_speed < 1e-6 || p->sim.host_speed > 1e6)
        return orr_fail(err, ORR_INVALID, "--host-speed: must be from 0.000001 to 1000000");
    if (settings->launch_latency) {
        ORR_TRY(
            orr_parse_duration(settings->launch_latency, &p->sim.constants.launch_latency_ns, err));
        p->sim.constants.copy_launch_ns = p->sim.constants.launch_latency_ns;
        p->changes = true;
    }
    if (settings->cuda_graph) {
        /* One launch a step: what the host does between is of no consequence. */
        enum { HOST_OF_NO_CONSEQUENCE = 1000000 };
        p->sim.host_speed = HOST_OF_NO_CONSEQUENCE;
        p->sim.constants.launch_latency_ns = p->sim.constants.copy_launch_ns = 0;
    }
    return ORR_OK;
}

static orr_status parse_contention(orr_predict *p)
{
    const orr_settings *settings = p->session.settings;
    if (!settings->contention)
        return ORR_OK;
    p->sim.network = ORR_NETWORK_FLOWS;
    if (settings->network && !settings->message_bytes)
        return ORR_OK;
    return orr_fail(&p->session.err, ORR_INVALID,
                    settings->network
                        ? "--contention takes messages as recorded, without --message-bytes"
                        : "--contention needs the links of a --network");
}

static orr_status parse_plans(orr_predict *p)
{
    enum { RANKS_MAX = 1 << 24 }; /* of any job */
    orr_error *err = &p->session.err;
    const orr_settings *settings = p->session.settings;
    if (settings->traced)
        ORR_TRY(orr_plan_parse(settings->traced, &p->traced, err));
    if (settings->plan)
        ORR_TRY(orr_plan_parse(settings->plan, &p->plan, err));
    if (settings->ranks > RANKS_MAX)
        return orr_fail(err, ORR_INVALID, "--ranks: at most %d", RANKS_MAX);
    p->ranks = settings->ranks > 0 ? (uint32_t)settings->ranks : 0;
    if (settings->plan && p->ranks)
        return orr_fail(err, ORR_INVALID, "--ranks and --plan exclude each other; say dp=N");
    p->rescales = settings->plan || p->ranks;
    return ORR_OK;
}

static uint8_t algorithm_of(const char *name)
{
    for (int a = 0; name && a < ORR_ALGORITHMS; a++)
        if (strcmp(orr_algorithm_name((orr_algorithm)a), name) == 0)
            return (uint8_t)a;
    return ORR_ALGORITHM_AUTO;
}

/* The fitted model answers first, where it can. */
static orr_status load_cost(orr_predict *p)
{
    const char *path = p->session.settings->cost;
    p->chain = orr_cost_default_chain();
    if (path == NULL)
        return ORR_OK;
    const orr_cost_model **models =
        orr_arena_array(p->session.arena, const orr_cost_model *, p->chain.n + 1);
    if (models == NULL)
        return orr_fail_memory(&p->session.err);
    ORR_TRY(orr_cost_model_load(path, p->session.arena, &models[0], &p->session.err));
    memcpy(models + 1, p->chain.models, p->chain.n * sizeof *models);
    p->chain = (orr_cost_chain){models, p->chain.n + 1};
    return ORR_OK;
}

static orr_status load_machines(orr_predict *p)
{
    orr_session *session = &p->session;
    const orr_settings *settings = session->settings;
    ORR_TRY(orr_catalog_open(session->arena, &p->catalog, &session->err));
    if (settings->gpu)
        ORR_TRY(
            orr_device_load(p->catalog, settings->gpu, session->arena, &p->what.to, &session->err));
    if (settings->device)
        ORR_TRY(orr_device_load(p->catalog, settings->device, session->arena, &p->what.from,
                                &session->err));
    if (settings->network)
        ORR_TRY(orr_cluster_load(p->catalog, settings->network, session->arena, &p->network,
                                 &session->err));
    p->what.network = p->network;
    p->network_stated = settings->traced_network != NULL;
    if (settings->traced_network)
        ORR_TRY(orr_cluster_load(p->catalog, settings->traced_network, session->arena,
                                 &p->what.recorded_network, &session->err));
    p->sim.cluster = p->network;
    return load_cost(p);
}

orr_status orr_predict_options(orr_predict *p)
{
    orr_error *err = &p->session.err;
    const orr_settings *settings = p->session.settings;
    orr_whatif_init(&p->what);
    orr_sim_options_init(&p->sim);
    ORR_TRY(parse_scales(p));
    ORR_TRY(parse_stragglers(p));
    ORR_TRY(parse_overlap(p));
    ORR_TRY(parse_host(p));
    ORR_TRY(parse_plans(p));
    ORR_TRY(parse_contention(p));
    ORR_TRY(factor_of("batch", settings->batch, &p->what.batch, err));
    ORR_TRY(factor_of("message-bytes", settings->message_bytes, &p->what.message_bytes, err));
    p->what.algorithm = p->sim.algorithm = algorithm_of(settings->algorithm);
    p->sim.fold = !settings->unfolded;
    p->sim.threads = settings->threads > 0 ? (uint32_t)settings->threads : 0;
    p->changes = p->changes || p->rescales || settings->gpu || p->what.batch != 1 ||
                 settings->network || p->what.message_bytes != 1 || p->what.n_scales ||
                 p->what.n_stragglers || settings->without_stragglers || settings->overlap ||
                 settings->unprofiled || p->sim.host_speed != 1;
    p->only_ranks = p->rescales && !settings->network;
    if (settings->trace && orr_format_from_path(settings->trace) != ORR_FORMAT_PERFETTO &&
        orr_format_from_path(settings->trace) != ORR_FORMAT_CHROME)
        return orr_fail(err, ORR_INVALID, "--trace: the ending of %s is neither .pftrace nor .json",
                        settings->trace);
    if (settings->explain && p->changes)
        return orr_fail(err, ORR_INVALID,
                        "--explain holds the replay against the recording; it goes with no change");
    ORR_TRY(load_machines(p));
    p->what.chain = &p->chain;
    return ORR_OK;
}

/* The smallest cluster of the catalogue that has the recording's device and holds its ranks. */
static const orr_cluster *usual_network(const orr_predict *p)
{
    const orr_cluster *found = NULL;
    for (uint32_t i = 0; i < p->catalog->n_clusters; i++) {
        const orr_cluster *c = p->catalog->clusters[i];
        if (p->what.from != NULL && c->device == p->what.from &&
            c->n_devices >= p->session.job->n_ranks &&
            (found == NULL || c->n_devices < found->n_devices))
            found = c;
    }
    return found;
}

orr_status orr_predict_devices(orr_predict *p)
{
    const orr_job *job = p->session.job;
    const bool needed = p->what.to != NULL || p->what.batch != 1;
    const orr_graph *g = job->graphs[0];
    const char *name = orr_graph_str(g, g->device_name);
    ORR_TRY(parse_without_stragglers(p));
    if (p->what.from == NULL)
        p->what.from = orr_catalog_recognise(p->catalog, name);
    if (p->what.from == NULL && needed)
        return orr_fail(&p->session.err, ORR_NOT_FOUND,
                        "the recording's device%s%s%s is not one that the catalogue knows; name it "
                        "with --device",
                        *name ? " '" : "", name, *name ? "'" : "");
    p->sim.device = p->what.to ? p->what.to : p->what.from;
    if (!p->network_stated)
        p->what.recorded_network = usual_network(p);
    const orr_cluster *recorded = p->what.recorded_network;
    if (recorded != NULL && recorded->n_devices < job->n_ranks)
        return orr_fail(&p->session.err, ORR_INVALID,
                        "--traced-network %s has %u devices, and the recording is of %u ranks",
                        recorded->name, recorded->n_devices, job->n_ranks);
    return ORR_OK;
}
