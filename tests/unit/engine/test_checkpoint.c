/* SPDX-License-Identifier: Apache-2.0 */
#include "small_training.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "base/philox.h"
#include "engine/checkpoint/checkpoint.h"

/* A tensor (4, 6) whose columns two ranks have a half of each, and one (5) that both have. */
enum { ROWS = 4, COLUMNS = 3, N = ROWS * COLUMNS, OTHER = 5 };

typedef struct half {
    float master[N], m[N], v[N], other[OTHER], other_m[OTHER], other_v[OTHER], gradient[N];
    orr_parameter parameters[2];
} half;

static float whole_at(int part, int64_t row, int64_t column)
{
    return (float)(1000 * part + 10 * row + column);
}

static void fill_half(half *h, int64_t rank)
{
    float *parts[] = {h->master, h->m, h->v}, *others[] = {h->other, h->other_m, h->other_v};
    *h = (half){.parameters[0].type = {.dtype = ORR_DTYPE_FP32, .rank = 2, .dim = {ROWS, COLUMNS}}};
    for (int part = 0; part < 3; part++) {
        for (int64_t i = 0; i < N; i++)
            parts[part][i] = whole_at(part, i / COLUMNS, rank * COLUMNS + i % COLUMNS);
        for (int64_t i = 0; i < OTHER; i++)
            others[part][i] = (float)(-part - i);
    }
    orr_parameter *p = &h->parameters[0], *q = &h->parameters[1];
    p->name = "wide";
    p->place = 3;
    p->own.whole = (orr_type){.dtype = ORR_DTYPE_FP32, .rank = 2, .dim = {ROWS, 2 * COLUMNS}};
    p->own.by[0] = (orr_dim_pieces){.n = 1, .piece = {{.count = ROWS}}};
    p->own.by[1] = (orr_dim_pieces){.n = 1, .piece = {{.whole = rank * COLUMNS, .count = COLUMNS}}};
    p->n = N;
    p->shard_begin = 2; /* the first two are another rank's, of those that share shards */
    p->shard_n = N - 2;
    p->master = h->master + 2;
    p->m = h->m + 2;
    p->v = h->v + 2;
    p->gradient = h->gradient;
    *q = (orr_parameter){.name = "small",
                         .place = 4,
                         .nth = 1,
                         .n = OTHER,
                         .shard_n = OTHER,
                         .type = {.dtype = ORR_DTYPE_FP32, .rank = 1, .dim = {OTHER}},
                         .master = h->other,
                         .m = h->other_m,
                         .v = h->other_v};
    q->own.whole = q->type;
    q->own.by[0] = (orr_dim_pieces){.n = 1, .piece = {{.count = OTHER}}};
}

static orr_checkpoint_metadata facts(uint32_t rank, uint32_t ranks, const char *plan)
{
    return (orr_checkpoint_metadata){
        .model = "small", .plan = plan, .seed = 42, .rank = rank, .ranks = ranks};
}

static const orr_team_data_cursor position = {.next = 12, .n = 3, .returned = {3, 7, 11}};

static void save_both(const char *folder, half halves[2], int64_t step)
{
    orr_error err;
    for (uint32_t rank = 0; rank < 2; rank++) {
        orr_checkpointer *c;
        const orr_checkpoint_metadata f = facts(rank, 2, "tp=2");
        fill_half(&halves[rank], rank);
        assert_int_equal(orr_checkpointer_new(folder, &f, halves[rank].parameters, 2, &c, &err),
                         ORR_OK);
        if (orr_checkpointer_save(c, step, &position, &err) != ORR_OK ||
            orr_checkpointer_wait(c, &err) != ORR_OK)
            fail_msg("%s", err.text);
        assert_int_equal(orr_checkpointer_written(c), step);
        orr_checkpointer_free(c);
    }
    assert_int_equal(orr_checkpoint_commit(folder, step, &err), ORR_OK);
}

/* Changes the text of headers as a writer would have written it: with a manifest. */
static void edit(const char *folder, const char *script, int64_t step)
{
    char command[256];
    orr_error err;
    (void)snprintf(command, sizeof command, "sed -i '%s' %s/step-*/rank*", script, folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(orr_checkpoint_commit(folder, step, &err), ORR_OK);
}

static void what_was_saved_comes_back(void **state)
{
    orr_error err;
    orr_checkpoint *c;
    half halves[2], back;
    save_both(*state, halves, 7);
    assert_int_equal(orr_checkpoint_open(*state, &c, &err), ORR_OK);
    assert_int_equal(c->step, 7);
    assert_int_equal(c->seed, 42);
    assert_int_equal(c->ranks, 2);
    assert_memory_equal(&c->data, &position, sizeof position);
    fill_half(&back, 1);
    memset(back.master, 0, sizeof back.master);
    memset(back.v, 0, sizeof back.v);
    memset(back.other_m, 0, sizeof back.other_m);
    const orr_checkpoint_metadata f = facts(1, 2, "tp=2");
    assert_int_equal(orr_checkpoint_restore(c, &f, back.parameters, 2, &err), ORR_OK);
    assert_memory_equal(back.master + 2, halves[1].master + 2, (N - 2) * sizeof(float));
    assert_memory_equal(back.v + 2, halves[1].v + 2, (N - 2) * sizeof(float));
    assert_memory_equal(back.other_m, halves[1].other_m, sizeof back.other_m);
    assert_true(back.master[0] == 0 && back.master[1] == 0); /* of the other shard */
    orr_checkpoint_close(c);
}

/* One that was written before there were teams, and one whose text is none. */
static void data_are_counted_from_the_step_otherwise(void **state)
{
    orr_error err;
    orr_checkpoint *c;
    half halves[2];
    save_both(*state, halves, 7);
    edit(*state, "s/\"next\"/\"nest\"/", 7);
    assert_int_equal(orr_checkpoint_open(*state, &c, &err), ORR_OK);
    assert_true(c->data.next == 7 && c->data.n == 0);
    orr_checkpoint_close(c);
    edit(*state, "s/3 7 11/3 7 12/;s/nest/next/", 7);
    assert_int_equal(orr_checkpoint_open(*state, &c, &err), ORR_INVALID);
}

static void another_plan_puts_it_together(void **state)
{
    orr_error err;
    orr_checkpoint *c;
    half halves[2], back;
    float whole[2 * N];
    save_both(*state, halves, 1);
    assert_int_equal(orr_checkpoint_open(*state, &c, &err), ORR_OK);
    assert_int_equal(orr_checkpoint_read_tensor(c, "3.wide.0", "mean", whole, (int64_t)2 * N, &err),
                     ORR_OK);
    for (int64_t row = 0; row < ROWS; row++)
        for (int64_t column = 0; column < 2 * COLUMNS; column++) {
            const bool lost = row == 0 && column % COLUMNS < 2; /* of shards that were not saved */
            assert_true(whole[row * 2 * COLUMNS + column] == (lost ? 0 : whole_at(1, row, column)));
        }
    fill_half(&back, 0);
    back.parameters[0].own.by[1].piece[0].whole = 2; /* columns 2, 3 and 4 */
    const orr_checkpoint_metadata f = facts(0, 1, "dp=1");
    assert_int_equal(orr_checkpoint_restore(c, &f, back.parameters, 2, &err), ORR_OK);
    for (int64_t i = COLUMNS; i < N; i++)
        assert_true(back.master[i] == whole_at(0, i / COLUMNS, 2 + i % COLUMNS));
    assert_int_equal(orr_checkpoint_read_tensor(c, "3.wide.0", "mean", whole, N, &err),
                     ORR_INVALID);
    assert_int_equal(orr_checkpoint_read_tensor(c, "5.none.0", "mean", whole, N, &err),
                     ORR_INVALID);
    orr_checkpoint_close(c);
}

/* Rows of a placement: two ranks have those that are named. */
static void place_rows(half halves[2], const uint32_t rows[2][ROWS / 2])
{
    for (uint32_t rank = 0; rank < 2; rank++) {
        orr_parameter *p = &halves[rank].parameters[0];
        fill_half(&halves[rank], rank);
        p->type.dim[0] = ROWS / 2;
        p->own.whole.dim[1] = COLUMNS;
        p->own.by[0] = (orr_dim_pieces){
            .n = 1, .piece = {{.whole = (int64_t)rank * ROWS / 2, .count = ROWS / 2}}};
        p->own.by[1] = (orr_dim_pieces){.n = 1, .piece = {{.count = COLUMNS}}};
        p->own.rows = rows[rank];
        p->n = p->shard_n = (int64_t)ROWS / 2 * COLUMNS;
        p->shard_begin = 0;
        p->master = halves[rank].master;
        p->m = halves[rank].m;
        p->v = halves[rank].v;
        for (int64_t i = 0; i < p->n; i++) {
            const int64_t row = rows[rank][i / COLUMNS];
            p->master[i] = whole_at(0, row, i % COLUMNS);
            p->m[i] = whole_at(1, row, i % COLUMNS);
            p->v[i] = whole_at(2, row, i % COLUMNS);
        }
    }
}

static orr_checkpoint *save_rows(const char *folder, half halves[2])
{
    orr_checkpoint *ret;
    orr_error err;
    for (uint32_t rank = 0; rank < 2; rank++) {
        orr_checkpointer *c;
        const orr_checkpoint_metadata f = facts(rank, 2, "ep=2");
        assert_int_equal(orr_checkpointer_new(folder, &f, halves[rank].parameters, 1, &c, &err),
                         ORR_OK);
        assert_int_equal(orr_checkpointer_save(c, 3, &position, &err), ORR_OK);
        assert_int_equal(orr_checkpointer_wait(c, &err), ORR_OK);
        orr_checkpointer_free(c);
    }
    assert_int_equal(orr_checkpoint_commit(folder, 3, &err), ORR_OK);
    assert_int_equal(orr_checkpoint_open(folder, &ret, &err), ORR_OK);
    return ret;
}

static const uint32_t PLACED[2][ROWS / 2] = {{3, 0}, {1, 2}};

/* The same plan with the same rows reads its own file, with others all that have them. */
static void rows_go_where_the_next_placement_has_them(void **state)
{
    static const uint32_t others[2][ROWS / 2] = {{2, 3}, {0, 1}};
    orr_error err;
    half halves[2], back[2];
    float whole[ROWS * COLUMNS];
    place_rows(halves, PLACED);
    orr_checkpoint *c = save_rows(*state, halves);
    assert_int_equal(orr_checkpoint_read_tensor(c, "3.wide.0", "square", whole, N, &err), ORR_OK);
    for (int64_t i = 0; i < N; i++)
        assert_true(whole[i] == whole_at(2, i / COLUMNS, i % COLUMNS));
    for (int same = 0; same < 2; same++) {
        place_rows(back, same ? PLACED : others);
        for (uint32_t rank = 0; rank < 2; rank++) {
            const orr_checkpoint_metadata f = facts(rank, 2, "ep=2");
            orr_parameter *p = &back[rank].parameters[0];
            half want = back[rank];
            memset(p->master, 0, (size_t)p->n * sizeof(float));
            memset(p->m, 0, (size_t)p->n * sizeof(float));
            memset(p->v, 0, (size_t)p->n * sizeof(float));
            assert_int_equal(orr_checkpoint_restore(c, &f, p, 1, &err), ORR_OK);
            assert_memory_equal(p->master, want.master, (size_t)p->n * sizeof(float));
            assert_memory_equal(p->m, want.m, (size_t)p->n * sizeof(float));
            assert_memory_equal(p->v, want.v, (size_t)p->n * sizeof(float));
        }
    }
    orr_checkpoint_close(c);
}

/* A row beyond the tensor, of as many characters; and a format that is not known. */
static void rows_that_cannot_be_are_refused(void **state)
{
    orr_error err;
    half halves[2];
    float whole[ROWS * COLUMNS];
    place_rows(halves, PLACED);
    orr_checkpoint_close(save_rows(*state, halves));
    edit(*state, "s/ 6 3 0\"/ 6 4 0\"/", 3);
    orr_checkpoint *c;
    assert_int_equal(orr_checkpoint_open(*state, &c, &err), ORR_OK);
    assert_int_equal(orr_checkpoint_read_tensor(c, "3.wide.0", "mean", whole, N, &err),
                     ORR_INVALID);
    assert_non_null(strstr(err.text, "own.3.wide.0"));
    orr_checkpoint_close(c);
    edit(*state, "s,checkpoint/3,checkpoint/4,", 3);
    assert_int_equal(orr_checkpoint_open(*state, &c, &err), ORR_INVALID);
}

/* --- damage ---------------------------------------------------------------------------------- */

static orr_status read_all(const char *folder, orr_error *err)
{
    orr_checkpoint *c;
    orr_status status = orr_checkpoint_open(folder, &c, err);
    for (uint32_t rank = 0; rank < 2 && status == ORR_OK; rank++) {
        half back;
        const orr_checkpoint_metadata f = facts(rank, 2, "tp=2");
        fill_half(&back, rank);
        status = orr_checkpoint_restore(c, &f, back.parameters, 2, err);
        int64_t bytes;
        const orr_status verified = orr_checkpoint_verify(c, &bytes, NULL);
        assert_true(rank == 0 || (status == ORR_OK) == (verified == ORR_OK));
        if (status != ORR_OK || rank == 1)
            orr_checkpoint_close(c);
    }
    return status;
}

static void flip(const char *path, long bit)
{
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, bit / 8, SEEK_SET), 0);
    const int byte = fgetc(f);
    assert_int_equal(fseek(f, bit / 8, SEEK_SET), 0);
    assert_int_not_equal(fputc(byte ^ 1 << bit % 8, f), EOF);
    assert_int_equal(fclose(f), 0);
}

/* Every bit of every file, one at a time. */
static void each_flipped_bit_is_found(void **state)
{
    static const char *const files[] = {"latest", "step-00000007/manifest",
                                        "step-00000007/rank-00000.safetensors",
                                        "step-00000007/rank-00001.safetensors"};
    half halves[2];
    orr_error err;
    long bits = 0;
    save_both(*state, halves, 7);
    assert_int_equal(read_all(*state, &err), ORR_OK);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[256];
        struct stat about;
        (void)snprintf(path, sizeof path, "%s/%s", (const char *)*state, files[i]);
        assert_int_equal(stat(path, &about), 0);
        for (long bit = 0; bit < about.st_size * 8; bit++, bits++) {
            flip(path, bit);
            if (read_all(*state, &err) == ORR_OK)
                fail_msg("%s: bit %ld is flipped and nobody noticed", files[i], bit);
            assert_int_not_equal(err.status, ORR_NOT_FOUND); /* a team would begin anew */
            flip(path, bit);
        }
    }
    assert_int_equal(read_all(*state, &err), ORR_OK);
    assert_true(bits > 10000);
}

static void copy(const char *from, const char *to)
{
    char command[600];
    (void)snprintf(command, sizeof command, "cp %s %s", from, to);
    assert_int_equal(system(command), 0);
}

/* A rank's file of another step, whose own hashes are right, with the manifest and without. */
static void files_of_another_checkpoint_are_refused(void **state)
{
    half halves[2];
    orr_error err;
    char old[256], new[256];
    save_both(*state, halves, 6);
    save_both(*state, halves, 7);
    (void)snprintf(old, sizeof old, "%s/step-00000006/rank-00001.safetensors", (char *)*state);
    (void)snprintf(new, sizeof new, "%s/step-00000007/rank-00001.safetensors", (char *)*state);
    copy(old, new);
    assert_int_equal(read_all(*state, &err), ORR_PARSE);
    assert_non_null(strstr(err.text, "is of step 6, that of rank 0 of 7"));
    save_both(*state, halves, 7);
    (void)snprintf(old, sizeof old, "%s/step-00000007/rank-00000.safetensors", (char *)*state);
    copy(old, new);
    assert_int_equal(read_all(*state, &err), ORR_PARSE);
    assert_non_null(strstr(err.text, "is of rank 0"));
    save_both(*state, halves, 7);
    (void)snprintf(new, sizeof new, "%s/step-00000007/rank-00002.safetensors", (char *)*state);
    copy(old, new);
    assert_int_equal(read_all(*state, &err), ORR_PARSE);
    assert_non_null(
        strstr(err.text, "rank-00002.safetensors is not there, is damaged, or is of another"));
}

static bool exists(const char *folder, const char *name)
{
    char path[256];
    struct stat about;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return stat(path, &about) == 0;
}

/* One writer; what one that was killed left behind is removed by the next. */
static void a_folder_has_one_writer(void **state)
{
    half halves[2];
    orr_error err;
    int lock, other;
    char left[256];
    save_both(*state, halves, 7);
    (void)snprintf(left, sizeof left, "%s/step-00000007/rank-00001.safetensors.tmp.17.0",
                   (char *)*state);
    copy("/dev/null", left);
    assert_int_equal(orr_checkpoint_lock(*state, &lock, &err), ORR_OK);
    assert_true(access(left, F_OK) != 0);
    assert_int_equal(orr_checkpoint_lock(*state, &other, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "another run saves there (process "));
    orr_checkpoint_unlock(*state, lock);
    assert_false(exists(*state, "lock"));
    assert_int_equal(orr_checkpoint_lock(*state, &lock, &err), ORR_OK);
    orr_checkpoint_unlock(*state, lock);
    assert_int_equal(read_all(*state, &err), ORR_OK);
}

static void old_ones_go_and_the_one_before_stays(void **state)
{
    orr_error err;
    half halves[2];
    char path[128];
    struct stat about;
    for (int64_t step = 1; step <= 4; step++)
        save_both(*state, halves, step);
    for (int64_t step = 1; step <= 4; step++) {
        (void)snprintf(path, sizeof path, "%s/step-%08lld", (const char *)*state, (long long)step);
        assert_int_equal(stat(path, &about) == 0, step >= 3);
    }
    orr_checkpoint_remove(*state);
    assert_int_not_equal(stat(*state, &about), 0);
    orr_checkpoint *c;
    assert_int_equal(orr_checkpoint_open(*state, &c, &err), ORR_NOT_FOUND);
}

/* Before it was committed: then it is not the one before, which stays. */
static void one_that_was_overtaken_goes(void **state)
{
    half halves[2];
    char path[128];
    for (int64_t step = 1; step <= 3; step++)
        save_both(*state, halves, step);
    (void)snprintf(path, sizeof path, "%s/step-00000003/manifest", (const char *)*state);
    assert_int_equal(unlink(path), 0);
    save_both(*state, halves, 4);
    for (int64_t step = 1; step <= 4; step++) {
        (void)snprintf(path, sizeof path, "step-%08lld", (long long)step);
        assert_int_equal(exists(*state, path), step % 2 == 0);
    }
}

/* Every number of a checkpoint is its step. */
static void write_until_killed(const char *folder)
{
    enum { MANY = 1 << 15 };
    static float numbers[MANY];
    orr_error err;
    orr_checkpointer *c;
    orr_parameter p = {.name = "all",
                       .n = MANY,
                       .shard_n = MANY,
                       .master = numbers,
                       .m = numbers,
                       .v = numbers,
                       .type = {.dtype = ORR_DTYPE_FP32, .rank = 1, .dim = {MANY}}};
    const orr_checkpoint_metadata f = facts(0, 1, "dp=1");
    p.own.whole = p.type;
    p.own.by[0] = (orr_dim_pieces){.n = 1, .piece = {{.count = MANY}}};
    if (orr_checkpointer_new(folder, &f, &p, 1, &c, &err) != ORR_OK)
        _exit(1);
    for (int64_t step = 1;; step++) {
        for (int i = 0; i < MANY; i++)
            numbers[i] = (float)step;
        if (orr_checkpointer_save(c, step, &position, &err) != ORR_OK)
            _exit(1);
        memset(numbers, 0xff, sizeof numbers); /* training goes on */
        if (orr_checkpointer_wait(c, &err) != ORR_OK ||
            orr_checkpoint_commit(folder, step, &err) != ORR_OK)
            _exit(1);
    }
}

static int64_t check_whole(const char *folder)
{
    enum { MANY = 1 << 15 };
    static float numbers[MANY];
    orr_error err;
    orr_checkpoint *c;
    const orr_status status = orr_checkpoint_open(folder, &c, &err);
    if (status == ORR_NOT_FOUND)
        return 0; /* killed before the first */
    if (status != ORR_OK)
        fail_msg("%s", err.text);
    for (int part = 0; part < 3; part++) {
        const char *const names[] = {"master", "mean", "square"};
        if (orr_checkpoint_read_tensor(c, "0.all.0", names[part], numbers, MANY, &err) != ORR_OK)
            fail_msg("%s", err.text);
        for (int i = 0; i < MANY; i++)
            assert_true(numbers[i] == (float)c->step);
    }
    const int64_t step = c->step;
    orr_checkpoint_close(c);
    return step;
}

/* Until a checkpoint is there. */
static void wait_for_one(const char *folder)
{
    char latest[160];
    (void)snprintf(latest, sizeof latest, "%s/latest", folder);
    while (access(latest, F_OK) != 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void a_kill_leaves_the_last_one_whole(void **state)
{
    orr_random random = orr_random_of(11, 0);
    int64_t most = 0;
    for (int i = 0; i < 25; i++) {
        char folder[128];
        (void)snprintf(folder, sizeof folder, "%s/%d", (const char *)*state, i);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            write_until_killed(folder);
        const long us = 500 + (long)orr_random_below(&random, 60000);
        if (i % 5 == 4)
            wait_for_one(folder); /* or none might ever come so far */
        nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
        int how;
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFSIGNALED(how));
        const int64_t step = check_whole(folder);
        most = step > most ? step : most;
    }
    assert_true(most > 0); /* some came far enough to be worth the test */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_saved_comes_back, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(data_are_counted_from_the_step_otherwise, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(another_plan_puts_it_together, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(rows_go_where_the_next_placement_has_them, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(rows_that_cannot_be_are_refused, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(each_flipped_bit_is_found, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(files_of_another_checkpoint_are_refused, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_folder_has_one_writer, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(one_that_was_overtaken_goes, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(old_ones_go_and_the_one_before_stays, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_kill_leaves_the_last_one_whole, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
