/* SPDX-License-Identifier: Apache-2.0 */
#include "small_training.h"

#include <math.h>

#include "engine/data/dataset.h"

enum { TOKENS = 8, ROOM = 64 };

typedef struct taken {
    int64_t tokens[ROOM], targets[ROOM];
    float weights[ROOM];
} taken;

static taken take(orr_dataset *b, uint64_t number)
{
    taken t = {0};
    orr_dataset_fill(b, number, &(orr_dataset_sample){t.tokens, t.targets, t.weights});
    return t;
}

static const char *write_file(const char *folder, const char *name, const char *text)
{
    static char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return path;
}

static orr_dataset_options options(const char *path)
{
    return (orr_dataset_options){.path = path, .tokens = TOKENS, .vocab = 257, .seed = 3};
}

static void text_is_packed(void **state)
{
    orr_error err;
    orr_dataset *b;
    char folder[96];
    (void)snprintf(folder, sizeof folder, "%s/text", (const char *)*state);
    assert_int_equal(mkdir(folder, 0700), 0);
    write_file(folder, "b.txt", "ijklmnopqrstuvwxyz");
    write_file(folder, "a.txt", "abcdefgh");
    write_file(folder, ".hidden", "no");
    const orr_dataset_options o = options(folder);
    assert_int_equal(orr_dataset_text(&o, &b, &err), ORR_OK);
    assert_int_equal(b->n,
                     3); /* 26 letters and 2 ends: 28 tokens, windows of 8 that are followed */
    bool seen[3] = {false};
    for (uint64_t i = 0; i < 3; i++) {
        const taken t = take(b, i);
        const int64_t window = t.tokens[0] == 'a' ? 0 : t.tokens[0] == 256 ? 1 : 2;
        assert_false(seen[window]);
        seen[window] = true;
        for (int k = 0; k < TOKENS; k++) {
            assert_true(t.weights[k] == 1);
            if (k + 1 < TOKENS)
                assert_int_equal(t.targets[k], t.tokens[k + 1]);
        }
        if (window == 0)
            assert_int_equal(t.targets[TOKENS - 1], 256); /* end of the first document */
        if (window == 1)
            assert_int_equal(t.tokens[1], 'i');
    }
    orr_dataset_free(b);
}

static void every_epoch_has_all_in_another_order(void **state)
{
    orr_error err;
    orr_dataset *b;
    char text[40 * TOKENS + 1];
    for (int i = 0; i < 40 * TOKENS; i++)
        text[i] = (char)('!' + i / TOKENS);
    text[40 * TOKENS] = '\0';
    const orr_dataset_options o = options(write_file(*state, "long.txt", text));
    assert_int_equal(orr_dataset_text(&o, &b, &err), ORR_OK);
    assert_int_equal(b->n, 40);
    bool differs = false;
    int64_t first[40];
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        bool seen[40] = {false};
        for (uint64_t i = 0; i < 40; i++) {
            const int64_t window = take(b, epoch * 40 + i).tokens[0] - '!';
            assert_true(window >= 0 && window < 40 && !seen[window]);
            seen[window] = true;
            differs |= epoch == 1 && first[i] != window;
            first[i] = window;
        }
    }
    assert_true(differs);
    const taken again = take(b, 17), back = take(b, 57), once_more = take(b, 17);
    assert_memory_equal(&again, &once_more, sizeof again);
    assert_int_equal(back.tokens[0] - '!', first[17]);
    orr_dataset_free(b);
}

static void text_that_does_not_do(void **state)
{
    orr_error err;
    orr_dataset *b;
    orr_dataset_options o = options(write_file(*state, "short.txt", "abc"));
    assert_int_equal(orr_dataset_text(&o, &b, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "4 tokens, and a sample takes 9"));
    o = options(write_file(*state, "other.txt", "abcdefghijklmnopqrstuvwxyz"));
    o.vocab = 128;
    assert_int_equal(orr_dataset_text(&o, &b, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "beyond the model's vocabulary of 128"));
    o = options("/nowhere/at/all");
    assert_int_equal(orr_dataset_text(&o, &b, &err), ORR_IO);
}

static void only_answers_count(void **state)
{
    orr_error err;
    orr_dataset *b;
    orr_dataset_options o =
        options(write_file(*state, "talk.jsonl",
                           "{\"prompt\": \"ab\", \"completion\": \"cd\", \"other\": [1, {}]}\n\n"
                           "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"},"
                           " {\"role\": \"assistant\", \"content\": \"yz\"}]}\n"));
    o.tokens = 32;
    assert_int_equal(orr_dataset_conversations(&o, &b, &err), ORR_OK);
    assert_int_equal(b->n, 2);
    for (uint64_t i = 0; i < 2; i++) {
        const taken t = take(b, i);
        char learned[ROOM] = "";
        size_t n = 0;
        for (int k = 0; k < 32; k++)
            if (t.weights[k] > 0)
                learned[n++] = t.targets[k] == 256 ? '$' : (char)t.targets[k];
        assert_string_equal(learned, t.tokens[0] == 'a' ? "cd$" : "yz$");
        assert_int_equal(orr_dataset_loss_tokens(b, i), 3);
    }
    orr_dataset_free(b);
}

static void bad_lines_are_named(void **state)
{
    orr_error err;
    orr_dataset *b;
    orr_dataset_options o = options(write_file(
        *state, "bad.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": \"a\"}\n"));
    assert_int_equal(orr_dataset_conversations(&o, &b, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "bad.jsonl: line 2: "));
    o = options(write_file(*state, "broken.jsonl", "{\"prompt\": \"a\", \n"));
    assert_int_equal(orr_dataset_conversations(&o, &b, &err), ORR_PARSE);
    assert_non_null(strstr(err.text, "line 1: "));
    o = options(
        write_file(*state, "long.jsonl", "{\"prompt\": \"abcdefghijk\", \"completion\": \"l\"}\n"));
    assert_int_equal(orr_dataset_conversations(&o, &b, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "no conversation has an answer"));
}

static void synthetic_tokens_follow_a_rule(void **state)
{
    (void)state;
    orr_error err;
    orr_dataset *b;
    orr_dataset_options o = options(NULL);
    o.vocab = 50;
    o.tokens = ROOM;
    assert_int_equal(orr_dataset_synthetic(&o, &b, &err), ORR_OK);
    int follows = 0;
    for (uint64_t i = 0; i < 100; i++) {
        const taken t = take(b, i);
        for (int k = 0; k < ROOM; k++) {
            assert_in_range(t.tokens[k], 0, 49);
            follows += t.targets[k] == (3 * t.tokens[k] + 1) % 50;
        }
    }
    assert_in_range(follows, 5700, 5900); /* 0.9 + 0.1 / 50 of 6400, within 3 deviations of 23 */
    const double p = 0.902, floor = -p * log(p) - 49 * 0.002 * log(0.002);
    assert_true(fabs(orr_dataset_synthetic_entropy(50) - floor) < 1e-12);
    orr_dataset_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(text_is_packed, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(every_epoch_has_all_in_another_order, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(text_that_does_not_do, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(only_answers_count, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(bad_lines_are_named, make_folder, remove_folder),
        cmocka_unit_test(synthetic_tokens_follow_a_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
