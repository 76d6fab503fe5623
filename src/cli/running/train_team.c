/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/arguments/team_key.h"
#include "cli/running/child_report.h"
#include "cli/running/train.h"
#include "engine/ranks/launch.h"

/* What --team and --replicas ask of a run of training. */

const char *orr_training_checkpoint_folder(const orr_training *t, const char *replica)
{
    const char *save = t->session.settings->save;
    return replica == NULL ? save : orr_arena_printf(t->session.arena, "%s/%s", save, replica);
}

const char *orr_training_replica_name(orr_arena *arena, uint32_t i)
{
    return orr_arena_printf(arena, "r%u", i);
}

/* Of a team's thread. Commits are told as steps. */
static void tell_event(void *ctx, const orr_team_event *event)
{
    const orr_training *t = ctx;
    const orr_settings *s = t->session.settings;
    if (t->reports >= 0)
        orr_child_report_send_event(t->reports, event);
    else if (!s->quiet && (event->kind != ORR_TEAM_COMMIT || s->verbose))
        orr_team_event_print(NULL, event, event->text != NULL ? event->text : "");
}

static uint8_t rate_of(const char *name)
{
    static const char *const names[] = {
#define NAME_(name, text) text,
        ORR_TEAM_RATE_MAP(NAME_)
#undef NAME_
    };
    for (uint8_t i = 0; name != NULL && i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return ORR_TEAM_RATE_NONE;
}

/* Options that say nothing without another. */
static orr_status check_alone(const orr_settings *s, orr_error *err)
{
    if (s->replica != NULL && s->team == NULL)
        return orr_fail(err, ORR_INVALID, "--replica: of which team? Add --team HOST:PORT");
    if (s->address != NULL && s->team == NULL)
        return orr_fail(err, ORR_INVALID, "--address: for which team? Add --team HOST:PORT");
    if (s->team == NULL && s->replicas == 0 &&
        (s->failure_timeout != NULL || s->rate_policy != NULL || s->metrics != NULL ||
         s->catch_up_steps > 0 || s->no_shared_memory || s->key != NULL || s->encrypt != NULL ||
         s->insecure))
        return orr_fail(
            err, ORR_INVALID,
            "--failure-timeout, --learning-rate-policy, --metrics, --catch-up-steps, --key, "
            "--encrypt, --insecure and --no-shared-memory are a team's: add --replicas N");
    return ORR_OK;
}

static orr_status check_one(const orr_settings *s, orr_error *err)
{
    if (s->replica == NULL)
        return orr_fail(err, ORR_INVALID, "--team: which one is this? Add --replica NAME");
    if (s->replicas == 0)
        return orr_fail(err, ORR_INVALID,
                        "--team: of how many replicas is the job planned? Add --replicas N");
    if (s->metrics != NULL)
        return orr_fail(err, ORR_INVALID, "--metrics: with --team the coordinator has them");
    if (s->predict)
        return orr_fail(err, ORR_INVALID, "--predict: a team is not predicted");
    return ORR_OK;
}

static orr_status check_all(const orr_settings *s, orr_error *err)
{
    uint32_t rank, ranks;
    if (s->predict)
        return orr_fail(err, ORR_INVALID, "--predict: a team is not predicted");
    if (orr_launcher_ranks(&rank, &ranks) && ranks > 1)
        return orr_fail(err, ORR_INVALID,
                        "--replicas starts processes of its own: under a launcher, give each "
                        "replica --team and --replica");
    return ORR_OK;
}

orr_status orr_training_team(orr_training *t)
{
    const orr_settings *s = t->session.settings;
    orr_error *err = &t->session.err;
    ORR_TRY(check_alone(s, err));
    if (s->team == NULL && s->replicas == 0)
        return ORR_OK;
    ORR_TRY(s->team != NULL ? check_one(s, err) : check_all(s, err));
    if (s->replicas > UINT16_MAX)
        return orr_fail(err, ORR_INVALID, "--replicas: so many are no team");
    if (s->catch_up_steps > UINT16_MAX)
        return orr_fail(err, ORR_INVALID, "--catch-up-steps: so many are not set aside");
    t->in_team = true;
    orr_team_access access;
    ORR_TRY(orr_arguments_team_access(s, t->session.arena, &access, err));
    t->team = (orr_train_team){.coordinator = s->team,
                               .access = access,
                               .name = s->replica,
                               .address = s->address,
                               .replicas = (uint32_t)s->replicas,
                               .rate = rate_of(s->rate_policy),
                               .no_shared_memory = s->no_shared_memory,
                               .catch_up_steps = (uint32_t)s->catch_up_steps,
                               .told = tell_event};
    if (s->failure_timeout != NULL &&
        orr_parse_duration(s->failure_timeout, &t->team.failure_timeout_ns, err) != ORR_OK) {
        orr_error_prefix(err, "--failure-timeout");
        return err->status;
    }
    t->options.team = s->team != NULL ? &t->team : NULL;
    return ORR_OK;
}
