/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/record/recorder_state.h"

#include "base/alloc.h"

/* Recording: preallocated arrays of times, and which run writes to which part. */

enum { RUNS_OF_STEP = 1024 };

orr_status orr_recorder_new(uint32_t steps, uint32_t calls, orr_recorder **ret, orr_error *err)
{
    const uint32_t runs = calls < RUNS_OF_STEP ? calls : RUNS_OF_STEP;
    size_t n_calls, n_runs;
    if (!orr_mul_size(steps, calls, &n_calls) || !orr_mul_size(steps, runs, &n_runs) ||
        n_runs > UINT32_MAX)
        return orr_fail(err, ORR_LIMIT, "a recording of %u steps of %u calls", steps, calls);
    orr_recorder *r = orr_calloc(1, sizeof *r);
    if (r == NULL)
        return orr_fail_memory(err);
    pthread_mutex_init(&r->noting, NULL);
    r->steps = orr_calloc((size_t)steps + 1, sizeof *r->steps);
    r->runs = orr_calloc(n_runs + 1, sizeof *r->runs);
    r->start_ns = orr_calloc(n_calls + 1, sizeof *r->start_ns);
    r->end_ns = orr_calloc(n_calls + 1, sizeof *r->end_ns);
    if (r->steps == NULL || r->runs == NULL || r->start_ns == NULL || r->end_ns == NULL) {
        orr_recorder_free(r);
        return orr_fail_memory(err);
    }
    r->room_steps = steps;
    r->room_runs = (uint32_t)n_runs;
    r->room_calls = n_calls;
    *ret = r;
    return ORR_OK;
}

void orr_recorder_free(orr_recorder *r)
{
    if (r == NULL)
        return;
    pthread_mutex_destroy(&r->noting);
    orr_array_done(&r->notes);
    orr_array_done(&r->bytes);
    orr_free(r->end_ns);
    orr_free(r->start_ns);
    orr_free(r->runs);
    orr_free(r->steps);
    orr_free(r);
}

void orr_recorder_step(orr_recorder *r, int64_t number)
{
    orr_recorder_end(r);
    if (r->n_steps == r->room_steps)
        return;
    r->steps[r->n_steps++] = (orr_recorded_step){
        .number = number, .start_ns = orr_program_now_ns(), .first_run = r->n_runs};
    r->open = true;
}

void orr_recorder_run(orr_recorder *r, const orr_program *program, int64_t **ret_start_ns,
                      int64_t **ret_end_ns)
{
    const size_t n = program->tape->n_calls;
    *ret_start_ns = *ret_end_ns = NULL;
    if (!r->open || r->n_runs == r->room_runs || r->room_calls - r->n_calls < n)
        return;
    *ret_start_ns = r->start_ns + r->n_calls;
    *ret_end_ns = r->end_ns + r->n_calls;
    for (size_t i = 0; i < n; i++)
        (*ret_start_ns)[i] = (*ret_end_ns)[i] = -1;
    r->runs[r->n_runs++] =
        (orr_recorded_run){.program = program, .first = r->n_calls, .to = program->tape->n_calls};
    r->steps[r->n_steps - 1].n_runs++;
    r->n_calls += n;
}

void orr_recorder_resume(orr_recorder *r, const orr_program *program, uint32_t from)
{
    const uint32_t first = r->open ? r->steps[r->n_steps - 1].first_run : r->n_runs;
    uint32_t at = r->n_runs;
    while (at > first && r->runs[at - 1].program != program)
        at--;
    if (at == first)
        return;
    orr_recorded_run *run = &r->runs[at - 1];
    if (at == r->n_runs || r->n_runs == r->room_runs || from < run->from || from >= run->to)
        return;
    r->runs[r->n_runs] = *run;
    r->runs[r->n_runs++].from = from;
    run->to = from;
    r->steps[r->n_steps - 1].n_runs++;
}

void orr_recorder_bytes(orr_recorder *r, uint32_t call, int64_t sent, int64_t received)
{
    if (!r->open || r->n_runs == r->steps[r->n_steps - 1].first_run)
        return;
    (void)orr_array_push(&r->bytes,
                         ((orr_recorded_bytes){.time = r->runs[r->n_runs - 1].first + call,
                                               .sent = sent,
                                               .received = received}));
}

void orr_recorder_end(orr_recorder *r)
{
    if (r->open)
        r->steps[r->n_steps - 1].end_ns = orr_program_now_ns();
    r->open = false;
}

void orr_recorder_annotate(orr_recorder *r, const orr_recorded_annotation *note)
{
    orr_recorded_annotation kept = *note;
    pthread_mutex_lock(&r->noting);
    if (kept.start_ns < r->notes_from_ns)
        kept.start_ns = r->notes_from_ns;
    if (kept.end_ns >= kept.start_ns)
        (void)orr_array_push(&r->notes, kept);
    pthread_mutex_unlock(&r->noting);
}

void orr_recorder_drop_annotations(orr_recorder *r)
{
    pthread_mutex_lock(&r->noting);
    r->notes.n = 0;
    r->notes_from_ns = orr_program_now_ns();
    pthread_mutex_unlock(&r->noting);
}
