/* SPDX-License-Identifier: Apache-2.0 */
#include "small_training.h"

#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include <orrery/engine.h>
#include <orrery/trace.h>

#include "engine/checkpoint/checkpoint.h"

/* Replicas and their coordinator as processes on the loopback interface; what they tell lands in
 * memory that all share. */
enum { REPLICAS = 3, MOST_STEPS = 512 };

typedef struct told_step {
    atomic_int times; /* that a replica told it */
    int64_t slot, contributors, retries;
    double loss;
} told_step;

typedef struct replica_end {
    orr_status status;
    orr_error err;
    bool stopped;
    int64_t steps;
    uint64_t digest;
} replica_end;

typedef struct shared {
    atomic_bool listens;
    atomic_int joined; /* replicas, so far */
    char address[128];
    told_step steps[REPLICAS][MOST_STEPS];
    atomic_int last[REPLICAS]; /* step that a replica told last */
    atomic_bool stop[REPLICAS];
    replica_end ends[REPLICAS];
} shared;

typedef struct team {
    shared *shared;
    const char *plan, *folder;
    int64_t steps;
    int pause_ms; /* after each step, so that something can happen in time */
    uint32_t replicas;
    bool saves, records;
    pid_t coordinator, pids[REPLICAS];
} team;

typedef struct replica { /* within its process */
    team *t;
    uint32_t number;
} replica;

#define TINY "layers=1,hidden=32,ffn=64,heads=4,vocab=16,seq=32,precision=fp32,batch=8"
static const char *const names[REPLICAS] = {"a", "b", "c"};

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static void listening(void *ctx, const char *address)
{
    shared *s = ctx;
    (void)snprintf(s->address, sizeof s->address, "%s", address);
    atomic_store(&s->listens, true);
}

static void note_event(void *ctx, const orr_team_event *event)
{
    shared *s = ctx;
    if (event->kind == ORR_TEAM_JOINED)
        atomic_fetch_add(&s->joined, 1);
}

static void be_coordinator(const team *t)
{
    orr_error err;
    const orr_coordinator_options o = {.listen = "127.0.0.1:0",
                                       .replicas = t->replicas,
                                       .failure_timeout_ns = INT64_C(600000000000),
                                       .listening = listening,
                                       .on_event = note_event,
                                       .ctx = t->shared};
    if (orr_coordinator_run(&o, &err) != ORR_OK) {
        (void)fprintf(stderr, "coordinator: %s\n", err.text);
        _exit(1);
    }
    _exit(0);
}

static void note_step(void *ctx, const orr_train_step *step)
{
    const replica *r = ctx;
    told_step *to = &r->t->shared->steps[r->number][step->step];
    to->slot = step->slot;
    to->contributors = step->contributors;
    to->retries = step->retries;
    to->loss = step->loss;
    atomic_fetch_add(&to->times, 1);
    atomic_store(&r->t->shared->last[r->number], (int)step->step);
    if (r->t->pause_ms > 0)
        pause_ms(r->t->pause_ms);
}

static bool is_stopped(void *ctx)
{
    const replica *r = ctx;
    return atomic_load(&r->t->shared->stop[r->number]);
}

static void be_replica(team *t, uint32_t number, bool resume)
{
    replica r = {t, number};
    replica_end *end = &t->shared->ends[number];
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_model *model;
    orr_plan plan;
    orr_train_result result;
    char record[160];
    const orr_workload workload = {.task = ORR_TASK_PRETRAIN};
    const orr_train_team member = {.coordinator = t->shared->address,
                                   .name = names[number],
                                   .replicas = t->replicas,
                                   .failure_timeout_ns = INT64_C(600000000000),
                                   .give_up_ns = INT64_C(1800000000000)};
    end->status = orr_model_load("llama2-7b", arena, &model, &end->err);
    if (end->status == ORR_OK)
        end->status = orr_plan_parse(t->plan, &plan, &end->err);
    (void)snprintf(record, sizeof record, "%s/trace-%s", t->folder, names[number]);
    const orr_train_options o = {.model = model,
                                 .plan = &plan,
                                 .workload = &workload,
                                 .save = t->saves ? t->folder : NULL,
                                 .save_every = t->saves ? 2 : 0,
                                 .resume = resume,
                                 .record = t->records ? record : NULL,
                                 .record_steps = t->records ? t->steps : 0,
                                 .steps = t->steps,
                                 .warmup = 2,
                                 .rate = 1e-2,
                                 .rate_schedule = ORR_LEARNING_RATE_CONSTANT,
                                 .seed = 3,
                                 .threads = 1,
                                 .team = &member,
                                 .told = note_step,
                                 .stopped = is_stopped,
                                 .ctx = &r};
    if (end->status == ORR_OK)
        end->status = orr_train(&o, arena, &result, &end->err);
    if (end->status == ORR_OK) {
        end->stopped = result.stopped;
        end->steps = result.steps;
        end->digest = result.state_digest;
        orr_graph_free(result.graph);
    }
    orr_arena_free(arena);
    _exit(end->status == ORR_OK ? 0 : 1);
}

/* A process that ends with this one. */
static pid_t fork_child(void)
{
    const pid_t parent = getpid(), pid = fork();
    assert_true(pid >= 0);
    if (pid == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent))
        _exit(1);
    return pid;
}

static void start_coordinator(team *t)
{
    atomic_store(&t->shared->listens, false);
    t->coordinator = fork_child();
    if (t->coordinator == 0)
        be_coordinator(t);
    for (int i = 0; i < 180000 && !atomic_load(&t->shared->listens); i++)
        pause_ms(10);
    assert_true(atomic_load(&t->shared->listens));
}

static void start_replica(team *t, uint32_t number, bool resume)
{
    t->shared->ends[number].digest = 0;
    t->pids[number] = fork_child();
    if (t->pids[number] == 0)
        be_replica(t, number, resume);
}

static void open_team(team *t, const char *folder, const char *plan, uint32_t replicas,
                      int64_t steps)
{
    *t = (team){.folder = folder, .plan = plan, .replicas = replicas, .steps = steps};
    t->shared =
        mmap(NULL, sizeof *t->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(t->shared != MAP_FAILED);
}

static void start_all(team *t, bool resume)
{
    start_coordinator(t);
    for (uint32_t i = 0; i < t->replicas; i++)
        start_replica(t, i, resume);
}

static void close_team(team *t)
{
    munmap(t->shared, sizeof *t->shared);
}

/* false: it was not there within half an hour; it is ended then. */
static bool ends_well(pid_t pid)
{
    int how = 0;
    for (int i = 0; i < 180000; i++) {
        if (waitpid(pid, &how, WNOHANG) == pid)
            return WIFEXITED(how) && WEXITSTATUS(how) == 0;
        pause_ms(10);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &how, 0);
    return false;
}

static void await_all(team *t)
{
    for (uint32_t i = 0; i < t->replicas; i++)
        if (!ends_well(t->pids[i]))
            fail_msg("replica %u: %s", i, t->shared->ends[i].err.text);
    if (!ends_well(t->coordinator))
        fail_msg("the coordinator did not end");
}

static void await_step(const team *t, uint32_t number, int step)
{
    for (int i = 0; i < 360000 && atomic_load(&t->shared->last[number]) < step; i++)
        pause_ms(5);
    assert_true(atomic_load(&t->shared->last[number]) >= step);
}

static void kill_one(team *t, uint32_t number)
{
    int how;
    kill(t->pids[number], SIGKILL);
    assert_int_equal(waitpid(t->pids[number], &how, 0), t->pids[number]);
}

/* All that are there at the end have the same state. */
static void all_are_the_same(const team *t)
{
    for (uint32_t i = 0; i < t->replicas; i++) {
        assert_true(t->shared->ends[i].digest != 0);
        assert_true(t->shared->ends[i].digest == t->shared->ends[0].digest);
        assert_false(t->shared->ends[i].stopped);
    }
}

/* No batch is trained twice, and none is left out but those that were lost with what a killed
 * replica would still have told. Who tells a step tells the same. */
static void each_slot_is_trained_once(const team *t, int64_t untold)
{
    enum { SLOTS = REPLICAS * MOST_STEPS };
    static uint8_t trained[SLOTS];
    int64_t all = 0, told = 0, most = -1;
    memset(trained, 0, sizeof trained);
    for (int64_t s = 1; s <= t->steps; s++) {
        const told_step *of = NULL;
        for (uint32_t i = 0; i < t->replicas; i++) {
            const told_step *step = &t->shared->steps[i][s];
            if (atomic_load(&step->times) == 0)
                continue;
            if (of != NULL)
                assert_true(of->loss == step->loss && of->contributors == step->contributors);
            of = step;
            if (step->slot < 0)
                continue;
            assert_true(step->slot < SLOTS);
            assert_int_equal(trained[step->slot]++, 0);
            most = step->slot > most ? step->slot : most;
            told++;
        }
        assert_non_null(of);
        all += of->contributors;
    }
    assert_true(all - told >= 0 && all - told <= untold);
    int64_t missing = 0;
    for (int64_t slot = 0; slot <= most; slot++)
        missing += trained[slot] == 0;
    assert_true(missing <= untold + t->replicas); /* the last ones may have been handed back */
}

/* As one job with the replicas' batches in one: the same batches in the same order. */
static void train_alone(const char *plan, int64_t steps, double *ret_loss)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_error err;
    const orr_model *model;
    orr_plan p;
    orr_train_result result;
    const orr_workload workload = {.task = ORR_TASK_PRETRAIN};
    assert_int_equal(orr_model_load("llama2-7b", arena, &model, &err), ORR_OK);
    assert_int_equal(orr_plan_parse(plan, &p, &err), ORR_OK);
    const orr_train_options o = {.model = model,
                                 .plan = &p,
                                 .workload = &workload,
                                 .steps = steps,
                                 .warmup = 2,
                                 .rate = 1e-2,
                                 .rate_schedule = ORR_LEARNING_RATE_CONSTANT,
                                 .seed = 3,
                                 .threads = 1};
    if (orr_train(&o, arena, &result, &err) != ORR_OK)
        fail_msg("%s", err.text);
    for (int64_t i = 0; i < steps; i++)
        ret_loss[i] = result.history[i].loss;
    orr_arena_free(arena);
}

static void two_replicas_train_as_one_job(void **state)
{
    enum { STEPS = 12 };
    team t;
    double loss[STEPS];
    open_team(&t, *state, TINY, 2, STEPS);
    start_all(&t, false);
    await_all(&t);
    all_are_the_same(&t);
    each_slot_is_trained_once(&t, 0);
    train_alone("layers=1,hidden=32,ffn=64,heads=4,vocab=16,seq=32,precision=fp32,batch=16,dp=2",
                STEPS, loss);
    for (int64_t s = 1; s <= STEPS; s++) {
        assert_int_equal(t.shared->steps[0][s].contributors, 2);
        assert_true(fabs(t.shared->steps[0][s].loss - loss[s - 1]) < 1e-5);
    }
    close_team(&t);
}

static void replicas_of_several_ranks(void **state)
{
    static const char *const plans[] = {TINY ",dp=2,zero=1", TINY ",tp=2"};
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        team t;
        open_team(&t, *state, plans[i], 2, 8);
        start_all(&t, false);
        await_all(&t);
        all_are_the_same(&t);
        each_slot_is_trained_once(&t, 0);
        close_team(&t);
    }
}

/* How often, in the trace of a replica. */
static int count_notes(const char *folder, const char *replica_name, const char *name)
{
    char path[192];
    const orr_graph *g;
    orr_error err;
    int n = 0;
    (void)snprintf(path, sizeof path, "%s/trace-%s/rank0.et", folder, replica_name);
    if (orr_trace_read(path, NULL, &g, NULL, &err) != ORR_OK)
        fail_msg("%s", err.text);
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        n += strcmp(orr_graph_str(g, g->name[v]), name) == 0;
    orr_graph_free(g);
    return n;
}

static void killed_it_comes_back_to_the_same_bits(void **state)
{
    team t;
    open_team(&t, *state, TINY, 3, 200);
    t.pause_ms = 8;
    t.records = true;
    start_all(&t, false);
    await_step(&t, 0, 20);
    kill_one(&t, 1);
    await_step(&t, 0, 40); /* the others go on */
    start_replica(&t, 1, false);
    await_all(&t);
    all_are_the_same(&t);
    each_slot_is_trained_once(&t, 1);
    int64_t fewest = t.replicas, last = 0;
    for (int64_t s = 1; s <= t.steps; s++) {
        last = t.shared->steps[0][s].contributors;
        fewest = last < fewest ? last : fewest;
    }
    assert_int_equal(fewest, 2);
    assert_int_equal(last, 3); /* it is back */
    const int epochs = count_notes(t.folder, "a", "epoch"),
              waits = count_notes(t.folder, "a", "commit");
    assert_true(epochs >= 3); /* all, without b, all */
    /* A step is voted on once, and once more where an epoch came in the middle of the vote. */
    assert_in_range(waits, t.steps, t.steps + epochs);
    assert_int_equal(count_notes(t.folder, "b", "fetch"), 1);
    assert_int_equal(count_notes(t.folder, "b", "whole"), 1);
    close_team(&t);
}

static void a_rank_that_is_killed_takes_its_replica_along(void **state)
{
    team t;
    open_team(&t, *state, TINY ",dp=2,zero=1", 2, 150);
    t.pause_ms = 8;
    start_all(&t, false);
    await_step(&t, 0, 15);
    kill_one(&t, 1);
    await_step(&t, 0, 30);
    start_replica(&t, 1, false);
    await_all(&t);
    all_are_the_same(&t);
    each_slot_is_trained_once(&t, 1);
    close_team(&t);
}

static void who_is_asked_to_stop_leaves_and_the_others_go_on(void **state)
{
    team t;
    open_team(&t, *state, TINY, 2, 80);
    t.pause_ms = 5;
    start_all(&t, false);
    await_step(&t, 1, 10);
    atomic_store(&t.shared->stop[1], true);
    await_all(&t);
    assert_true(t.shared->ends[1].stopped && t.shared->ends[1].steps >= 10);
    assert_false(t.shared->ends[0].stopped);
    assert_int_equal(t.shared->ends[0].steps, 80);
    each_slot_is_trained_once(&t, 0); /* nothing was lost */
    close_team(&t);
}

/* From checkpoints of the same step: the same bits as without an end between. */
static void what_was_saved_goes_on_as_if_it_had_not_ended(void **state)
{
    team whole, t;
    open_team(&whole, *state, TINY ",dp=2,zero=1", 2, 40);
    start_all(&whole, false);
    await_all(&whole);
    open_team(&t, *state, TINY ",dp=2,zero=1", 2, 20);
    t.saves = true;
    start_all(&t, true); /* nothing is there yet */
    await_all(&t);
    t.steps = 40;
    start_all(&t, true);
    await_all(&t);
    all_are_the_same(&t);
    assert_int_equal(t.shared->ends[0].steps, 20);
    assert_true(t.shared->ends[0].digest == whole.shared->ends[0].digest);
    for (int64_t s = 1; s <= 40; s++)
        for (int i = 0; i < 2; i++) {
            assert_true(t.shared->steps[i][s].loss == whole.shared->steps[i][s].loss);
            assert_int_equal(t.shared->steps[i][s].slot, whole.shared->steps[i][s].slot);
        }
    close_team(&whole);
    close_team(&t);
}

/* All of them, and the coordinator: the newest of what they saved goes on. */
static void a_whole_team_that_was_killed_goes_on(void **state)
{
    team t;
    open_team(&t, *state, TINY, 2, 60);
    t.saves = true;
    t.pause_ms = 5;
    start_all(&t, true); /* nothing is there yet */
    await_step(&t, 0, 25);
    kill_one(&t, 0);
    kill_one(&t, 1);
    kill(t.coordinator, SIGKILL);
    (void)ends_well(t.coordinator);
    start_all(&t, true);
    await_all(&t);
    all_are_the_same(&t);
    assert_true(t.shared->ends[0].steps < 60); /* not from the start */
    orr_checkpoint *c;
    orr_error err;
    char folder[160];
    (void)snprintf(folder, sizeof folder, "%s/a", (const char *)*state);
    assert_int_equal(orr_checkpoint_open(folder, &c, &err), ORR_OK);
    int64_t trained = 0; /* one of them may have saved less, and comes behind for a step or two */
    for (int64_t step = 1; step <= 60; step++)
        trained += t.shared->steps[0][step].contributors;
    assert_true(c->step == 60 && c->data.next - c->data.n == (uint64_t)trained);
    orr_checkpoint_close(c);
    close_team(&t);
}

/* The odd one out of three: two of one job are a majority, one against one would be none. */
static void another_job_is_refused(void **state)
{
    team t, other;
    open_team(&t, *state, TINY, 3, 40);
    start_coordinator(&t);
    start_replica(&t, 0, false);
    start_replica(&t, 1, false);
    for (int i = 0; i < 180000 && atomic_load(&t.shared->joined) < 2; i++)
        pause_ms(10);
    other = t;
    other.plan = "layers=1,hidden=32,ffn=64,heads=4,vocab=16,seq=32,precision=fp32,batch=16";
    start_replica(&other, 2, false);
    assert_false(ends_well(other.pids[2]));
    assert_int_equal(t.shared->ends[2].status, ORR_INVALID);
    start_replica(&t, 2, false);
    await_all(&t);
    all_are_the_same(&t);
    close_team(&t);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(two_replicas_train_as_one_job),
        IN_FOLDER(replicas_of_several_ranks),
        IN_FOLDER(killed_it_comes_back_to_the_same_bits),
        IN_FOLDER(a_rank_that_is_killed_takes_its_replica_along),
        IN_FOLDER(who_is_asked_to_stop_leaves_and_the_others_go_on),
        IN_FOLDER(what_was_saved_goes_on_as_if_it_had_not_ended),
        IN_FOLDER(a_whole_team_that_was_killed_goes_on),
        IN_FOLDER(another_job_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
