/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "team/status/text.h"

/* A number that may be left out as null: then `none`. */
static orr_status read_uint(orr_json *json, uint64_t none, uint64_t *ret, orr_error *err)
{
    orr_json_value value;
    ORR_TRY(orr_json_value_next(json, &value, err));
    if (value.type == ORR_JSON_NULL) {
        *ret = none;
        return ORR_OK;
    }
    if ((value.type == ORR_JSON_NUMBER || value.type == ORR_JSON_STRING) &&
        orr_text_uint64(value.text, ret))
        return ORR_OK;
    return orr_fail_byte(err, ORR_PARSE, orr_json_byte_pos(json),
                         "a number of the team's status is none");
}

static orr_status read_uint32(orr_json *json, uint32_t *ret, orr_error *err)
{
    uint64_t wide;
    ORR_TRY(read_uint(json, 0, &wide, err));
    if (wide > UINT32_MAX)
        return orr_fail(err, ORR_PARSE, "a number of the team's status is out of range");
    *ret = (uint32_t)wide;
    return ORR_OK;
}

static orr_status read_int(orr_json *json, int64_t *ret, orr_error *err)
{
    bool is;
    ORR_TRY(orr_json_int64(json, ret, &is, err));
    return is ? ORR_OK : orr_fail(err, ORR_PARSE, "a time of the team's status is no number");
}

/* What is longer than there is room for (repaired text may be) is cut off. */
static orr_status read_chars(orr_json *json, char *ret, size_t room, orr_error *err)
{
    orr_text text;
    bool is;
    ORR_TRY(orr_json_text(json, &text, &is, err));
    if (!is)
        return orr_fail(err, ORR_PARSE, "a text of the team's status is none");
    const size_t n = text.n < room ? text.n : room - 1;
    memcpy(ret, text.at, n);
    ret[n] = '\0';
    return ORR_OK;
}

/* One of `n` names. */
static orr_status read_name(orr_json *json, const char *(*name_of)(unsigned i), unsigned n,
                            uint8_t *ret, orr_error *err)
{
    char name[32];
    ORR_TRY(read_chars(json, name, sizeof name, err));
    for (unsigned i = 0; i < n; i++)
        if (strcmp(name, name_of(i)) == 0) {
            *ret = (uint8_t)i;
            return ORR_OK;
        }
    return orr_fail(err, ORR_PARSE, "the team's status has a state '%s' that is not known", name);
}

static const char *state_name(unsigned i)
{
    return orr_team_state_name((orr_team_state)i);
}

static const char *member_state_name(unsigned i)
{
    return orr_member_state_name((orr_member_state)i);
}

static orr_status read_member_key(orr_json *json, orr_text key, orr_member_status *m,
                                  orr_error *err)
{
    if (orr_text_is(key, "name"))
        return read_chars(json, m->id.name, sizeof m->id.name, err);
    if (orr_text_is(key, "incarnation"))
        return read_uint(json, 0, &m->id.incarnation, err);
    if (orr_text_is(key, "state"))
        return read_name(json, member_state_name, ORR_MEMBER_WAITING + 1, &m->state, err);
    if (orr_text_is(key, "ranks"))
        return read_uint32(json, &m->ranks, err);
    if (orr_text_is(key, "step"))
        return read_uint(json, ORR_TEAM_NONE, &m->step, err);
    if (orr_text_is(key, "heard_ns"))
        return read_int(json, &m->heard_ns, err);
    if (orr_text_is(key, "posted"))
        return read_uint(json, 0, &m->posted, err);
    if (orr_text_is(key, "reduced"))
        return read_uint(json, 0, &m->reduced, err);
    if (orr_text_is(key, "faults"))
        return read_uint32(json, &m->faults, err);
    return orr_json_skip(json, err);
}

static orr_status read_members(orr_json *json, orr_team_status *s, orr_error *err)
{
    orr_text key;
    orr_status status = ORR_OK;
    s->n = 0;
    ORR_TRY(orr_json_enter_array(json, err));
    while (orr_json_next_element(json, &status, err)) {
        if (s->n == sizeof s->members / sizeof s->members[0])
            return orr_fail(err, ORR_PARSE, "the team's status has more members than a team can");
        orr_member_status *m = &s->members[s->n++];
        *m = (orr_member_status){0};
        ORR_TRY(orr_json_enter_object(json, err));
        while (orr_json_next_key(json, &key, &status, err))
            ORR_TRY(read_member_key(json, key, m, err));
        ORR_TRY(status);
    }
    return status;
}

static orr_status read_lost(orr_json *json, orr_team_status *s, orr_error *err)
{
    orr_text key;
    orr_status status = ORR_OK;
    ORR_TRY(orr_json_enter_object(json, err));
    while (orr_json_next_key(json, &key, &status, err)) {
        int kind = 0;
        while (kind < ORR_LOSS_CAUSES &&
               !orr_text_equal(key, orr_loss_cause_name(kind), strlen(orr_loss_cause_name(kind))))
            kind++;
        if (kind < ORR_LOSS_CAUSES)
            ORR_TRY(read_uint(json, 0, &s->lost[kind], err));
        else
            ORR_TRY(orr_json_skip(json, err));
    }
    return status;
}

static orr_status read_recoveries(orr_json *json, orr_team_status *s, orr_error *err)
{
    orr_text key;
    orr_status status = ORR_OK;
    ORR_TRY(orr_json_enter_object(json, err));
    while (orr_json_next_key(json, &key, &status, err)) {
        if (orr_text_is(key, "count"))
            ORR_TRY(read_uint(json, 0, &s->recoveries, err));
        else if (orr_text_is(key, "last_ns"))
            ORR_TRY(read_int(json, &s->recovery_last_ns, err));
        else if (orr_text_is(key, "max_ns"))
            ORR_TRY(read_int(json, &s->recovery_max_ns, err));
        else if (orr_text_is(key, "sum_ns"))
            ORR_TRY(read_int(json, &s->recovery_sum_ns, err));
        else
            ORR_TRY(orr_json_skip(json, err));
    }
    return status;
}

static orr_status read_key(orr_json *json, orr_text key, orr_team_status *s, bool *ret_schema,
                           orr_error *err)
{
    if (orr_text_is(key, "schema")) {
        char schema[32];
        ORR_TRY(read_chars(json, schema, sizeof schema, err));
        *ret_schema = strcmp(schema, "orrery.team/1") == 0;
        return ORR_OK;
    }
    if (orr_text_is(key, "state"))
        return read_name(json, state_name, ORR_STATE_ENDED + 1, &s->state, err);
    if (orr_text_is(key, "why"))
        return read_chars(json, s->why, sizeof s->why, err);
    if (orr_text_is(key, "epoch"))
        return read_uint(json, 0, &s->epoch, err);
    if (orr_text_is(key, "step"))
        return read_uint(json, ORR_TEAM_NONE, &s->step, err);
    if (orr_text_is(key, "contributors"))
        return read_uint32(json, &s->contributors, err);
    if (orr_text_is(key, "replicas"))
        return read_uint32(json, &s->replicas, err);
    if (orr_text_is(key, "step_ns"))
        return read_int(json, &s->step_ns, err);
    if (orr_text_is(key, "epochs"))
        return read_uint(json, 0, &s->epochs, err);
    if (orr_text_is(key, "commits"))
        return read_uint(json, 0, &s->commits, err);
    if (orr_text_is(key, "retries"))
        return read_uint(json, 0, &s->retries, err);
    if (orr_text_is(key, "lost"))
        return read_lost(json, s, err);
    if (orr_text_is(key, "recoveries"))
        return read_recoveries(json, s, err);
    if (orr_text_is(key, "members"))
        return read_members(json, s, err);
    return orr_json_skip(json, err);
}

static orr_status read_whole(orr_json *json, orr_team_status *s, orr_error *err)
{
    orr_text key;
    orr_status status = ORR_OK;
    bool schema = false;
    ORR_TRY(orr_json_enter_object(json, err));
    while (orr_json_next_key(json, &key, &status, err))
        ORR_TRY(read_key(json, key, s, &schema, err));
    ORR_TRY(status);
    ORR_TRY(orr_json_end(json, err));
    return schema ? ORR_OK
                  : orr_fail(err, ORR_PARSE, "this is no status of a team: \"orrery.team/1\"");
}

orr_status orr_team_status_read(orr_text text, orr_team_status *ret, orr_error *err)
{
    orr_stream *stream = NULL;
    orr_json *json = NULL;
    orr_team_status s = {0};
    orr_status status = ORR_OK;
    ORR_TRY_OUT(status, orr_stream_open_memory(text.at, text.n, &stream, err));
    ORR_TRY_OUT(status, orr_json_new(stream, false, &json, err));
    ORR_TRY_OUT(status, read_whole(json, &s, err));
    *ret = s;
out:
    orr_json_free(json);
    orr_stream_close(stream);
    return status;
}
