/* SPDX-License-Identifier: Apache-2.0 */
#include "built.h"

#include <math.h>
#include <stdio.h>

#include "base/philox.h"
#include "model/spec/packing.h"

/* Samples packed of documents, against pairs counted one by one. */

enum { MOST_SEQ = 96 };

/* The same packing with every pair of a query and a key looked at. */
static orr_packed_pairs count_pairs(const orr_documents *from, const orr_packing *p)
{
    uint32_t owner[MOST_SEQ], at = 0, rest = from->stream[0], document = 0;
    double all = 0, most = 0, one_all = 0, one_most = 0;
    uint64_t n = 0, drawn = 1;
    for (bool whole = true; n < 64 || (n * p->samples < 4096 && drawn < 1 << 17); whole = false) {
        double pairs[MOST_SEQ] = {0}, slowest = 0;
        for (uint32_t sample = 0; sample < (whole ? 1 : p->samples); sample++) {
            for (uint32_t t = 0; t < p->seq; t++) {
                if (!whole && rest == 0) {
                    at = (at + 1) % from->n;
                    rest = from->stream[at];
                    document++;
                    drawn++;
                }
                owner[t] = whole ? 0 : document;
                rest -= !whole;
            }
            for (uint32_t q = 0; q < p->seq; q++)
                for (uint32_t k = 0; k <= q; k++) {
                    const uint32_t part = q * 2 * p->slices / p->seq;
                    const bool seen =
                        p->window == 0 ||
                        (p->sliding ? q - k < p->window : q / p->window == k / p->window);
                    if (seen && owner[q] == owner[k])
                        pairs[part < p->slices ? part : 2 * p->slices - 1 - part]++;
                }
        }
        for (uint32_t i = 0; i < p->slices; i++) {
            slowest = fmax(slowest, pairs[i]);
            *(whole ? &one_all : &all) += pairs[i];
        }
        *(whole ? &one_most : &most) += slowest;
        n += !whole;
    }
    const double samples = (double)n * p->samples, seen = all / (one_all * samples);
    return (orr_packed_pairs){seen, fmax(1, most / (one_most * samples) / seen)};
}

static orr_packed_pairs packed(const orr_documents *from, const orr_packing *p)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_error err;
    orr_packed_pairs pairs;
    if (orr_packed_pairs_of(from, p, arena, &pairs, &err) != ORR_OK)
        fail_msg("%s", err.text);
    orr_arena_free(arena);
    return pairs;
}

static void is_what_every_pair_gives(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        orr_random random = orr_random_of(7, seed);
        const uint32_t slices = 1 + (uint32_t)orr_random_below(&random, 4);
        const orr_packing p = {.slices = slices,
                               .seq = 2 * slices * (1 + (uint32_t)orr_random_below(&random, 6)),
                               .samples = 60 + (uint32_t)orr_random_below(&random, 10),
                               .window =
                                   seed % 3 == 0 ? 0 : 1 + (uint32_t)orr_random_below(&random, 20),
                               .sliding = seed % 3 == 1};
        uint32_t stream[32];
        const orr_documents from = {stream, 1 + (uint32_t)orr_random_below(&random, 32), 0, NULL};
        for (uint32_t i = 0; i < from.n; i++)
            stream[i] = 1 + (uint32_t)orr_random_below(&random, 60);
        const orr_packed_pairs got = packed(&from, &p), want = count_pairs(&from, &p);
        if (fabs(got.seen_frac - want.seen_frac) > 1e-12 || fabs(got.uneven - want.uneven) > 1e-12)
            fail_msg("seed %d: %.15g x %.15g, want %.15g x %.15g", (int)seed, got.seen_frac,
                     got.uneven, want.seen_frac, want.uneven);
    }
}

/* One document a sample is what there is without documents, to the last bit. */
static void of_one_document_all_is_seen(void **state)
{
    (void)state;
    const uint32_t lengths[] = {4096, 8192, 12288};
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t slices = 1; slices <= 16; slices *= 2)
            for (uint32_t window = 0; window <= 1024; window += 512) {
                const orr_documents from = {&lengths[i], 1, lengths[i], NULL};
                const orr_packed_pairs got =
                    packed(&from, &(orr_packing){4096, slices, 2, window, window == 512});
                assert_true(got.seen_frac == 1 && got.uneven == 1);
            }
}

/* Documents cut into pieces: no slice has more to do. */
static void pieces_of_documents_are_never_slower(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        orr_random random = orr_random_of(11, seed);
        uint32_t stream[256], cut[512];
        orr_documents whole = {stream, 256, 0, NULL}, pieces = {cut, 512, 0, NULL};
        for (uint32_t i = 0; i < 256; i++) {
            stream[i] = 2 + (uint32_t)orr_random_below(&random, 3000);
            cut[2 * i] = 1 + (uint32_t)orr_random_below(&random, stream[i] - 1);
            cut[2 * i + 1] = stream[i] - cut[2 * i];
        }
        for (uint32_t slices = 1; slices <= 8; slices *= 2) {
            const orr_packing p = {4096, slices, 1, 0, false};
            const orr_packed_pairs a = packed(&whole, &p), b = packed(&pieces, &p);
            assert_true(b.seen_frac < a.seen_frac && a.seen_frac < 1);
            assert_true(b.seen_frac * b.uneven < a.seen_frac * a.uneven);
            assert_true(a.uneven >= 1 && b.uneven >= 1);
            assert_true(slices > 1 ? a.uneven > 1 : a.uneven == 1);
        }
    }
}

/* Of geometric lengths the expected pairs are known: a token sees as many tokens before it as a
 * memoryless process had no end in. */
static void geometric_lengths_see_what_they_should(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_documents from;
    orr_error err;
    assert_int_equal(orr_documents_read("mean:1k", arena, &from, &err), ORR_OK);
    const double seq = 16384, stay = 1 - 1 / from.mean_tokens;
    double pairs = 0, expected = 0;
    for (int i = 0; i < 16384; i++) /* query i: the sum of stay^k, k = 0 .. i */
        pairs += expected = 1 + stay * expected;
    const orr_packed_pairs got = packed(&from, &(orr_packing){16384, 1, 1, 0, false});
    assert_true(fabs(got.seen_frac / (pairs / (seq * (seq + 1) / 2)) - 1) < 0.02);
    assert_true(fabs(from.mean_tokens - 1024) < 2);
    for (uint32_t slices = 1; slices <= 1024; slices++) { /* more than the cache remembers */
        const orr_packing p = {2048, slices, 1 + slices % 3, 0, false};
        const orr_packed_pairs first = packed(&from, &p), again = packed(&from, &p);
        assert_memory_equal(&first, &again, sizeof first);
        slices += slices % 7 == 0 ? 0 : 5;
    }
    const orr_packed_pairs last = packed(&from, &(orr_packing){16384, 1, 1, 0, false});
    assert_memory_equal(&last, &got, sizeof got);
    orr_arena_free(arena);
}

/* Attention is what is left of a sample's FLOPs without the products of parameters. */
static void assert_near_flops(const built *b, const orr_packed_pairs *p)
{
    const double pair =
        orr_model_flops(b->model, 2, false) - 2 * orr_model_flops(b->model, 1, false);
    const double attention = pair * 8192.0 * 8192 / 2; /* quadratic in tokens: 4 - 2 of a pair */
    const double got = orr_model_packed_flops(b->model, 8192, p, p);
    const double want = orr_model_flops(b->model, 8192, false) - (1 - p->seen_frac) * attention;
    assert_true(fabs(got / want - 1) < 1e-12);
}

/* Products are counted as the tape counts them: attention of a layer with documents is that share
 * of one without, and model FLOPs have the mean, not the slowest slice. */
static void tapes_have_it(void **state)
{
    (void)state;
    uint32_t lengths[] = {3000, 500, 1700, 9000};
    const orr_documents from = {lengths, 4, 3550, NULL};
    const orr_workload with = {.task = ORR_TASK_PRETRAIN, .documents = &from};
    const char *const plans[] = {"cp=4,seq=8k", "cp=4,seq=8k,cp_kind=all_gather", "seq=8k"};
    for (size_t i = 0; i < 3; i++) {
        built a = build("llama3.1-8b", plans[i]),
              b = build_workload("llama3.1-8b", plans[i], &with);
        assert_int_equal(b.status, ORR_OK);
        const orr_tape *t = module_of(&a, ORR_MODULE_LAYER)->tape;
        const orr_tape *u = module_of(&b, ORR_MODULE_LAYER)->tape;
        const orr_packed_pairs *p = &b.row.packed[0];
        uint32_t n = 0;
        assert_int_equal(t->n_calls, u->n_calls);
        for (uint32_t c = 0; c < t->n_calls; c++) {
            orr_work x, y;
            if (!orr_module_work(module_of(&a, ORR_MODULE_LAYER), c, &x))
                continue;
            assert_true(orr_module_work(module_of(&b, ORR_MODULE_LAYER), c, &y));
            const bool core =
                t->calls[c].op == ORR_OP_ATTENTION || t->calls[c].op == ORR_OP_ATTENTION_BACKWARD;
            n += core;
            assert_true(fabs(y.flops - x.flops * (core ? p->seen_frac * p->uneven : 1)) <=
                        1e-9 * x.flops);
        }
        assert_int_equal(n, i == 0 ? 8 : 2);
        assert_true(p->seen_frac < 0.6 && (i == 2 ? p->uneven == 1 : p->uneven > 1.05));
        assert_near_flops(&b, p);
        done(&a);
        done(&b);
    }
}

/* Lengths of documents, as words and as files. */

typedef struct scene {
    orr_arena *arena;
    orr_documents documents;
    orr_error err;
} scene;

static orr_status read_text(scene *s, const char *text)
{
    s->err.text[0] = '\0';
    return orr_documents_read(text, s->arena, &s->documents, &s->err);
}

static orr_status read_file(scene *s, const char *content)
{
    static const char PATH[] = "test_packing.txt";
    FILE *file = fopen(PATH, "w");
    assert_non_null(file);
    assert_true(fputs(content, file) >= 0);
    assert_int_equal(fclose(file), 0);
    const orr_status status = read_text(s, PATH);
    (void)remove(PATH);
    return status;
}

static void reads_numbers(void **state)
{
    (void)state;
    scene s = {.arena = orr_arena_new(0, 0)};
    assert_int_equal(read_text(&s, "4k"), ORR_OK);
    assert_int_equal(s.documents.n, 1);
    assert_int_equal(s.documents.stream[0], 4096);
    assert_int_equal(read_text(&s, "1M"), ORR_OK);
    assert_int_equal(s.documents.stream[0], 1048576);
    assert_int_equal(read_text(&s, "mean:1"), ORR_OK);
    assert_int_equal(s.documents.stream[0], 1);
    static const char *const wrong[] = {"0", "4kk", "mean:", "mean:x", "4096.5", "2000M", "7z"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(read_text(&s, wrong[i]), ORR_INVALID);
        assert_non_null(strstr(s.err.text, "mean:4k"));
    }
    assert_int_equal(read_text(&s, "no_such_file"), ORR_IO);
    orr_arena_free(s.arena);
}

/* Lines, and lines with counts, say the same; so do lines in another order. */
static void reads_files(void **state)
{
    (void)state;
    scene a = {.arena = orr_arena_new(0, 0)}, b = a, c = a;
    assert_int_equal(read_file(&a, "100\n300\n100\n\n100\n"), ORR_OK);
    assert_int_equal(read_file(&b, "tokens,count\r\n300,1\r\n100, 3\r\n"), ORR_OK);
    assert_int_equal(read_file(&c, "300\n100\n100\n100"), ORR_OK);
    assert_true(a.documents.mean_tokens == 150 && b.documents.mean_tokens == 150);
    assert_int_equal(a.documents.n, b.documents.n);
    assert_memory_equal(a.documents.stream, b.documents.stream, 4 * (size_t)a.documents.n);
    assert_memory_equal(a.documents.stream, c.documents.stream, 4 * (size_t)a.documents.n);
    double sum = 0;
    for (uint32_t i = 0; i < a.documents.n; i++)
        sum += a.documents.stream[i];
    assert_true(fabs(sum / a.documents.n - 150) < 1); /* three standard errors are 0.7 */
    orr_arena_free(a.arena);
}

static void refuses_files(void **state)
{
    (void)state;
    static const struct {
        const char *content, *text;
        orr_status status;
    } wrong[] = {
        {"", "no lengths", ORR_PARSE},
        {"tokens\n", "no lengths", ORR_PARSE},
        {"100\n0\n", ":2:", ORR_PARSE},
        {"100\nabc\n", ":2:", ORR_PARSE},
        {"100,2,3\n", ":1:", ORR_PARSE},
        {"100,-1\n", ":1:", ORR_PARSE},
        {"99999999999999999999\n", ":1:", ORR_PARSE},
        {"1,1099511627776\n1,1099511627777\n", ":2:", ORR_PARSE},
    };
    scene s = {.arena = orr_arena_new(0, 0)};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(read_file(&s, wrong[i].content), wrong[i].status);
        assert_non_null(strstr(s.err.text, wrong[i].text));
    }
    orr_arena_free(s.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_what_every_pair_gives),
        cmocka_unit_test(of_one_document_all_is_seen),
        cmocka_unit_test(pieces_of_documents_are_never_slower),
        cmocka_unit_test(geometric_lengths_see_what_they_should),
        cmocka_unit_test(tapes_have_it),
        cmocka_unit_test(reads_numbers),
        cmocka_unit_test(reads_files),
        cmocka_unit_test(refuses_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
