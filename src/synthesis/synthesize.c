/* SPDX-License-Identifier: Apache-2.0 */
#include "synthesis/synthesis.h"

#include "base/alloc.h"
#include "graph/job.h"
#include "synthesis/emit.h"
#include "synthesis/groups.h"

/* Which of the sources an error is about. */
static orr_status of_source(orr_status status, uint32_t source, orr_error *err)
{
    const orr_error said = *err;
    return status == ORR_INVALID
               ? orr_fail(err, ORR_INVALID, "source %u: %s", source + 1, said.text)
               : status;
}

static orr_status learn(const orr_job *const *jobs, uint32_t n, const orr_synthesis_options *o,
                        orr_arena *arena, orr_synthesis *ret, orr_error *err)
{
    orr_source *sources = orr_arena_array(arena, orr_source, n);
    if (sources == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++)
        ORR_TRY(
            of_source(orr_source_learn(jobs[i], o->annotation, arena, &sources[i], err), i, err));
    ret->sources = sources;
    ret->n_sources = n;
    return ORR_OK;
}

/* How many ranks, where nobody says it. */
static uint32_t ranks_of(const orr_synthesis *s, const orr_synthesis_options *o)
{
    uint32_t most = 0;
    if (o->n_ranks > 0)
        return o->n_ranks;
    if (!o->obfuscate)
        return s->sources[s->walk.follows].world_size;
    for (uint32_t i = 0; i < s->n_sources; i++)
        most = s->sources[i].world_size > most ? s->sources[i].world_size : most;
    return most;
}

static orr_status emit_ranks(const orr_emission *emission, orr_arena *arena,
                             const orr_graph **graphs, const int64_t **duration_ns, orr_error *err)
{
    for (uint32_t rank = 0; rank < emission->n_ranks; rank++)
        ORR_TRY(orr_emit_rank(emission, rank, arena, &graphs[rank], &duration_ns[rank], err));
    return ORR_OK;
}

/* All ranks as they come out of the blocks, matched. */
static orr_status draft(const orr_emission *emission, orr_arena *arena, orr_synthesis *ret,
                        const int64_t *const **ret_duration_ns, orr_error *err)
{
    const uint32_t n = emission->n_ranks;
    const orr_graph **graphs = orr_arena_array(arena, const orr_graph *, n);
    const int64_t **duration_ns = orr_arena_array(arena, const int64_t *, n);
    if (graphs == NULL || duration_ns == NULL)
        return orr_fail_memory(err);
    orr_status status = emit_ranks(emission, arena, graphs, duration_ns, err);
    if (status == ORR_OK)
        status = orr_job_build(graphs, n, &ret->draft, err);
    for (uint32_t rank = 0; status != ORR_OK && rank < n; rank++)
        orr_graph_free(graphs[rank]);
    *ret_duration_ns = duration_ns;
    return status;
}

/* Latencies are those of the recordings: where blocks meet, drafts show none. */
static orr_status measure_latencies(const orr_synthesis *s, const orr_synthesis_options *o,
                                    orr_arena *arena, orr_sim_latencies *ret, orr_error *err)
{
    uint32_t n = 0;
    const uint32_t first = o->obfuscate ? 0 : s->walk.follows;
    const uint32_t end = o->obfuscate ? s->n_sources : first + 1;
    for (uint32_t i = first; i < end; i++)
        n += s->sources[i].n_roles;
    const orr_graph **graphs = orr_arena_array(arena, const orr_graph *, n);
    if (graphs == NULL)
        return orr_fail_memory(err);
    n = 0;
    for (uint32_t i = first; i < end; i++)
        for (uint32_t r = 0; r < s->sources[i].n_roles; r++)
            graphs[n++] = s->sources[i].ranks[r].graph;
    return orr_sim_latencies_measure(graphs, n, ret, NULL, err);
}

/* Ranks begin as far apart as those that they follow; obfuscated, at once. */
static orr_status find_starts(const orr_synthesis *s, const orr_synthesis_options *o,
                              orr_arena *arena, const int64_t **ret, orr_error *err)
{
    const uint32_t n = s->draft->n_graphs;
    const orr_source *source = &s->sources[s->walk.runs[0].source];
    int64_t *start_ns = orr_arena_array(arena, int64_t, n), first_ns = INT64_MAX;
    if (start_ns == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n && !o->obfuscate; i++) {
        const uint32_t role = i % source->n_roles;
        start_ns[i] =
            orr_ns_add_saturating(orr_source_cut_ns(source, s->walk.runs[0].from_cut, role),
                                  source->ranks[role].clock_ns);
        first_ns = start_ns[i] < first_ns ? start_ns[i] : first_ns;
    }
    for (uint32_t i = 0; i < n && !o->obfuscate; i++)
        start_ns[i] = orr_ns_sub_saturating(start_ns[i], first_ns);
    *ret = start_ns;
    return ORR_OK;
}

static orr_status simulate(const orr_synthesis_options *o, const int64_t *const *duration_ns,
                           orr_arena *arena, orr_synthesis *s, orr_error *err)
{
    const orr_ensemble *of_draft;
    orr_sim_options options;
    ORR_TRY(orr_ensemble_of_job(s->draft, arena, &of_draft, err));
    orr_ensemble *ensemble = orr_arena_one(arena, orr_ensemble);
    if (ensemble == NULL)
        return orr_fail_memory(err);
    *ensemble = *of_draft;
    ensemble->duration_ns = duration_ns;
    ORR_TRY(find_starts(s, o, arena, &ensemble->start_ns, err));
    orr_sim_options_init(&options);
    options.threads = o->threads;
    options.fold = false; /* every rank is written */
    ORR_TRY(measure_latencies(s, o, arena, &options.constants, err));
    ORR_TRY(orr_simulate(ensemble, &options, arena, &s->simulation, err));
    return orr_simulation_job(&s->simulation, s->draft, &s->job, err);
}

/* Times are summed without further checks: the longest of all ranks must stay far below 2^63 ns. */
static orr_status check_length(const orr_synthesis *s, orr_error *err)
{
    static const double longest_ns = 1e18;
    double ns = 0;
    for (uint32_t i = 0; i < s->walk.n_runs; i++) {
        const orr_block_run *run = &s->walk.runs[i];
        const orr_source *source = &s->sources[run->source];
        double longest = 0;
        for (uint32_t r = 0; r < source->n_roles; r++) {
            const double part = (double)orr_source_cut_ns(source, run->to_cut, r) -
                                (double)orr_source_cut_ns(source, run->from_cut, r);
            longest = part > longest ? part : longest;
        }
        ns += longest;
    }
    return ns < longest_ns ? ORR_OK
                           : orr_fail(err, ORR_LIMIT, "the job would last for over 30 years");
}

static orr_status check(const orr_synthesis *s, uint32_t n_ranks, orr_error *err)
{
    if (n_ranks > ORR_SYNTHESIS_RANKS)
        return orr_fail(err, ORR_LIMIT, "--scale: %u ranks are more files than %d", n_ranks,
                        ORR_SYNTHESIS_RANKS);
    ORR_TRY(check_length(s, err));
    for (uint32_t i = 0; i < s->n_sources; i++)
        ORR_TRY(of_source(orr_membership_check(&s->sources[i], n_ranks, err), i, err));
    return ORR_OK;
}

orr_status orr_synthesize(const orr_job *const *sources, uint32_t n,
                          const orr_synthesis_options *options, orr_arena *arena,
                          orr_synthesis *ret, orr_error *err)
{
    orr_samples samples;
    const int64_t *const *duration_ns;
    *ret = (orr_synthesis){.annotation = options->annotation, .threads = options->threads};
    if (n == 0 || n > ORR_SYNTHESIS_SOURCES)
        return orr_fail(err, ORR_INVALID, "between 1 and %d jobs are learnt from, not %u",
                        ORR_SYNTHESIS_SOURCES, n);
    ORR_TRY(learn(sources, n, options, arena, ret, err));
    ORR_TRY(orr_walk_draw(ret->sources, n, options->n_steps, options->seed, options->obfuscate,
                          arena, &ret->walk, err));
    const uint32_t n_ranks = ranks_of(ret, options);
    ORR_TRY(check(ret, n_ranks, err));
    ORR_TRY(orr_samples_learn(ret->sources, n, options->obfuscate, arena, &samples, err));
    const orr_emission emission = {.sources = ret->sources,
                                   .n = n,
                                   .n_ranks = n_ranks,
                                   .walk = &ret->walk,
                                   .samples = &samples,
                                   .seed = options->seed,
                                   .obfuscate = options->obfuscate};
    ORR_TRY(draft(&emission, arena, ret, &duration_ns, err));
    return simulate(options, duration_ns, arena, ret, err);
}

void orr_synthesis_free(orr_synthesis *synthesis)
{
    orr_job_free(synthesis->job);
    orr_job_free(synthesis->draft);
    synthesis->job = synthesis->draft = NULL;
}
