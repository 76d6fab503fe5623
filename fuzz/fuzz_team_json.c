/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fuzz.h"
#include "team/store/etcd_message.h"
#include "team/status/text.h"

static orr_output *write_status(const orr_team_status *s, orr_text *ret)
{
    orr_output *out;
    orr_error err;
    FUZZ_CHECK(orr_output_open_memory(&out, &err) == ORR_OK);
    orr_team_status_json(s, out);
    FUZZ_CHECK(orr_output_finish(out, &err) == ORR_OK);
    ret->at = orr_output_memory(out, &ret->n);
    return out;
}

/* What was read and is written is read as the same. */
static void check_status(orr_text json)
{
    orr_team_status s, again;
    orr_text once, twice;
    orr_error err = {0};
    const orr_status status = orr_team_status_read(json, &s, &err);
    if (status != ORR_OK) {
        FUZZ_CHECK(status == ORR_PARSE || status == ORR_LIMIT);
        FUZZ_CHECK(err.text[0] != '\0');
        return;
    }
    orr_output *a = write_status(&s, &once);
    FUZZ_CHECK(orr_team_status_read(once, &again, &err) == ORR_OK);
    orr_output *b = write_status(&again, &twice);
    FUZZ_CHECK(once.n == twice.n && memcmp(once.at, twice.at, once.n) == 0);
    orr_output_close(a);
    orr_output_close(b);
}

static void check_etcd(orr_text json)
{
    orr_etcd_value value = {0};
    orr_etcd_reply reply;
    orr_error err = {0};
    char why[40];
    const orr_status status = orr_etcd_read_reply(json, &reply, &value, &err);
    if (status == ORR_OK)
        FUZZ_CHECK(reply.revision > 0 && (reply.found ? reply.modified > 0 : value.n == 0));
    else
        FUZZ_CHECK(status == ORR_PARSE || status == ORR_LIMIT);
    orr_etcd_read_refusal(json, why, sizeof why);
    FUZZ_CHECK(strlen(why) < sizeof why);
    orr_array_done(&value);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    const orr_text json = {(const char *)bytes, len};
    check_status(json);
    check_etcd(json);
    return 0;
}
