/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <orrery/trace.h>

#include "engine/train/trainer.h"

/* Output of a recording: the last steps as a graph, time by operator, and a trace of each rank. */

bool orr_train_records(const orr_trainer *t, int64_t step)
{
    const orr_train_options *o = t->training->options;
    return t->recorder != NULL && step > o->steps - o->record_steps;
}

orr_status orr_train_open_recorder(orr_trainer *t, orr_error *err)
{
    const orr_train_options *o = t->training->options;
    const int64_t left = o->steps - t->last_step;
    const int64_t steps = o->record_steps < left ? o->record_steps : left;
    if (steps <= 0)
        return ORR_OK;
    return orr_recorder_new((uint32_t)steps, orr_engine_step_calls(t->step), &t->recorder, err);
}

static orr_status write_trace(const orr_trainer *t, const orr_graph *graph, orr_error *err)
{
    const char *folder = t->training->options->record;
    char path[4096];
    if (folder == NULL)
        return ORR_OK;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return orr_fail(err, ORR_IO, "%s: %s", folder, strerror(errno));
    snprintf(path, sizeof path, "%s/rank%u.et", folder, t->transport->rank);
    return orr_trace_write(path, ORR_FORMAT_CHAKRA, graph, err);
}

static orr_status list_ops(const orr_trainer *t, orr_error *err)
{
    orr_train_job *training = t->training;
    const orr_train_options *o = training->options;
    const orr_recorded_op *ops;
    uint32_t n;
    ORR_TRY(orr_recorder_ops(t->recorder, training->arena, &ops, &n, err));
    orr_train_op *mean = orr_arena_array(training->arena, orr_train_op, n);
    const double steps =
        (double)(o->record_steps < training->result.steps ? o->record_steps
                                                          : training->result.steps);
    if (mean == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n && steps > 0; i++)
        mean[i] = (orr_train_op){.name = ops[i].name,
                                 .op = ops[i].op,
                                 .pass = ops[i].pass,
                                 .calls = (double)ops[i].calls / steps,
                                 .ns = (int64_t)((double)ops[i].ns / steps),
                                 .flops = ops[i].flops / steps,
                                 .bytes = ops[i].bytes / steps};
    training->result.ops = mean;
    training->result.n_ops = n;
    return ORR_OK;
}

orr_status orr_train_close_recorder(orr_trainer *t, orr_error *err)
{
    const uint32_t rank = t->transport->rank;
    const orr_graph *graph;
    if (t->recorder == NULL || t->training->result.steps == 0 ||
        !(rank == 0 || t->training->options->record != NULL))
        return ORR_OK;
    ORR_TRY(orr_recorder_graph(t->recorder, rank, t->transport->ranks, &graph, err));
    orr_status status = write_trace(t, graph, err);
    if (status == ORR_OK)
        status = list_ops(t, err);
    if (status == ORR_OK && rank == 0)
        t->training->result.graph = graph;
    else
        orr_graph_free((orr_graph *)graph);
    return status;
}
