/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated drive against a naive model: of each sector the versions that a crash may leave.
 * The model knows the rules of device.h and nothing of how the drive keeps them. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "support/simulated/block_device.h"

#include "../support/seeds.h"

enum { SECTORS = 24, SECTOR = 512, MOST = 400, SLOTS = 8, SPAN = 4, SEEDS = 3000 };

/* Each write has a number, which all its sectors are filled with. */
typedef struct model {
    orr_random random;
    orr_sim_drive *drive;
    orr_block_device *device;
    uint32_t next;
    bool may[SECTORS][MOST]; /* after a power loss: sector, version */
    uint32_t now[SECTORS];   /* what is read */
    struct {
        bool busy;
        uint32_t first, n, version; /* version 0: a read */
    } slots[SLOTS];
    bool completed[MOST], synced;
} model;

static _Alignas(SECTOR) uint32_t memory[SLOTS][SPAN * SECTOR / 4];
static struct seen {
    int power, kill, lost, kept, torn, reordered;
} seen;

static void fill(uint32_t *words, uint32_t n, uint32_t version)
{
    for (uint32_t k = 0; k < n; k++)
        words[k] = version;
}

/* The version of a sector, which is whole. */
static uint32_t version_of(const uint8_t *sector)
{
    uint32_t words[SECTOR / 4];
    memcpy(words, sector, SECTOR);
    for (int k = 1; k < SECTOR / 4; k++)
        assert_int_equal(words[k], words[0]);
    return words[0];
}

static bool overlaps(const model *m, uint32_t first, uint32_t n)
{
    for (int k = 0; k < SLOTS; k++)
        if (m->slots[k].busy && m->slots[k].first < first + n &&
            first < m->slots[k].first + m->slots[k].n)
            return true;
    return false;
}

/* False: the host died. */
static bool submit(model *m)
{
    const uint32_t n = 1 + (uint32_t)orr_random_below(&m->random, SPAN);
    const uint32_t first = (uint32_t)orr_random_below(&m->random, SECTORS - n + 1);
    uint32_t slot = 0;
    while (slot < SLOTS && m->slots[slot].busy)
        slot++;
    if (slot == SLOTS || overlaps(m, first, n))
        return true;
    const bool write = orr_random_below(&m->random, 3) > 0;
    const uint32_t version = write ? ++m->next : 0;
    if (write)
        fill(memory[slot], n * SECTOR / 4, version);
    for (uint32_t k = 0; write && k < n; k++)
        m->may[first + k][version] = true;
    m->slots[slot].busy = true;
    m->slots[slot].first = first;
    m->slots[slot].n = n;
    m->slots[slot].version = version;
    const orr_block_request request = {.operation = write ? ORR_BLOCK_WRITE : ORR_BLOCK_READ,
                                       .at = (uint64_t)first * SECTOR,
                                       .bytes = n * SECTOR,
                                       .data = memory[slot],
                                       .tag = slot};
    uint32_t begun = 0;
    const orr_status status = m->device->submit(m->device, &request, 1, &begun, NULL);
    assert_true(status == ORR_OK || orr_sim_drive_crashed(m->drive));
    return status == ORR_OK;
}

static bool reap(model *m)
{
    orr_block_completion done[SLOTS];
    uint32_t n = 0;
    if (m->device->reap(m->device, (uint32_t)orr_random_below(&m->random, 3), done, SLOTS, &n,
                        NULL) != ORR_OK)
        return false;
    for (uint32_t k = 0; k < n; k++) {
        const uint64_t slot = done[k].tag;
        assert_int_equal(done[k].error, 0);
        m->slots[slot].busy = false;
        const uint32_t first = m->slots[slot].first, version = m->slots[slot].version;
        m->completed[version] = true;
        for (uint32_t s = 0; s < m->slots[slot].n; s++)
            if (version > 0)
                m->now[first + s] = version;
            else
                assert_int_equal(version_of((uint8_t *)memory[slot] + s * SECTOR),
                                 m->now[first + s]);
    }
    return true;
}

static bool sync_all(model *m)
{
    if (m->device->sync(m->device, NULL) != ORR_OK)
        return false;
    for (uint32_t s = 0; s < SECTORS; s++) {
        memset(m->may[s], 0, sizeof m->may[s]);
        m->may[s][m->now[s]] = true;
    }
    for (int k = 0; k < SLOTS; k++) /* those in flight are not covered */
        for (uint32_t s = 0; m->slots[k].busy && m->slots[k].version > 0 && s < m->slots[k].n; s++)
            m->may[m->slots[k].first + s][m->slots[k].version] = true;
    return true;
}

static void count(const model *m, const uint32_t *found)
{
    uint32_t newest_kept = 0, oldest_lost = UINT32_MAX;
    for (uint32_t s = 0; s < SECTORS; s++) {
        if (found[s] > newest_kept)
            newest_kept = found[s];
        if (found[s] == m->now[s])
            continue;
        seen.lost++;
        if (m->now[s] < oldest_lost)
            oldest_lost = m->now[s];
        for (uint32_t other = 0; other < SECTORS; other++)
            seen.torn += found[other] == m->now[s] && m->now[other] == m->now[s];
    }
    seen.kept += oldest_lost == UINT32_MAX;
    seen.reordered += newest_kept > oldest_lost;
}

/* The host died: what is there is one of the versions that may be. */
static void restart(model *m, orr_sim_drive_fault how)
{
    uint32_t found[SECTORS];
    const uint8_t *content = orr_sim_drive_content(m->drive);
    for (uint32_t s = 0; s < SECTORS; s++) {
        found[s] = version_of(content + (size_t)s * SECTOR);
        assert_true(m->may[s][found[s]]);
        /* A kill loses nothing that has completed. */
        if (how == ORR_SIM_DRIVE_KILL && found[s] != m->now[s])
            assert_false(m->completed[found[s]]);
    }
    if (how == ORR_SIM_DRIVE_POWER_LOSS)
        count(m, found);
    for (uint32_t s = 0; s < SECTORS; s++) {
        m->now[s] = found[s];
        if (how == ORR_SIM_DRIVE_POWER_LOSS)
            memset(m->may[s], 0, sizeof m->may[s]);
        m->may[s][found[s]] = true;
    }
    memset(m->slots, 0, sizeof m->slots);
    m->device->close(m->device);
    assert_int_equal(orr_sim_drive_open(m->drive, false, &m->device, NULL), ORR_OK);
}

static void run(uint64_t seed, model *m)
{
    memset(m, 0, sizeof *m);
    m->random = orr_random_of(seed, 1);
    const orr_sim_drive_options options = {
        .seed = seed, .bytes = (uint64_t)SECTORS * SECTOR, .depth = SLOTS};
    assert_int_equal(orr_sim_drive_new(&options, &m->drive, NULL), ORR_OK);
    assert_int_equal(orr_sim_drive_open(m->drive, false, &m->device, NULL), ORR_OK);
    for (uint32_t s = 0; s < SECTORS; s++)
        m->may[s][0] = true;
    for (int life = 0; life < 4; life++) {
        const bool power = orr_random_below(&m->random, 3) > 0;
        const orr_sim_drive_fault how = power ? ORR_SIM_DRIVE_POWER_LOSS : ORR_SIM_DRIVE_KILL;
        seen.power += power;
        seen.kill += !power;
        orr_sim_drive_plan(m->drive, how,
                           orr_sim_drive_operations(m->drive) + 1 +
                               orr_random_below(&m->random, 60));
        for (bool lives = true; lives;) {
            const uint64_t act = orr_random_below(&m->random, 8);
            lives = act < 4 ? submit(m) : act < 7 ? reap(m) : sync_all(m);
        }
        restart(m, how);
    }
    assert_int_equal(orr_sim_drive_changed_writes(m->drive), 0);
    m->device->close(m->device);
    orr_sim_drive_free(m->drive);
}

static uint64_t failing_seed; /* of the run that has not come to its end */

static int tell_seed(void **state)
{
    (void)state;
    if (failing_seed != UINT64_MAX)
        print_message("seed %llu\n", (unsigned long long)failing_seed);
    return 0;
}

static void test_crashes(void **state)
{
    (void)state;
    const seed_range range = seeds(SEEDS);
    model *m = malloc(sizeof *m);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        failing_seed = seed;
        run(seed, m);
    }
    failing_seed = UINT64_MAX;
    free(m);
    print_message(
        "power losses %d, kills %d; sectors lost %d, all kept %d, torn %d, reordered %d\n",
        seen.power, seen.kill, seen.lost, seen.kept, seen.torn, seen.reordered);
    if (range.end - range.begin == SEEDS)
        assert_true(seen.lost > SEEDS / 2 && seen.kept > SEEDS / 4 && seen.torn > SEEDS / 20 &&
                    seen.reordered > SEEDS / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(test_crashes, tell_seed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
