/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/teams/team_snapshot.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "team/status/http.h"
#include "team/status/text.h"

#define PATIENCE_NS INT64_C(5000000000)

static int by_name(const void *a, const void *b)
{
    return strcmp(((const orr_member_row *)a)->replica, ((const orr_member_row *)b)->replica);
}

static orr_status read_members(orr_team_snapshot *look, orr_arena *arena, orr_error *err)
{
    const orr_team_status *status = look->status;
    orr_member_row *rows = orr_arena_array(arena, orr_member_row, status->n);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < status->n; i++) {
        const orr_member_status *m = &status->members[i];
        const bool none = m->step == ORR_TEAM_NONE;
        rows[i] = (orr_member_row){
            .replica = m->id.name,
            .state = orr_member_state_name((orr_member_state)m->state),
            .ranks = m->ranks,
            .step = none ? "none" : orr_arena_printf(arena, "%llu", (unsigned long long)m->step),
            .heard_ns = m->heard_ns,
            .posted = m->posted,
            .reduced = m->reduced,
            .faults = m->faults,
            .incarnation = orr_arena_printf(arena, "%llx", (unsigned long long)m->id.incarnation)};
        if (rows[i].step == NULL || rows[i].incarnation == NULL)
            return orr_fail_memory(err);
    }
    qsort(rows, status->n, sizeof *rows, by_name);
    look->members = rows;
    look->n = status->n;
    return ORR_OK;
}

orr_status orr_team_snapshot_fetch(const char *address, orr_arena *arena, orr_team_snapshot *ret,
                                   orr_error *err)
{
    orr_team_status *status = orr_arena_one(arena, orr_team_status);
    orr_text page;
    if (status == NULL)
        return orr_fail_memory(err);
    ORR_TRY(orr_http_get(address, "/status", PATIENCE_NS, arena, &page, err));
    ORR_TRY(orr_team_status_read(page, status, err));
    ret->status = status;
    return read_members(ret, arena, err);
}

void orr_team_snapshot_json(const orr_team_snapshot *look, orr_output *out)
{
    orr_team_status_json(look->status, out);
}

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static void put_losses(const orr_team_status *s, orr_output *out)
{
    uint64_t lost = 0;
    for (int i = 0; i < ORR_LOSS_CAUSES; i++)
        lost += s->lost[i];
    orr_output_printf(out, "since it began: %llu step%s, %llu epoch%s, %llu retr%s, %llu lost",
                      (unsigned long long)s->commits, plural(s->commits),
                      (unsigned long long)s->epochs, plural(s->epochs),
                      (unsigned long long)s->retries, s->retries == 1 ? "y" : "ies",
                      (unsigned long long)lost);
    for (int i = 0, told = 0; i < ORR_LOSS_CAUSES; i++)
        if (s->lost[i] > 0)
            orr_output_printf(out, "%s%s %llu", told++ > 0 ? ", " : " (",
                              orr_loss_cause_name((orr_loss_cause)i),
                              (unsigned long long)s->lost[i]);
    orr_output_printf(out, "%s\n", lost > 0 ? ")" : "");
    if (s->recoveries > 0)
        orr_output_printf(out,
                          "recovered %llu time%s: the last took %.1f ms, the longest %.1f ms\n",
                          (unsigned long long)s->recoveries, plural(s->recoveries),
                          (double)s->recovery_last_ns / 1e6, (double)s->recovery_max_ns / 1e6);
}

void orr_team_snapshot_headline(const orr_team_snapshot *look, orr_output *out)
{
    const orr_team_status *s = look->status;
    orr_output_printf(out, "%s", orr_team_state_name((orr_team_state)s->state));
    if (s->why[0] != '\0')
        orr_output_printf(out, " (%s)", s->why);
    orr_output_printf(out, ": epoch %llu, ", (unsigned long long)s->epoch);
    if (s->step == ORR_TEAM_NONE)
        orr_output_text(out, "no step yet, ");
    else
        orr_output_printf(out, "step %llu, ", (unsigned long long)s->step);
    orr_output_printf(out, "%u", s->contributors);
    if (s->replicas > 0)
        orr_output_printf(out, " of %u", s->replicas);
    orr_output_printf(out, " replica%s contribute%s",
                      plural(s->replicas > 0 ? s->replicas : s->contributors),
                      s->contributors == 1 ? "s" : "");
    if (s->step_ns > 0)
        orr_output_printf(out, ", the last step took %.1f ms", (double)s->step_ns / 1e6);
    orr_output_text(out, "\n");
    put_losses(s, out);
}
