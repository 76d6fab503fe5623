/* SPDX-License-Identifier: Apache-2.0 */
#include "team/store/etcd_message.h"

#include <stdio.h>
#include <string.h>

#include "io/json/base64.h"

static void put_key(orr_output *out, const char *key)
{
    orr_output_text(out, "{\"key\":");
    orr_base64_put(out, key, strlen(key));
}

void orr_etcd_write_range(orr_output *out, const char *key)
{
    put_key(out, key);
    orr_output_text(out, "}");
}

void orr_etcd_write_compare_and_swap(orr_output *out, const char *key, uint64_t revision,
                                     const void *value, size_t bytes)
{
    orr_output_text(out, "{\"compare\":[");
    put_key(out, key);
    orr_output_printf(out, ",\"target\":\"MOD\",\"result\":\"EQUAL\",\"mod_revision\":\"%llu\"}]",
                      (unsigned long long)revision);
    orr_output_text(out, ",\"success\":[{\"request_put\":");
    put_key(out, key);
    orr_output_text(out, ",\"value\":");
    orr_base64_put(out, value, bytes);
    orr_output_text(out, "}}],\"failure\":[{\"request_range\":");
    put_key(out, key);
    orr_output_text(out, "}}]}");
}

/* A number of etcd's, which are never negative. */
static orr_status read_number(orr_json *json, uint64_t *ret, orr_error *err)
{
    int64_t number;
    bool is;
    ORR_TRY(orr_json_int64(json, &number, &is, err));
    if (!is || number < 0)
        return orr_fail(err, ORR_PARSE, "a number of etcd's answer is none");
    *ret = (uint64_t)number;
    return ORR_OK;
}

static orr_status read_value(orr_json *json, orr_etcd_value *value, orr_error *err)
{
    orr_text text;
    bool is;
    size_t bytes;
    ORR_TRY(orr_json_text(json, &text, &is, err));
    if (!is)
        return orr_fail(err, ORR_PARSE, "a value of etcd's answer is no text");
    if (!orr_array_reserve(value, text.n / 4 * 3 + 1))
        return orr_fail_memory(err);
    if (!orr_base64_read(text, value->at + value->n, &bytes))
        return orr_fail(err, ORR_PARSE, "a value of etcd's answer is not base64");
    value->n += bytes;
    return ORR_OK;
}

static orr_status read_header(orr_json *json, orr_etcd_reply *reply, orr_error *err)
{
    orr_text key;
    orr_status status = ORR_OK;
    ORR_TRY(orr_json_enter_object(json, err));
    while (orr_json_next_key(json, &key, &status, err)) {
        if (orr_text_is(key, "revision"))
            ORR_TRY(read_number(json, &reply->revision, err));
        else
            ORR_TRY(orr_json_skip(json, err));
    }
    return status;
}

/* A list of the keys found: none, or the one that was asked for. */
static orr_status read_keys(orr_json *json, orr_etcd_reply *reply, orr_etcd_value *value,
                            orr_error *err)
{
    orr_text key;
    orr_status status = ORR_OK;
    ORR_TRY(orr_json_enter_array(json, err));
    while (orr_json_next_element(json, &status, err)) {
        if (reply->found)
            return orr_fail(err, ORR_PARSE, "etcd answered with two keys where one was asked for");
        reply->found = true;
        ORR_TRY(orr_json_enter_object(json, err));
        while (orr_json_next_key(json, &key, &status, err)) {
            if (orr_text_is(key, "mod_revision"))
                ORR_TRY(read_number(json, &reply->modified, err));
            else if (orr_text_is(key, "value"))
                ORR_TRY(read_value(json, value, err));
            else
                ORR_TRY(orr_json_skip(json, err));
        }
        ORR_TRY(status);
        if (reply->modified == 0)
            return orr_fail(err, ORR_PARSE, "etcd answered with a key that has no revision");
    }
    return status;
}

/* {"kvs": [...]}, as the answer itself or as an answer in a transaction's. */
static orr_status read_range(orr_json *json, orr_etcd_reply *reply, orr_etcd_value *value,
                             orr_error *err)
{
    orr_text key;
    orr_status status = ORR_OK;
    ORR_TRY(orr_json_enter_object(json, err));
    while (orr_json_next_key(json, &key, &status, err)) {
        if (orr_text_is(key, "kvs"))
            ORR_TRY(read_keys(json, reply, value, err));
        else
            ORR_TRY(orr_json_skip(json, err));
    }
    return status;
}

static orr_status read_responses(orr_json *json, orr_etcd_reply *reply, orr_etcd_value *value,
                                 orr_error *err)
{
    orr_text key;
    orr_status status = ORR_OK;
    ORR_TRY(orr_json_enter_array(json, err));
    while (orr_json_next_element(json, &status, err)) {
        ORR_TRY(orr_json_enter_object(json, err));
        while (orr_json_next_key(json, &key, &status, err)) {
            if (orr_text_is(key, "response_range"))
                ORR_TRY(read_range(json, reply, value, err));
            else
                ORR_TRY(orr_json_skip(json, err));
        }
        ORR_TRY(status);
    }
    return status;
}

static orr_status read_swapped(orr_json *json, orr_etcd_reply *reply, orr_error *err)
{
    orr_json_value flag;
    ORR_TRY(orr_json_value_next(json, &flag, err));
    if (flag.type != ORR_JSON_TRUE && flag.type != ORR_JSON_FALSE)
        return orr_fail(err, ORR_PARSE, "etcd's answer does not say whether it succeeded");
    reply->swapped = flag.type == ORR_JSON_TRUE;
    return ORR_OK;
}

static orr_status read_reply(orr_json *json, orr_etcd_reply *reply, orr_etcd_value *value,
                             orr_error *err)
{
    orr_text key;
    orr_status status = ORR_OK;
    ORR_TRY(orr_json_enter_object(json, err));
    while (orr_json_next_key(json, &key, &status, err)) {
        if (orr_text_is(key, "header"))
            ORR_TRY(read_header(json, reply, err));
        else if (orr_text_is(key, "succeeded"))
            ORR_TRY(read_swapped(json, reply, err));
        else if (orr_text_is(key, "kvs"))
            ORR_TRY(read_keys(json, reply, value, err));
        else if (orr_text_is(key, "responses"))
            ORR_TRY(read_responses(json, reply, value, err));
        else
            ORR_TRY(orr_json_skip(json, err));
    }
    ORR_TRY(status);
    ORR_TRY(orr_json_end(json, err));
    if (reply->revision == 0)
        return orr_fail(err, ORR_PARSE, "the answer is not etcd's: it names no revision");
    return ORR_OK;
}

orr_status orr_etcd_read_reply(orr_text text, orr_etcd_reply *ret, orr_etcd_value *value,
                               orr_error *err)
{
    orr_stream *stream = NULL;
    orr_json *json = NULL;
    orr_etcd_reply reply = {0};
    orr_status status = ORR_OK;
    ORR_TRY_OUT(status, orr_stream_open_memory(text.at, text.n, &stream, err));
    ORR_TRY_OUT(status, orr_json_new(stream, false, &json, err));
    ORR_TRY_OUT(status, read_reply(json, &reply, value, err));
    *ret = reply;
out:
    orr_json_free(json);
    orr_stream_close(stream);
    return status;
}

/* {"error": "...", "message": "..."}: both are the same sentence. */
static orr_status find_message(orr_json *json, char *ret, size_t room)
{
    orr_text key, text;
    orr_status status = ORR_OK;
    ORR_TRY(orr_json_enter_object(json, NULL));
    while (orr_json_next_key(json, &key, &status, NULL)) {
        bool is = false;
        if (!orr_text_is(key, "error") && !orr_text_is(key, "message")) {
            ORR_TRY(orr_json_skip(json, NULL));
            continue;
        }
        ORR_TRY(orr_json_text(json, &text, &is, NULL));
        if (is && text.n > 0)
            (void)snprintf(ret, room, "%.*s", (int)(text.n < room ? text.n : room), text.at);
    }
    return status;
}

void orr_etcd_read_refusal(orr_text text, char *ret, size_t room)
{
    orr_stream *stream = NULL;
    orr_json *json = NULL;
    (void)snprintf(ret, room, "%.*s", (int)(text.n < room ? text.n : room), text.at);
    if (orr_stream_open_memory(text.at, text.n, &stream, NULL) == ORR_OK &&
        orr_json_new(stream, true, &json, NULL) == ORR_OK)
        (void)!find_message(json, ret, room);
    orr_json_free(json);
    orr_stream_close(stream);
}
