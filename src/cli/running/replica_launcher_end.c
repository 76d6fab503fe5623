/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/running/replica_launcher.h"

/* Replicas on this machine: what is there before they start, and what they came to. */

static orr_status make_room(launcher *l)
{
    orr_arena *arena = l->t->session.arena;
    l->replica_slots = orr_arena_array(arena, replica_slot, l->n);
    l->polled = orr_arena_array(arena, struct pollfd, 2 * ((size_t)l->n + 1) + 1);
    l->history = orr_arena_array(arena, orr_train_step, (size_t)l->t->options.steps);
    if (l->replica_slots == NULL || l->polled == NULL || l->history == NULL)
        return orr_fail_memory(&l->t->session.err);
    for (uint32_t i = 0; i < l->n; i++) {
        l->replica_slots[i] = (replica_slot){.step = -1, .state = "not started"};
        l->replica_slots[i].child.name = orr_training_replica_name(arena, i);
        if (l->replica_slots[i].child.name == NULL)
            return orr_fail_memory(&l->t->session.err);
    }
    return ORR_OK;
}

/* With the checkpoints, or until the end: a coordinator that is started again reads it. */
static orr_status make_place(launcher *l)
{
    const orr_settings *s = l->t->session.settings;
    orr_arena *arena = l->t->session.arena;
    orr_error *err = &l->t->session.err;
    const char *temporary = getenv("TMPDIR");
    char *folder =
        s->save != NULL
            ? orr_arena_printf(arena, "%s", s->save)
            : orr_arena_printf(arena, "%s/orrery-team-XXXXXX",
                               temporary != NULL && *temporary == '/' ? temporary : "/tmp");
    if (folder == NULL)
        return orr_fail_memory(err);
    if (s->save != NULL ? mkdir(folder, 0777) != 0 && errno != EEXIST : mkdtemp(folder) == NULL)
        return orr_fail(err, ORR_IO, "%s: %s", folder, strerror(errno));
    l->folder = s->save != NULL ? NULL : folder;
    l->log = orr_arena_printf(arena, "%s/coordinator.log", folder);
    if (l->log == NULL)
        return orr_fail_memory(err);
    if (!s->resume)
        (void)unlink(l->log); /* of another team */
    return ORR_OK;
}

orr_status orr_replicas_prepare(launcher *l)
{
    ORR_TRY(make_room(l));
    return make_place(l);
}

void orr_replicas_clean(const launcher *l)
{
    DIR *folder = l->folder != NULL ? opendir(l->folder) : NULL;
    if (folder == NULL)
        return;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.')
            (void)unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
    (void)rmdir(l->folder);
}

/* The result of one that is furthest; NULL: none came to an end. */
static const replica_slot *furthest(const launcher *l)
{
    const replica_slot *best = NULL;
    for (uint32_t i = 0; i < l->n; i++) {
        const replica_slot *of = &l->replica_slots[i];
        if (of->has_result && (best == NULL || of->step > best->step ||
                               (of->step == best->step && best->result.state_digest == 0)))
            best = of;
    }
    return best;
}

static orr_status tell_replicas(launcher *l, const replica_slot *best)
{
    orr_arena *arena = l->t->session.arena;
    orr_replica_row *rows = orr_arena_array(arena, orr_replica_row, l->n);
    if (rows == NULL)
        return orr_fail_memory(&l->t->session.err);
    l->told.equal = true;
    for (uint32_t i = 0; i < l->n; i++) {
        const replica_slot *of = &l->replica_slots[i];
        const uint64_t digest = of->has_result ? of->result.state_digest : 0;
        const char *text =
            digest == 0 ? "" : orr_arena_printf(arena, "%016llx", (unsigned long long)digest);
        if (text == NULL)
            return orr_fail_memory(&l->t->session.err);
        rows[i] = (orr_replica_row){.replica = of->child.name,
                                    .state = of->state,
                                    .starts = of->child.lives,
                                    .step = of->step,
                                    .state_digest = text};
        if (digest != 0 && of->step == best->step && digest != best->result.state_digest)
            l->told.equal = false;
    }
    l->told.rows = rows;
    l->told.n = l->n;
    l->t->replicas = &l->told;
    return ORR_OK;
}

/* As if one process had trained. */
static void sum_up(const launcher *l, const replica_slot *best)
{
    l->t->result = (orr_train_result){.steps = (int64_t)l->n_history,
                                      .stopped = best->result.stopped,
                                      .state_digest = best->result.state_digest,
                                      .step_ns = best->result.step_ns,
                                      .planned_bytes = best->result.planned_bytes,
                                      .peak_bytes = best->result.peak_bytes,
                                      .history = l->history};
    if (l->n_history == 0)
        return;
    l->t->result.first_loss = l->history[0].loss;
    l->t->result.last_loss = l->history[l->n_history - 1].loss;
}

int orr_replicas_print_summary(launcher *l)
{
    orr_error *err = &l->t->session.err;
    const replica_slot *best = furthest(l);
    if (best == NULL) {
        if (l->stop_signal != 0)
            return 128 + l->stop_signal;
        const char *why = l->replica_slots[0].child.said;
        (void)orr_fail(err, ORR_IO, "no replica came to the end%s%s", *why != '\0' ? ": " : "",
                       why);
        return EXIT_INPUT;
    }
    sum_up(l, best);
    if (tell_replicas(l, best) != ORR_OK || orr_training_print_result(l->t) != ORR_OK)
        return EXIT_INPUT;
    if (!l->told.equal) {
        (void)orr_fail(err, ORR_INVALID, "replicas ended with different states after step %lld",
                       (long long)best->step);
        return EXIT_INPUT;
    }
    return l->stop_signal != 0 ? 128 + l->stop_signal : EXIT_DONE;
}
