/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "engine/train/trainer.h"

/* Team events as annotations of the recording, a lane for each kind. An interval ends with a
 * certain event of another kind: a loss, for example, with the new epoch. */

static bool ends(uint8_t kind, uint8_t open)
{
    switch (open) {
    case ORR_TEAM_LOST:
    case ORR_TEAM_HALT:
        return kind == ORR_TEAM_EPOCH;
    case ORR_TEAM_RETRY:
        return kind == ORR_TEAM_COMMIT;
    case ORR_TEAM_FETCH:
        return kind == ORR_TEAM_CAUGHT_UP;
    case ORR_TEAM_COORDINATOR_LOST:
        return kind == ORR_TEAM_COORDINATOR || kind == ORR_TEAM_EPOCH;
    default:
        return false;
    }
}

static bool lasts(uint8_t kind)
{
    return kind == ORR_TEAM_LOST || kind == ORR_TEAM_HALT || kind == ORR_TEAM_RETRY ||
           kind == ORR_TEAM_FETCH || kind == ORR_TEAM_COORDINATOR_LOST || kind == ORR_TEAM_EPOCH;
}

static void close_note(orr_trainer *t, uint8_t kind, int64_t at_ns)
{
    orr_recorded_annotation *note = &t->open[kind];
    if (note->name == NULL)
        return;
    note->end_ns = at_ns;
    orr_recorder_annotate(t->recorder, note);
    note->name = NULL;
}

static void note_event(orr_trainer *t, const orr_team_event *event)
{
    orr_recorded_annotation note = {.lane = event->kind,
                                    .name = orr_team_event_name((orr_team_event_kind)event->kind),
                                    .start_ns = event->at_ns,
                                    .end_ns = event->at_ns,
                                    .epoch = event->epoch,
                                    .step = event->step};
    snprintf(note.text, sizeof note.text, "%s", event->text != NULL ? event->text : "");
    for (uint8_t kind = 0; kind < ORR_TRAIN_EVENTS; kind++)
        if (kind == event->kind || ends(event->kind, kind))
            close_note(t, kind, event->at_ns);
    if (event->kind == ORR_TEAM_COMMIT)
        return; /* recorded as the wait of a rank instead */
    if (lasts(event->kind))
        t->open[event->kind] = note;
    else
        orr_recorder_annotate(t->recorder, &note);
}

/* Called in the team's thread. */
void orr_train_annotate_event(void *ctx, const orr_team_event *event)
{
    orr_trainer *t = ctx;
    const orr_train_options *o = t->training->options;
    if (event->kind == ORR_TEAM_FETCH)
        atomic_store(&t->state_received, true);
    if (t->recorder != NULL && event->kind < ORR_TRAIN_EVENTS)
        note_event(t, event);
    if (t->transport->rank == 0 && o->team->told != NULL)
        o->team->told(o->ctx, event);
}

void orr_train_annotate_wait(orr_trainer *t, const orr_team_outcome *outcome, int64_t begin_ns)
{
    static const char *const kinds[] = {
        [ORR_OUTCOME_COMMITTED] = "committed",
        [ORR_OUTCOME_DEFERRED] = "put aside",
        [ORR_OUTCOME_DROPPED] = "dropped",
    };
    orr_recorded_annotation note = {.lane = ORR_TEAM_COMMIT,
                                    .name = orr_team_event_name(ORR_TEAM_COMMIT),
                                    .start_ns = begin_ns,
                                    .end_ns = orr_clock_now_ns(&orr_clock_monotonic),
                                    .epoch = outcome->epoch,
                                    .step = outcome->step};
    if (t->recorder == NULL)
        return;
    snprintf(note.text, sizeof note.text, "%s, %llu contributors, %llu retries",
             kinds[outcome->kind], (unsigned long long)outcome->contributors,
             (unsigned long long)outcome->retries);
    orr_recorder_annotate(t->recorder, &note);
}

void orr_train_annotate_end(orr_trainer *t)
{
    const int64_t now_ns = orr_clock_now_ns(&orr_clock_monotonic);
    for (uint8_t kind = 0; kind < ORR_TRAIN_EVENTS && t->recorder != NULL; kind++)
        close_note(t, kind, now_ns);
}
