/* SPDX-License-Identifier: Apache-2.0 */
/* A job diagnosed, and parts of it written, while allocations fail. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <orrery/orrery.h>

#include "failing.h"
#include "leaks.h"

static char two_ranks[PATH_ROOM];

static orr_status command_diagnose(orr_error *err)
{
    COMMAND("diagnose", "-o", inside("out.txt"), two_ranks);
}
static orr_status command_diagnose_to_json(orr_error *err)
{
    COMMAND("diagnose", "--format", "json", "-o", inside("out.json"), two_ranks);
}
static orr_status command_diagnose_to_a_page(orr_error *err)
{
    COMMAND("diagnose", "-o", inside("out.txt"), "--html", inside("page.html"), two_ranks);
}
static orr_status command_convert_a_step(orr_error *err)
{
    COMMAND("convert", "--step", "0", "-o", inside("rank%r.et"), two_ranks);
}
static orr_status command_reduce_to_a_subtree_of_a_rank(orr_error *err)
{
    COMMAND("chakra", "reduce", "--subtree", "aten::linear", "--ranks", "1", "-o",
            inside("part.et"), two_ranks);
}
TEST_OF(command_diagnose)
TEST_OF(command_diagnose_to_json)
TEST_OF(command_diagnose_to_a_page)
TEST_OF(command_convert_a_step)
TEST_OF(command_reduce_to_a_subtree_of_a_rank)

static int find_inputs(void **state)
{
    const char *source = getenv("ORRERY_SOURCE");
    const char *inputs = "tests/golden/inputs";

    source = source ? source : ".";
    snprintf(two_ranks, sizeof two_ranks, "%s/%s/two_ranks", source, inputs);
    return access(two_ranks, R_OK) == 0 ? make_folder(state) : -1;
}

int main(int argc, char **argv)
{
    (void)argc;
    restart_without_caches(argv);
    const struct CMUnitTest tests[] = {
        TEST(command_diagnose),
        TEST(command_diagnose_to_json),
        TEST(command_diagnose_to_a_page),
        TEST(command_convert_a_step),
        TEST(command_reduce_to_a_subtree_of_a_rank),
    };
    return cmocka_run_group_tests_name("no_memory", tests, find_inputs, remove_folder);
}
