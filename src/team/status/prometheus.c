/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "io/json/utf8.h"
#include "team/status/text.h"

/* A family: what stands above its samples. */
static void head(orr_output *out, const char *name, const char *type, const char *help)
{
    orr_output_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_seconds(orr_output *out, int64_t ns)
{
    const uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
    orr_output_printf(out, "%s%llu.%09llu\n", ns < 0 ? "-" : "",
                      (unsigned long long)(size / 1000000000),
                      (unsigned long long)(size % 1000000000));
}

static void count(orr_output *out, const char *name, const char *type, const char *help,
                  uint64_t value)
{
    head(out, name, type, help);
    orr_output_printf(out, "%s %llu\n", name, (unsigned long long)value);
}

static void seconds(orr_output *out, const char *name, const char *help, int64_t ns)
{
    head(out, name, "gauge", help);
    orr_output_printf(out, "%s ", name);
    put_seconds(out, ns);
}

/* The value of a label: backslash, quote and newline escaped, what is not UTF-8 replaced. */
static void put_label(orr_output *out, const char *text)
{
    const uint8_t *at = (const uint8_t *)text;
    for (size_t left = strlen(text); left > 0;) {
        const size_t n = orr_utf8_len(at, left);
        if (*at == '\\' || *at == '"')
            orr_output_printf(out, "\\%c", *at);
        else if (*at == '\n')
            orr_output_text(out, "\\n");
        else if (n == 0)
            orr_output_text(out, ORR_UTF8_REPLACEMENT);
        else
            orr_output_write(out, at, n);
        at += n > 0 ? n : 1;
        left -= n > 0 ? n : 1;
    }
}

/* name{member="a",incarnation="7": a restart is another series, and no two are the same. */
static void open_member(orr_output *out, const char *name, const orr_member_status *m)
{
    orr_output_printf(out, "%s{member=\"", name);
    put_label(out, m->id.name);
    orr_output_printf(out, "\",incarnation=\"%llu\"", (unsigned long long)m->id.incarnation);
}

static void members(orr_output *out, const orr_team_status *s)
{
    static const struct {
        const char *name, *help;
    } families[] = {
        {"orrery_member_step", "Step after which a member has the state."},
        {"orrery_member_posted_operations", "Reductions of the step under way handed in."},
        {"orrery_member_reduced_operations", "Reductions of the step under way done."},
        {"orrery_member_complaints", "Complaints of others about a member in this step."},
    };
    for (int which = 0; which < 4; which++) {
        head(out, families[which].name, "gauge", families[which].help);
        for (uint32_t i = 0; i < s->n; i++) {
            const orr_member_status *m = &s->members[i];
            const uint64_t value[] = {m->step, m->posted, m->reduced, m->faults};
            if (which == 0 && m->step == ORR_TEAM_NONE)
                continue;
            open_member(out, families[which].name, m);
            orr_output_printf(out, "} %llu\n", (unsigned long long)value[which]);
        }
    }
    head(out, "orrery_member_heard_seconds", "gauge", "Time since a member was last heard.");
    for (uint32_t i = 0; i < s->n; i++) {
        open_member(out, "orrery_member_heard_seconds", &s->members[i]);
        orr_output_text(out, "} ");
        put_seconds(out, s->members[i].heard_ns);
    }
    head(out, "orrery_member_info", "gauge", "Ranks and state of a member, as labels; always 1.");
    for (uint32_t i = 0; i < s->n; i++) {
        open_member(out, "orrery_member_info", &s->members[i]);
        orr_output_printf(out, ",ranks=\"%u\",state=\"%s\"} 1\n", s->members[i].ranks,
                          orr_member_state_name(s->members[i].state));
    }
}

/* All states, of which one is 1: so that a state that ends is seen to end. */
static void states(orr_output *out, const orr_team_status *s)
{
    head(out, "orrery_team_state", "gauge", "1 for the state that the team is in.");
    for (int i = ORR_STATE_FORMING; i <= ORR_STATE_ENDED; i++)
        orr_output_printf(out, "orrery_team_state{state=\"%s\"} %d\n", orr_team_state_name(i),
                          s->state == i);
    head(out, "orrery_team_members", "gauge", "Members by state.");
    for (int i = ORR_MEMBER_CONTRIBUTOR; i <= ORR_MEMBER_WAITING; i++) {
        uint32_t n = 0;
        for (uint32_t k = 0; k < s->n; k++)
            n += s->members[k].state == i;
        orr_output_printf(out, "orrery_team_members{state=\"%s\"} %u\n", orr_member_state_name(i),
                          n);
    }
}

static void recoveries(orr_output *out, const orr_team_status *s)
{
    head(out, "orrery_team_losses_total", "counter", "Losses found, by how they were found.");
    for (int i = 0; i < ORR_LOSS_CAUSES; i++)
        orr_output_printf(out, "orrery_team_losses_total{kind=\"%s\"} %llu\n",
                          orr_loss_cause_name(i), (unsigned long long)s->lost[i]);
    head(out, "orrery_team_recovery_seconds", "summary",
         "From finding a loss to the next committed step.");
    orr_output_text(out, "orrery_team_recovery_seconds_sum ");
    put_seconds(out, s->recovery_sum_ns);
    orr_output_printf(out, "orrery_team_recovery_seconds_count %llu\n",
                      (unsigned long long)s->recoveries);
    seconds(out, "orrery_team_recovery_last_seconds", "The last recovery.", s->recovery_last_ns);
    seconds(out, "orrery_team_recovery_max_seconds", "The longest recovery.", s->recovery_max_ns);
}

void orr_team_status_prometheus(const orr_team_status *s, orr_output *out)
{
    states(out, s);
    count(out, "orrery_team_epoch", "gauge", "The epoch.", s->epoch);
    if (s->step != ORR_TEAM_NONE)
        count(out, "orrery_team_committed_step", "gauge", "The last committed step.", s->step);
    count(out, "orrery_team_contributors", "gauge", "Contributors to the step under way.",
          s->contributors);
    count(out, "orrery_team_replicas", "gauge", "Replicas that the job is planned for.",
          s->replicas);
    seconds(out, "orrery_team_step_seconds", "Time of the last step.", s->step_ns);
    count(out, "orrery_team_epochs_total", "counter", "Epochs formed.", s->epochs);
    count(out, "orrery_team_commits_total", "counter", "Steps committed.", s->commits);
    count(out, "orrery_team_retries_total", "counter", "Reductions of a step made again.",
          s->retries);
    recoveries(out, s);
    members(out, s);
}
