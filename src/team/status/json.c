/* SPDX-License-Identifier: Apache-2.0 */
#include "team/status/text.h"

#include <stdio.h>

#include "io/json/writer.h"

#define TEXT(name, text) text,
static const char *const STATES[] = {ORR_TEAM_STATE_MAP(TEXT)};
static const char *const MEMBER_STATES[] = {ORR_MEMBER_STATE_MAP(TEXT)};
static const char *const LOST[] = {ORR_LOST_MAP(TEXT)};
#undef TEXT
#define COUNT_OF(list) (sizeof(list) / sizeof(list)[0])

const char *orr_team_state_name(orr_team_state state)
{
    return (size_t)state < COUNT_OF(STATES) ? STATES[state] : "unknown";
}

const char *orr_member_state_name(orr_member_state state)
{
    return (size_t)state < COUNT_OF(MEMBER_STATES) ? MEMBER_STATES[state] : "unknown";
}

const char *orr_loss_cause_name(orr_loss_cause kind)
{
    return (size_t)kind < COUNT_OF(LOST) ? LOST[kind] : "unknown";
}

/* null: there is none. */
static void put_step(orr_json_writer *w, uint64_t step)
{
    orr_json_write_key(w, "step");
    if (step == ORR_TEAM_NONE)
        orr_json_write_null(w);
    else
        orr_json_write_uint(w, step);
}

static void put_member(orr_json_writer *w, const orr_member_status *m)
{
    char incarnation[24];
    (void)snprintf(incarnation, sizeof incarnation, "%llu", (unsigned long long)m->id.incarnation);
    orr_json_write_object(w);
    orr_json_member_text(w, "name", m->id.name);
    orr_json_member_text(w, "incarnation", incarnation);
    orr_json_member_text(w, "state", orr_member_state_name(m->state));
    orr_json_member_uint(w, "ranks", m->ranks);
    put_step(w, m->step);
    orr_json_member_int(w, "heard_ns", m->heard_ns);
    orr_json_member_uint(w, "posted", m->posted);
    orr_json_member_uint(w, "reduced", m->reduced);
    orr_json_member_uint(w, "faults", m->faults);
    orr_json_write_object_end(w);
}

static void put_counters(orr_json_writer *w, const orr_team_status *s)
{
    orr_json_member_uint(w, "epochs", s->epochs);
    orr_json_member_uint(w, "commits", s->commits);
    orr_json_member_uint(w, "retries", s->retries);
    orr_json_write_key(w, "lost");
    orr_json_write_object(w);
    for (size_t i = 0; i < ORR_LOSS_CAUSES; i++)
        orr_json_member_uint(w, LOST[i], s->lost[i]);
    orr_json_write_object_end(w);
    orr_json_write_key(w, "recoveries");
    orr_json_write_object(w);
    orr_json_member_uint(w, "count", s->recoveries);
    orr_json_member_int(w, "last_ns", s->recovery_last_ns);
    orr_json_member_int(w, "max_ns", s->recovery_max_ns);
    orr_json_member_int(w, "sum_ns", s->recovery_sum_ns);
    orr_json_write_object_end(w);
}

void orr_team_status_json(const orr_team_status *s, orr_output *out)
{
    orr_json_writer w;
    orr_json_write_init(&w, out);
    orr_json_write_object(&w);
    orr_json_member_text(&w, "schema", "orrery.team/1");
    orr_json_member_text(&w, "state", orr_team_state_name(s->state));
    orr_json_member_text(&w, "why", s->why);
    orr_json_member_uint(&w, "epoch", s->epoch);
    put_step(&w, s->step);
    orr_json_member_uint(&w, "contributors", s->contributors);
    orr_json_member_uint(&w, "replicas", s->replicas);
    orr_json_member_int(&w, "step_ns", s->step_ns);
    put_counters(&w, s);
    orr_json_write_key(&w, "members");
    orr_json_write_array(&w);
    for (uint32_t i = 0; i < s->n; i++)
        put_member(&w, &s->members[i]);
    orr_json_write_array_end(&w);
    orr_json_write_object_end(&w);
    orr_output_text(out, "\n");
}
