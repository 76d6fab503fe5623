/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "store/file/file.h"

/* Which rows belong to which commit, and what becomes of the places that they had before. */

orr_row_entry orr_row_home_now(const orr_row_file *f, uint32_t shard, int64_t row)
{
    const orr_row_entry entry = __atomic_load_n(&f->entries[shard][row], __ATOMIC_RELAXED);
    if ((entry & ORR_ROW_RESIDENT) == 0)
        return entry & ORR_ROW_HOME_MASK;
    return f->options.home(f->options.ctx, shard, row, entry) & ORR_ROW_HOME_MASK;
}

bool orr_row_bit(uint64_t *const *bits, uint32_t shard, int64_t row)
{
    return (bits[shard][row / 64] >> (row % 64) & 1) != 0;
}

void orr_row_set_bit(uint64_t **bits, uint32_t shard, int64_t row, bool to)
{
    const uint64_t mask = UINT64_C(1) << (row % 64);
    bits[shard][row / 64] = to ? bits[shard][row / 64] | mask : bits[shard][row / 64] & ~mask;
}

static struct orr_row_undo_slot *undo_slot(const orr_row_undo *u, uint64_t key)
{
    uint64_t at = (key * UINT64_C(0x9e3779b97f4a7c15)) >> 20;
    while (u->at[at & (u->room - 1)].key != 0 && u->at[at & (u->room - 1)].key != key)
        at++;
    return &u->at[at & (u->room - 1)];
}

bool orr_row_undo_reserve(orr_row_undo *u)
{
    if ((u->n + 1) * 2 <= u->room)
        return true;
    orr_row_undo larger = {.room = u->room == 0 ? 64 : u->room * 2};
    larger.at = orr_calloc(larger.room, sizeof *larger.at);
    if (larger.at == NULL)
        return false;
    for (size_t i = 0; i < u->room; i++)
        if (u->at[i].key != 0)
            orr_row_undo_set(&larger, u->at[i].key - 1, u->at[i].home);
    orr_free(u->at);
    *u = larger;
    return true;
}

void orr_row_undo_set(orr_row_undo *u, uint64_t id, orr_row_entry home)
{
    struct orr_row_undo_slot *s = undo_slot(u, id + 1);
    u->n += s->key == 0;
    s->key = id + 1;
    s->home = home;
}

/* The home of a row as of the commit under way. */
orr_row_entry orr_row_home_committing(const orr_row_file *f, uint32_t shard, int64_t row)
{
    if (!orr_row_bit(f->next, shard, row) || ORR_ROW_IS_BROKEN(NO_UNDO))
        return orr_row_home_now(f, shard, row);
    const struct orr_row_undo_slot *s = undo_slot(&f->undo, orr_row_id(shard, row) + 1);
    return s->home;
}

orr_status orr_row_file_begin_commit(orr_row_file *f, int64_t step, orr_error *err)
{
    if (f->next == NULL)
        return orr_fail(err, ORR_INVALID, "the rows were opened to be written without commits");
    if (f->failed)
        return orr_row_fail_poisoned(f, err);
    if (f->committing)
        return orr_fail(err, ORR_INVALID, "step %lld is being committed",
                        (long long)f->committing_step);
    if (step <= f->step)
        return orr_fail(err, ORR_INVALID, "step %lld: the last commit is of step %lld",
                        (long long)step, (long long)f->step);
    if (!orr_array_reserve(&f->retired, 1))
        return orr_fail_memory(err);
    uint64_t **const bits = f->now;
    const orr_row_homes homes = f->retired_now;
    f->now = f->next;
    f->next = bits; /* all clear */
    f->n_now = f->n_next;
    f->n_next = 0;
    f->retired_now = f->retired_next;
    f->retired_next = homes; /* empty */
    f->committing = true;
    f->committing_step = step;
    return ORR_OK;
}

static void clear_now(orr_row_file *f)
{
    for (uint32_t i = 0; i < f->header.facts.n_shards; i++)
        memset(f->now[i], 0, ((size_t)f->header.facts.shards[i].rows + 63) / 64 * 8);
    f->n_now = 0;
}

/* Places that no commit from this step on needs. */
static void release_retired(orr_row_file *f, int64_t step)
{
    size_t n = 0;
    for (; n < f->retired.n && f->retired.at[n].step <= step; n++) {
        orr_row_homes *homes = &f->retired.at[n].homes;
        for (size_t i = 0; i < homes->n; i++)
            orr_row_place_release(f, homes->at[i]);
        orr_array_done(homes);
    }
    if (n == 0)
        return;
    memmove(f->retired.at, f->retired.at + n, (f->retired.n - n) * sizeof *f->retired.at);
    f->retired.n -= n;
    memset(f->clean.pending, 0, f->layout.n_shapes * sizeof *f->clean.pending);
    f->clean.moved = 0;
}

static void end_commit(orr_row_file *f)
{
    for (uint32_t i = 0; i < f->layout.n_shapes; i++) {
        f->space.taken_last[i] = f->space.taken[i];
        f->space.taken[i] = 0;
    }
    (void)orr_array_push(&f->retired,
                         ((orr_row_retired){.step = f->committing_step, .homes = f->retired_now}));
    f->retired_now = (orr_row_homes){0};
    clear_now(f);
    if (f->undo.room > 0)
        memset(f->undo.at, 0, f->undo.room * sizeof *f->undo.at);
    f->undo.n = 0;
    if (ORR_ROW_IS_BROKEN(SETTLE_IGNORED))
        release_retired(f, f->committing_step);
    __atomic_store_n(&f->step, f->committing_step, __ATOMIC_RELAXED);
    f->committing = false;
    f->stats.commits++;
}

orr_status orr_row_file_finish_commit(orr_row_file *f, orr_row_file_other *call, void *ctx,
                                      orr_error *err)
{
    const orr_row_others others = {call, ctx};
    bool unwritten = true;
    if (ORR_ROW_IS_BROKEN(MARK_BEFORE_ROWS))
        ORR_TRY(orr_row_log_commit(f, others, err));
    orr_row_file_lock(f);
    const bool committing = f->committing;
    if (committing)
        orr_row_runs_flush(f);
    orr_row_file_unlock(f);
    if (!committing)
        return orr_fail(err, ORR_INVALID, "no commit is under way");
    while (unwritten) {
        ORR_TRY(orr_row_submit_runs(f, err));
        orr_row_file_lock(f);
        unwritten = f->unwritten > 0 && !f->failed;
        orr_row_file_unlock(f);
        if (unwritten)
            ORR_TRY(orr_row_reap(f, others, err));
    }
    if (!ORR_ROW_IS_BROKEN(MARK_BEFORE_ROWS))
        ORR_TRY(orr_row_log_commit(f, others, err));
    else
        ORR_TRY(orr_row_sync(f, err));
    orr_row_file_lock(f);
    end_commit(f);
    orr_row_file_unlock(f);
    return ORR_OK;
}

void orr_row_file_settle(orr_row_file *f, int64_t step)
{
    if (step > f->settled)
        f->settled = step < f->step ? step : f->step;
    release_retired(f, f->settled);
}
