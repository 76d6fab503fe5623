/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "report/humanize/human.h"
#include "report/sharding/parts.h"

/* Names of the user's, which must not drive the terminal, and sentences that have them. */
enum { NAME_COLUMNS = 100, TEXT_MAX = 1200 };
static const char *name_of(const char *name, char buf[TEXT_MAX])
{
    orr_text_elide(name, NAME_COLUMNS, buf, TEXT_MAX);
    return buf;
}
static const char *sentence_of(const char *text, char buf[TEXT_MAX])
{
    orr_text_elide(text, TEXT_MAX, buf, TEXT_MAX);
    return buf;
}

static void tell_question(const orr_sharding_report *r, orr_output *out)
{
    const orr_table_planner_options *o = r->options;
    char bytes[ORR_HUMAN_MAX], batch[ORR_HUMAN_MAX], each[ORR_HUMAN_MAX], tables[ORR_HUMAN_MAX];
    char title[TEXT_MAX], machine[TEXT_MAX];
    orr_output_printf(out, "%s: %s table%s, %s, over %u rank%s of %s\n",
                      name_of(r->model->title, title), orr_human_count(tables, o->n_tables),
                      o->n_tables == 1 ? "" : "s",
                      orr_human_bytes(bytes, (double)orr_sharding_table_bytes(r)), o->ranks,
                      o->ranks == 1 ? "" : "s",
                      r->cluster != NULL ? name_of(r->cluster->name, machine) : "this machine");
    if (r->groups > 1)
        orr_output_printf(out, "groups: %u, each with all tables; their averages are not priced\n",
                          r->groups);
    orr_output_printf(out,
                      "step: %s samples, %s a rank; bags travel as %s, gradients as %s; %u batch%s "
                      "ahead\nprices: %s\n",
                      orr_human_count(batch, (uint64_t)orr_sharding_batch(r)),
                      orr_human_count(each, (uint64_t)o->samples),
                      orr_embedding_codec_name((orr_embedding_codec)o->forward),
                      orr_embedding_codec_name((orr_embedding_codec)o->backward), o->pipeline,
                      o->pipeline == 1 ? "" : "es",
                      o->pricing == ORR_TABLE_PRICING_TORCHREC ? "TorchRec's terms"
                                                               : name_of(o->costs.source, machine));
}

static void tell_time(const orr_table_planning *p, orr_output *out)
{
    char time[ORR_HUMAN_MAX], shared[ORR_HUMAN_MAX], stages[ORR_HUMAN_MAX];
    orr_output_printf(out,
                      "time: %s on rank %u, the busiest; of it %s are the same on every rank; %s "
                      "where ranks wait for each other after every stage\n",
                      orr_human_ns(time, p->ns), orr_sharding_busiest_rank(p),
                      orr_human_ns(shared, p->shared_ns), orr_human_ns(stages, p->synchronous_ns));
}

static void tell_memory(const orr_sharding_report *r, const orr_table_planning *p, orr_output *out)
{
    const uint32_t fullest = orr_sharding_fullest_rank(p);
    char bytes[ORR_HUMAN_MAX], room[ORR_HUMAN_MAX], worth[ORR_HUMAN_MAX];
    orr_output_printf(out, "memory: %s on rank %u, the fullest",
                      orr_human_bytes(bytes, (double)p->ranks[fullest].memory_bytes), fullest);
    if (r->options->memory_bytes > 0)
        orr_output_printf(out, ", of %s", orr_human_bytes(room, (double)r->options->memory_bytes));
    if (p->memory_ns_per_gib > 0)
        orr_output_printf(out, "; a GiB more on every rank would lower the bound by %s\n",
                          orr_human_ns(worth, p->memory_ns_per_gib));
    else
        orr_output_text(out, "; more would not lower the bound\n");
}

static void tell_proof(const orr_sharding_report *r, orr_output *out)
{
    const orr_table_planning *p = r->best;
    char bound[ORR_HUMAN_MAX], gap[ORR_HUMAN_MAX], by[TEXT_MAX];
    if (p->optimal)
        orr_output_text(out, "proof: no plan is better\n");
    else
        orr_output_printf(out, "proof: no plan takes less than %s (%s): the gap is %s (%s)\n",
                          orr_human_ns(bound, p->bound_ns),
                          p->bound_by != NULL ? sentence_of(p->bound_by, by) : "",
                          orr_human_frac(gap, p->gap_frac), orr_sharding_status(r));
}

static void tell_given(const orr_sharding_report *r, orr_output *out)
{
    char time[ORR_HUMAN_MAX], best[ORR_HUMAN_MAX];
    if (r->given == NULL)
        return;
    orr_output_printf(out, "given: %s", orr_human_ns(time, r->given->ns));
    if (r->best->infeasible == NULL)
        orr_output_printf(out, ", %+.1f %% of the best, %s", 100 * (r->given->ns / r->best->ns - 1),
                          orr_human_ns(best, r->best->ns));
    orr_output_text(out, "\n");
}

void orr_sharding_summary(const orr_sharding_report *r, orr_output *out)
{
    const orr_table_planning *p = r->best;
    char why[TEXT_MAX], nodes[ORR_HUMAN_MAX], moves[ORR_HUMAN_MAX], wall[ORR_HUMAN_MAX];
    tell_question(r, out);
    tell_given(r, out);
    if (p->infeasible != NULL) {
        orr_output_printf(out, "no plan: %s\n", sentence_of(p->infeasible, why));
        return;
    }
    if (r->interrupted)
        orr_output_text(out, "interrupted: this is the best so far\n");
    tell_time(p, out);
    if (p->tiering != NULL)
        orr_sharding_tell_tiers(r, out);
    else
        tell_memory(r, p, out);
    tell_proof(r, out);
    orr_output_printf(out, "searched: %s nodes of the tree, %s moves, in %s\n",
                      orr_human_count(nodes, p->nodes), orr_human_count(moves, p->moves),
                      orr_human_ns(wall, (double)p->wall_ns));
}
