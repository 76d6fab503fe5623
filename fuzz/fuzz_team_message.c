/* SPDX-License-Identifier: Apache-2.0 */
#include "../tests/unit/team/any_message.h"
#include "fuzz.h"
#include "team/protocol/roster.h"

/* The first byte chooses the reader of the rest. What can be read is gone on with: a coordinator
 * decides with a report, a member counts data with an epoch. */

static void decide(const orr_member_report *report)
{
    static const bool whole[ORR_TEAM_MAX_REPLICAS] = {true};
    const orr_epoch_candidate candidate = {.report = report};
    orr_membership memory = {.lost = true, .uncommitted = true, .jump = 5};
    orr_epoch epoch;
    char why[ORR_TEAM_REASON_BYTES];
    orr_membership_refresh(&memory, &candidate, 1);
    const orr_quorum q = orr_roster_quorum(&memory, &candidate, 1);
    FUZZ_CHECK(q.here <= q.living);
    if (!orr_roster_next_epoch(&memory, &candidate, 1, &epoch, why))
        return;
    FUZZ_CHECK(epoch.n <= 1);
    if (epoch.n == 0)
        return;
    orr_membership_formed(&memory, &epoch);
    for (int step = 0; step < 3 && orr_roster_advance(&epoch, whole); step++) {
        FUZZ_CHECK(epoch.data.n <= ORR_TEAM_MAX_RETURNED_SLOTS);
        orr_membership_committed(&memory, &epoch);
    }
}

static void consume(const orr_epoch *read)
{
    uint64_t slots[ORR_TEAM_MAX_REPLICAS];
    orr_team_data_cursor data = read->data;
    const uint32_t n = orr_epoch_slots(read, slots);
    FUZZ_CHECK(n <= ORR_TEAM_MAX_REPLICAS);
    const bool consumed = orr_team_data_cursor_consume(&data, slots, n);
    FUZZ_CHECK(data.n <= ORR_TEAM_MAX_RETURNED_SLOTS);
    for (uint32_t i = 0; consumed && i < n; i++)
        FUZZ_CHECK(!orr_team_data_cursor_is_open(&data, slots[i]));
    FUZZ_CHECK(consumed || memcmp(&data, &read->data, sizeof data) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    bool reads;
    any_message m;
    if (len == 0)
        return 0;
    const any_kind kind = (any_kind)(bytes[0] % ANY_KINDS);
    FUZZ_CHECK(any_holds(kind, bytes + 1, len - 1, &reads));
    if (!reads || !any_read(kind, bytes + 1, len - 1, &m))
        return 0;
    if (kind == ANY_HELLO)
        decide(&m.hello.report);
    else if (kind == ANY_EPOCH)
        consume(&m.epoch);
    return 0;
}
