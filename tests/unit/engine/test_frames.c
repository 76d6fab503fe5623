/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "engine/serve/client.h"
#include "engine/serve/frames.h"
#include "small_clicks.h"

/* A service over connections: the bits of the scorer, refusals of what is wrong, and an end that
 * answers what was asked. */

enum { SAMPLES = 8, BODY = 64 << 10, PENDING = 100 };

typedef struct served {
    orr_model model;
    orr_scorer *scorer;
    orr_service *service;
    orr_serve_frames *frames;
    orr_click_data *clicks;
    orr_click_batch batch;
    float want[SAMPLES]; /* probabilities of the batch */
} served;

static orr_score_batch batch_of(const served *s)
{
    return (orr_score_batch){.samples = SAMPLES,
                             .dense = s->batch.dense.at,
                             .lengths = s->batch.lengths.at,
                             .ids = s->batch.ids.at};
}

static void begin(served *s, const char *folder, const char *where, uint32_t connections)
{
    orr_error err = {0};
    orr_score_thread *thread;
    *s = (served){.model = small_clicks_model(SMALL_EMBEDDINGS)};
    if (access(folder, F_OK) != 0)
        small_clicks_export(&s->model, folder, 1, 3);
    const orr_scorer_options options = {.model = &s->model, .weights = folder};
    assert_int_equal(orr_scorer_open(&options, &s->scorer, &err), ORR_OK);
    const orr_service_options service = {
        .scorer = s->scorer, .threads = 2, .queue = PENDING, .limits = {1 << 10, 1 << 14, 1 << 20}};
    assert_int_equal(orr_service_open(&service, &s->service, &err), ORR_OK);
    const orr_serve_frames_options frames = {.where = where,
                                             .body_bytes = BODY,
                                             .connections = connections,
                                             .idle_seconds = 600,
                                             .body_seconds = 600,
                                             .service = s->service};
    if (orr_serve_frames_open(&frames, &s->frames, &err) != ORR_OK)
        fail_msg("%s", err.text);
    assert_int_equal(orr_click_data_open(NULL, &s->model.dlrm, 5, &s->clicks, &err), ORR_OK);
    assert_int_equal(orr_click_data_read(s->clicks, 0, SAMPLES, &s->batch, &err), ORR_OK);
    assert_int_equal(orr_score_thread_open(s->scorer, &thread, &err), ORR_OK);
    const orr_score_batch batch = batch_of(s);
    assert_int_equal(orr_score_logits(thread, &batch, s->want, &err), ORR_OK);
    for (int i = 0; i < SAMPLES; i++)
        s->want[i] = orr_score_probability(s->want[i]);
    orr_score_thread_close(thread);
}

/* Returns how many it answered with 200. */
static uint64_t end(served *s)
{
    orr_serve_frames_drain(s->frames);
    orr_service_drain(s->service);
    orr_serve_frames_close(s->frames);
    const uint64_t answered = orr_service_answered(s->service);
    orr_service_close(s->service);
    orr_scorer_close(s->scorer);
    orr_click_batch_done(&s->batch);
    orr_click_data_free(s->clicks);
    return answered;
}

static void answers_have_the_bits_of_the_scorer(void **state)
{
    static const char *const WHERE[] = {"127.0.0.1:0", "127.0.0.1:0|shm"};
    for (int k = 0; k < 2; k++) {
        served s;
        orr_error err = {0};
        orr_serve_client *client;
        float got[SAMPLES];
        begin(&s, in_folder(state, "weights"), WHERE[k], 4);
        const orr_score_batch batch = batch_of(&s);
        const orr_serve_client_options options = {.address = orr_serve_frames_address(s.frames),
                                                  .model = &s.model.dlrm};
        assert_int_equal(orr_serve_client_open(&options, &client, &err), ORR_OK);
        for (int i = 0; i < 20; i++) {
            memset(got, 0, sizeof got);
            if (orr_serve_client_score(client, &batch, got, &err) != ORR_OK)
                fail_msg("%s", err.text);
            assert_memory_equal(got, s.want, sizeof got);
        }
        orr_serve_client_close(client);
        assert_int_equal(end(&s), 20);
    }
}

/* --- one who sends frames as he likes -------------------------------------------------------- */

typedef struct stranger {
    orr_net *net;
    orr_net_callbacks callbacks;
    orr_conn conn;
    unsigned answers, code;
    uint64_t number;
    bool closed;
} stranger;

static void heard(void *ctx, orr_conn conn, const orr_net_frame *frame, const void *payload)
{
    stranger *s = ctx;
    orr_answer_header head;
    (void)conn;
    assert_int_equal(frame->kind, ORR_SERVE_FRAME_ANSWER);
    assert_true(frame->bytes >= sizeof head);
    memcpy(&head, payload, sizeof head);
    assert_int_equal(head.magic, ORR_ASK_MAGIC);
    s->answers++;
    s->code = head.code;
    s->number = frame->step;
}

static void hung_up(void *ctx, orr_conn conn, orr_net_close_reason why)
{
    (void)conn;
    (void)why;
    ((stranger *)ctx)->closed = true;
}

static void come(stranger *s, const served *server)
{
    orr_error err = {0};
    *s = (stranger){.callbacks = {.ctx = s, .frame = heard, .closed = hung_up}};
    assert_int_equal(orr_net_system_new(NULL, &s->net, &err), ORR_OK);
    assert_int_equal(s->net->connect(s->net, &s->callbacks,
                                     orr_serve_frames_address(server->frames), &s->conn, &err),
                     ORR_OK);
}

static void say(stranger *s, uint16_t kind, uint64_t number, const void *payload, size_t bytes)
{
    const orr_net_frame frame = {.kind = kind, .step = number, .bytes = (uint32_t)bytes};
    s->net->send(s->net, s->conn, &frame, payload, false);
}

/* 0: hung up. */
static unsigned code_of(stranger *s)
{
    const unsigned before = s->answers;
    while (s->answers == before && !s->closed)
        s->net->poll(s->net, INT64_MAX);
    return s->closed ? 0 : s->code;
}

static void what_is_wrong_is_refused(void **state)
{
    served s;
    stranger one, two;
    static char large[2 * BODY];
    begin(&s, in_folder(state, "weights"), "127.0.0.1:0", 1);
    come(&one, &s);
    say(&one, ORR_SERVE_FRAME_ASK, 7, "", 0);
    assert_int_equal(code_of(&one), 400);
    assert_int_equal(one.number, 7);
    say(&one, ORR_SERVE_FRAME_ASK, 8, "nonsense", 8);
    assert_int_equal(code_of(&one), 400);
    say(&one, ORR_SERVE_FRAME_ASK, 9, large, sizeof large);
    assert_int_equal(code_of(&one), 413);
    assert_int_equal(one.number, 9);
    const orr_ask_header head = {.magic = ORR_ASK_MAGIC, .samples = 1, .n_ids = 1 << 20};
    say(&one, ORR_SERVE_FRAME_ASK, 10, &head, sizeof head);
    assert_int_equal(code_of(&one), 413);
    come(&two, &s); /* one connection is the limit */
    assert_int_equal(code_of(&two), 0);
    say(&one, 1, 11, "?", 1); /* no question at all */
    assert_int_equal(code_of(&one), 0);
    orr_net_free(one.net);
    orr_net_free(two.net);
    assert_int_equal(end(&s), 0);
}

/* --- the end --------------------------------------------------------------------------------- */

typedef struct tally {
    unsigned fine, refused;
    uint64_t seen[PENDING];
    const float *want;
} tally;

static void count(void *ctx, uint64_t number, const orr_answer_header *head, const void *body)
{
    tally *t = ctx;
    assert_true(number < PENDING && t->seen[number]++ == 0);
    if (head->code != 200) {
        assert_int_equal(head->code, 503);
        t->refused++;
        return;
    }
    assert_int_equal(head->bytes, SAMPLES * sizeof *t->want);
    assert_memory_equal(body, t->want, SAMPLES * sizeof *t->want);
    t->fine++;
}

static void what_was_asked_is_answered_at_the_end(void **state)
{
    served s;
    orr_error err = {0};
    orr_serve_client *client;
    begin(&s, in_folder(state, "weights"), "127.0.0.1:0", 4);
    tally t = {.want = s.want};
    const orr_score_batch batch = batch_of(&s);
    const orr_serve_client_options options = {.address = orr_serve_frames_address(s.frames),
                                              .model = &s.model.dlrm,
                                              .answered = count,
                                              .ctx = &t};
    assert_int_equal(orr_serve_client_open(&options, &client, &err), ORR_OK);
    for (uint64_t i = 0; i < PENDING; i++)
        assert_int_equal(orr_serve_client_ask(client, i, &batch, &err), ORR_OK);
    while (t.fine == 0)
        assert_int_equal(orr_serve_client_poll(client, INT64_MAX, &err), ORR_OK);
    const uint64_t answered = end(&s); /* while many wait, or have not been read yet */
    while (orr_serve_client_poll(client, INT64_MAX, &err) == ORR_OK)
        continue;
    assert_int_equal(t.fine, answered);
    assert_int_equal(orr_serve_client_waiting(client), PENDING - t.fine - t.refused);
    orr_serve_client_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_have_the_bits_of_the_scorer),
        cmocka_unit_test(what_is_wrong_is_refused),
        cmocka_unit_test(what_was_asked_is_answered_at_the_end),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
