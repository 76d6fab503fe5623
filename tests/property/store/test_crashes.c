/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "naive_store.h"

/* Trainings whose drive dies at any operation, with commits under way: the store opens again with
 * the rows of the last step that was committed, or of the one whose commit was under way, to the
 * bit. Without a thread, so that a run is a function of its seed. */

/* Trains until something fails or `batches` are done; which only a crash may cause. */
static orr_status train(naive_store *s, int batches, orr_error *err)
{
    for (int i = 0; i < batches; i++) {
        while (s->next - s->first < s->options.window) {
            const orr_status status = naive_announce(s, err);
            if (status == ORR_LIMIT && s->next - s->first > 1) {
                orr_store_forget(s->store, --s->next);
                break;
            }
            ORR_TRY(status);
        }
        ORR_TRY(naive_step(s, err));
        if (naive_below(s, 6) == 0)
            ORR_TRY(naive_commit(s, err));
        if (naive_below(s, 10) == 0)
            ORR_TRY(orr_store_committed(s->store, &s->durable, err));
        if (naive_below(s, 40) == 0) {
            orr_store_forget(s->store, s->first);
            s->next = s->first;
            ORR_TRY(naive_scan(s, err));
            ORR_TRY(naive_write(s, err));
        }
    }
    return ORR_OK;
}

/* A fault that was planned may strike here, too: then it is tried again, after a crash. */
static bool struck_since(naive_store *s, uint64_t *struck)
{
    const uint64_t before = *struck;
    *struck = orr_sim_drive_struck(s->drive);
    return *struck > before;
}

/* What was committed is there: the last step known to be durable, or the one after it. */
static void check_reopened(naive_store *s, orr_error *err)
{
    const int64_t durable = s->durable, begun = s->step;
    uint64_t struck = orr_sim_drive_struck(s->drive);
    int64_t step;
    for (;;) {
        orr_status status = naive_reopen(s, -1, err);
        const bool opened = status == ORR_OK;
        if (status == ORR_OK)
            status = orr_store_committed(s->store, &step, err);
        if (status == ORR_OK && (step < durable || step > begun))
            seed_fail(s->seed, "step %lld after a crash, of %lld known and %lld begun",
                      (long long)step, (long long)durable, (long long)begun);
        if (status == ORR_OK && step < 0)
            naive_fill_initial(s);
        else if (status == ORR_OK)
            memcpy(s->rows[0], s->committed[step % NAIVE_COMMITS], s->bytes);
        if (status == ORR_OK)
            status = naive_scan(s, err);
        if (status == ORR_OK)
            break;
        if (!struck_since(s, &struck))
            seed_fail(s->seed, "%s after a crash: %s", opened ? "scan" : "open", err->text);
        if (!orr_sim_drive_crashed(s->drive))
            orr_sim_drive_crash(s->drive, ORR_SIM_DRIVE_POWER_LOSS);
    }
    s->step = s->durable = s->settled = step;
}

static void test_crashes(void **state)
{
    (void)state;
    static const orr_sim_drive_fault FAULTS[] = {ORR_SIM_DRIVE_POWER_LOSS, ORR_SIM_DRIVE_KILL,
                                                 ORR_SIM_DRIVE_SYNC_EIO, ORR_SIM_DRIVE_WRITE_EIO,
                                                 ORR_SIM_DRIVE_READ_EIO};
    const seed_range range = seeds(150);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        naive_store s;
        orr_error err;
        naive_begin(&s, seed, 1);
        for (int life = 0; life < 3; life++) {
            const uint64_t now = orr_sim_drive_operations(s.drive);
            const orr_sim_drive_fault fault = FAULTS[naive_below(&s, 5)];
            orr_sim_drive_plan(s.drive, fault, now + 1 + naive_below(&s, 2000));
            const orr_status status = train(&s, 60, &err);
            if (status != ORR_OK && orr_sim_drive_struck(s.drive) == 0)
                seed_fail(seed, "nothing has happened, but: %s", err.text);
            /* Whatever it was, power is lost now. */
            if (!orr_sim_drive_crashed(s.drive))
                orr_sim_drive_crash(s.drive, ORR_SIM_DRIVE_POWER_LOSS);
            check_reopened(&s, &err);
        }
        naive_end(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
