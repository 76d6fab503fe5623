/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <orrery/team.h>

/* One process of a team whose steps are made of sleep: what the protocol itself takes, and how long
 * it stands still when others die. Driven by bench/team.py.
 *
 *   bench_team_step coordinator ADDRESS REPLICAS TIMEOUT_MS LOG
 *   bench_team_step NAME ADDRESS STEPS COMPUTE_US NUMBERS STATE_NUMBERS TIMEOUT_MS
 *
 * prints a line a step: step, CLOCK_MONOTONIC ns of its commit, contributors, retries, ns waited.
 */

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void say_event(void *ctx, const orr_team_event *event)
{
    (void)ctx;
    if (event->kind != ORR_TEAM_COMMIT)
        fprintf(stderr, "%" PRId64 " %s %s\n", event->at_ns,
                orr_team_event_name((orr_team_event_kind)event->kind), event->text);
}

static int coordinate(char **args)
{
    const orr_coordinator_options o = {.listen = args[2],
                                       .replicas = (uint32_t)strtoul(args[3], NULL, 10),
                                       .failure_timeout_ns = strtoll(args[4], NULL, 10) * 1000000,
                                       .store = args[5],
                                       .on_event = say_event};
    orr_error err;
    if (orr_coordinator_run(&o, &err) == ORR_OK)
        return 0;
    fprintf(stderr, "%s\n", err.text);
    return 1;
}

typedef struct replica {
    orr_team *team;
    uint64_t steps;
    int64_t compute_ns;
    size_t n, state_n;
    float *in, *out, *state;
} replica;

static void update(replica *r)
{
    for (size_t i = 0; i < r->state_n; i++)
        r->state[i] = 0.5F * r->state[i] + r->out[i % r->n];
}

static orr_status make_step(replica *r, const orr_team_directive *turn, orr_error *err)
{
    const struct timespec nap = {r->compute_ns / 1000000000, r->compute_ns % 1000000000};
    orr_team_outcome outcome;
    if (turn->kind == ORR_DIRECTIVE_COMPUTE) {
        for (size_t i = 0; i < r->n; i++)
            r->in[i] = (float)((turn->slot + i) % 64);
        nanosleep(&nap, NULL);
    }
    if (turn->step >= r->steps)
        orr_team_drain(r->team, true);
    ORR_TRY(orr_team_reduce(r->team, 0, ORR_TEAM_FP32,
                            turn->kind == ORR_DIRECTIVE_ZEROS ? NULL : r->in, r->out, r->n, err));
    ORR_TRY(orr_team_vote(r->team, 1, &outcome, err));
    if (outcome.kind != ORR_OUTCOME_COMMITTED)
        return ORR_OK;
    printf("%" PRIu64 " %" PRId64 " %" PRIu64 " %" PRIu64 " %" PRId64 "\n", outcome.step, now_ns(),
           outcome.contributors, outcome.retries, outcome.wait_ns);
    fflush(stdout);
    update(r);
    orr_team_updated(r->team, outcome.step);
    return ORR_OK;
}

static orr_status make_steps(replica *r, orr_error *err)
{
    for (;;) {
        orr_team_directive turn;
        ORR_TRY(orr_team_next_directive(r->team, &turn, err));
        if (turn.kind == ORR_DIRECTIVE_LEAVE)
            return ORR_OK;
        if (turn.kind == ORR_DIRECTIVE_APPLY) {
            update(r);
            orr_team_updated(r->team, turn.step);
        } else {
            ORR_TRY(make_step(r, &turn, err));
        }
    }
}

static int train(char **args)
{
    replica r = {.steps = strtoull(args[3], NULL, 10),
                 .compute_ns = strtoll(args[4], NULL, 10) * 1000,
                 .n = strtoull(args[5], NULL, 10),
                 .state_n = strtoull(args[6], NULL, 10)};
    r.in = calloc(r.n, sizeof *r.in);
    r.out = calloc(r.n, sizeof *r.out);
    r.state = malloc(r.state_n * sizeof *r.state);
    if (r.in == NULL || r.out == NULL || r.state == NULL)
        return 1;
    for (size_t i = 0; i < r.state_n; i++)
        r.state[i] = 1;
    const orr_team_span span = {r.state, r.state_n * sizeof *r.state};
    const orr_team_options o = {.coordinator = args[2],
                                .name = args[1],
                                .failure_timeout_ns = strtoll(args[7], NULL, 10) * 1000000,
                                .spans = &span,
                                .n_spans = 1,
                                .on_event = say_event};
    orr_error err;
    orr_status status = orr_team_join(&o, &r.team, &err);
    if (status == ORR_OK)
        status = make_steps(&r, &err);
    if (status != ORR_OK)
        fprintf(stderr, "%s\n", err.text);
    orr_team_leave(r.team);
    free(r.in);
    free(r.out);
    free(r.state);
    return status != ORR_OK;
}

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "coordinator") == 0)
        return coordinate(argv);
    if (argc == 8)
        return train(argv);
    fprintf(stderr, "see bench/team.py\n");
    return 2;
}
