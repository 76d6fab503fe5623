/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/command/option.h"

enum { ARGS_MAX = 8 };

/* A command line: the command, then its words. */
typedef struct line {
    const char *command;
    const char *words[ARGS_MAX];
    char *argv[ARGS_MAX];
    orr_settings settings;
    orr_error err;
} line;

static orr_status parse(line *l)
{
    int n = 0;

    for (; n < ARGS_MAX && l->words[n]; n++)
        l->argv[n] = (char *)l->words[n];
    return orr_options_parse(n, l->argv, l->command ? orr_command_find(l->command) : NULL,
                             &l->settings, &l->err);
}

static void assert_refused(line *l, const char *text)
{
    assert_int_equal(parse(l), ORR_INVALID);
    assert_string_equal(l->err.text, text);
}

static int clear_environment(void **state)
{
    (void)state;
    for (size_t i = 0; i < orr_options_n; i++) {
        char name[64];
        orr_option_environment(&orr_options[i], name, sizeof name);
        unsetenv(name);
    }
    return 0;
}

static void defaults_are_filled_in(void **state)
{
    line l = {.command = "analyze", .words = {"a.json"}};

    (void)state;
    assert_int_equal(parse(&l), ORR_OK);
    assert_string_equal(l.settings.format, "table");
    assert_string_equal(l.settings.color, "auto");
    assert_int_equal(l.settings.rank, -1);
    assert_int_equal(l.settings.top, 10);
    assert_null(l.settings.output);
    assert_null(l.settings.fail_if);
    assert_false(l.settings.tolerant);
    assert_int_equal(l.settings.n_args, 1);
    assert_string_equal(l.settings.args[0], "a.json");
}

static void a_value_may_stand_in_four_ways(void **state)
{
    line lines[] = {
        {.command = "info", .words = {"--format", "json"}},
        {.command = "info", .words = {"--format=json"}},
        {.command = "info", .words = {"-f", "json"}},
        {.command = "info", .words = {"-fjson"}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_int_equal(parse(&lines[i]), ORR_OK);
        assert_string_equal(lines[i].settings.format, "json");
        assert_int_equal(lines[i].settings.n_args, 0);
    }
}

static void a_value_may_be_empty_or_look_like_an_option(void **state)
{
    line empty = {.command = "convert", .words = {"--output=", "a"}};
    line dashed = {.command = "convert", .words = {"-o", "--quiet", "a"}};
    line equals = {.command = "analyze", .words = {"--fail-if=a.b==3"}};

    (void)state;
    assert_int_equal(parse(&empty), ORR_OK);
    assert_string_equal(empty.settings.output, "");
    assert_int_equal(parse(&dashed), ORR_OK);
    assert_string_equal(dashed.settings.output, "--quiet");
    assert_false(dashed.settings.quiet);
    assert_int_equal(parse(&equals), ORR_OK);
    assert_string_equal(equals.settings.fail_if, "a.b==3");
}

static void options_stand_anywhere_and_inputs_keep_their_order(void **state)
{
    line l = {.command = "analyze", .words = {"a", "-q", "b", "--top", "3", "-", "--all", "c"}};

    (void)state;
    assert_int_equal(parse(&l), ORR_OK);
    assert_true(l.settings.quiet);
    assert_true(l.settings.all);
    assert_int_equal(l.settings.top, 3);
    assert_int_equal(l.settings.n_args, 4);
    assert_string_equal(l.settings.args[0], "a");
    assert_string_equal(l.settings.args[1], "b");
    assert_string_equal(l.settings.args[2], "-");
    assert_string_equal(l.settings.args[3], "c");
}

static void two_dashes_end_the_options(void **state)
{
    line l = {.command = "analyze", .words = {"-q", "--", "--all", "-x", "--"}};

    (void)state;
    assert_int_equal(parse(&l), ORR_OK);
    assert_true(l.settings.quiet);
    assert_false(l.settings.all);
    assert_int_equal(l.settings.n_args, 3);
    assert_string_equal(l.settings.args[0], "--all");
    assert_string_equal(l.settings.args[1], "-x");
    assert_string_equal(l.settings.args[2], "--");
}

/* What a command line says, its words say again. */
static void settings_become_words(void **state)
{
    line l = {.command = "train",
              .words = {"-q", "--steps=7", "-fjson", "--data", "a b", "--", "-m", "--"}};
    const char *const *words;
    line again = {.command = "train"};
    orr_arena *arena = orr_arena_new(0, 0);

    (void)state;
    assert_int_equal(parse(&l), ORR_OK);
    words = orr_options_to_argv(orr_command_find("train"), &l.settings, arena);
    assert_non_null(words);
    assert_string_equal(words[0], "orrery");
    assert_string_equal(words[1], "train");
    for (int i = 0; words[i + 2] != NULL; i++)
        again.words[i] = words[i + 2];
    assert_int_equal(parse(&again), ORR_OK);
    assert_true(again.settings.quiet);
    assert_false(again.settings.verbose);
    assert_int_equal(again.settings.steps, 7);
    assert_int_equal(again.settings.rank, -1);
    assert_string_equal(again.settings.format, "json");
    assert_string_equal(again.settings.data, "a b");
    assert_null(again.settings.save);
    assert_int_equal(again.settings.n_args, 2);
    assert_string_equal(again.settings.args[0], "-m");
    assert_string_equal(again.settings.args[1], "--");
    orr_arena_free(arena);
}

static void words_are_all_or_none(void **state)
{
    line l = {.command = "train", .words = {"--data", "a", "m"}};
    orr_arena *arena = orr_arena_new(256, 256);

    (void)state;
    assert_int_equal(parse(&l), ORR_OK);
    assert_null(orr_options_to_argv(orr_command_find("train"), &l.settings, arena));
    orr_arena_free(arena);
}

static void the_environment_can_be_forgotten(void **state)
{
    line l = {.command = "train", .words = {"m"}};

    (void)state;
    setenv("ORRERY_STEPS", "9", 1);
    orr_options_unset_environment();
    assert_int_equal(parse(&l), ORR_OK);
    assert_int_equal(l.settings.steps, 0);
}

static void the_last_of_two_values_counts(void **state)
{
    line l = {.command = "info", .words = {"-f", "csv", "-f", "md"}};

    (void)state;
    assert_int_equal(parse(&l), ORR_OK);
    assert_string_equal(l.settings.format, "md");
}

static void the_environment_gives_way_to_the_command_line(void **state)
{
    line from_environment = {.command = "analyze"};
    line from_both = {.command = "analyze", .words = {"--format", "csv", "--fail-if", "d>2"}};

    (void)state;
    setenv("ORRERY_FORMAT", "json", 1);
    setenv("ORRERY_FAIL_IF", "c>1", 1);
    setenv("ORRERY_TOP", "7", 1);
    assert_int_equal(parse(&from_environment), ORR_OK);
    assert_string_equal(from_environment.settings.format, "json");
    assert_string_equal(from_environment.settings.fail_if, "c>1");
    assert_int_equal(from_environment.settings.top, 7);
    assert_int_equal(parse(&from_both), ORR_OK);
    assert_string_equal(from_both.settings.format, "csv");
    assert_string_equal(from_both.settings.fail_if, "d>2");
    assert_int_equal(from_both.settings.top, 7);
}

static void a_flag_of_the_environment_is_off_when_empty_or_0(void **state)
{
    const struct {
        const char *value;
        bool quiet;
    } cases[] = {{"", false}, {"0", false}, {"1", true}, {"yes", true}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        line l = {.command = "info"};
        setenv("ORRERY_QUIET", cases[i].value, 1);
        assert_int_equal(parse(&l), ORR_OK);
        assert_int_equal(l.settings.quiet, cases[i].quiet);
    }
}

static void the_environment_of_other_commands_is_left_alone(void **state)
{
    line l = {.command = "validate"};

    (void)state;
    setenv("ORRERY_RANK", "not a number", 1);
    setenv("ORRERY_HELP", "1", 1);
    setenv("ORRERY_VERSION", "0.2.0", 1);
    assert_int_equal(parse(&l), ORR_OK);
    assert_int_equal(l.settings.rank, -1);
    assert_false(l.settings.help);
    assert_false(l.settings.version);
}

static void a_wrong_value_of_the_environment_names_the_variable(void **state)
{
    line l = {.command = "analyze"};

    (void)state;
    setenv("ORRERY_RANK", "two", 1);
    assert_refused(&l, "ORRERY_RANK: 'two' is not a whole number of 0 or more");
}

static void wrong_values_are_refused(void **state)
{
    line lines[] = {
        {.command = "analyze", .words = {"--rank", "two"}},
        {.command = "analyze", .words = {"--rank", "-2"}},
        {.command = "analyze", .words = {"--rank", ""}},
        {.command = "analyze", .words = {"--rank", "3x"}},
        {.command = "analyze", .words = {"--rank", "99999999999999999999"}},
        {.command = "analyze", .words = {"--format", "xml"}},
        {.command = "analyze", .words = {"--format", "js"}},
        {.command = "analyze", .words = {"--format", "table|json"}},
        {.command = "analyze", .words = {"--format", ""}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_int_equal(parse(&lines[i]), ORR_INVALID);
    assert_string_equal(lines[0].err.text, "--rank: 'two' is not a whole number of 0 or more");
    assert_string_equal(lines[5].err.text, "--format: 'xml' is not one of table|json|csv|md");
}

static void a_missing_or_superfluous_value_is_refused(void **state)
{
    line missing = {.command = "convert", .words = {"a", "--output"}};
    line short_missing = {.command = "convert", .words = {"a", "-o"}};
    line too_much = {.command = "convert", .words = {"--quiet=yes"}};

    (void)state;
    assert_refused(&missing, "--output needs a FILE");
    assert_refused(&short_missing, "--output needs a FILE");
    assert_refused(&too_much, "--quiet takes no value");
}

static void a_wrong_option_gets_a_suggestion(void **state)
{
    line near = {.command = "convert", .words = {"--tolerent"}};
    line swapped = {.command = "convert", .words = {"--ouptut", "x"}};
    line far = {.command = "convert", .words = {"--xyzzyx"}};
    line letter = {.command = "convert", .words = {"-Z"}};
    line of_another = {.command = "convert", .words = {"--fail-if", "a>1"}};

    (void)state;
    assert_refused(&near, "no option --tolerent; did you mean --tolerant?");
    assert_refused(&swapped, "no option --ouptut; did you mean --output?");
    assert_refused(&far, "no option --xyzzyx here; see --help");
    assert_refused(&letter, "no option -Z here; see --help");
    assert_int_equal(parse(&of_another), ORR_INVALID);
}

static void a_prefix_of_a_name_is_not_that_option(void **state)
{
    line shorter = {.command = "info", .words = {"--forma", "json"}};
    line longer = {.command = "info", .words = {"--formats", "json"}};

    (void)state;
    assert_refused(&shorter, "no option --forma; did you mean --format?");
    assert_refused(&longer, "no option --formats; did you mean --format?");
}

static void without_a_command_only_common_options_are_known(void **state)
{
    line common = {.words = {"--version"}};
    line particular = {.words = {"--rank", "3"}};

    (void)state;
    assert_int_equal(parse(&common), ORR_OK);
    assert_true(common.settings.version);
    assert_int_equal(parse(&particular), ORR_INVALID);
}

static void an_old_name_is_still_understood(void **state)
{
    line old = {.command = "train", .words = {"--rate", "1e-3", "--check"}};
    line elsewhere = {.command = "explore", .words = {"--no=fp8", "--max-buildings", "2"}};
    line of_another = {.command = "explore", .words = {"--rate", "1"}};
    line from_environment = {.command = "train"};

    (void)state;
    assert_int_equal(parse(&old), ORR_OK);
    assert_string_equal(old.settings.rate, "1e-3");
    assert_true(old.settings.check);
    assert_int_equal(parse(&elsewhere), ORR_OK);
    assert_string_equal(elsewhere.settings.no, "fp8");
    assert_int_equal(elsewhere.settings.max_buildings, 2);
    assert_int_equal(parse(&of_another), ORR_INVALID);
    setenv("ORRERY_RATE", "2", 1);
    assert_int_equal(parse(&from_environment), ORR_OK);
    assert_string_equal(from_environment.settings.rate, "2");
    orr_options_unset_environment();
    assert_null(getenv("ORRERY_RATE"));
}

static void numbers_have_bounds(void **state)
{
    static const char *const wrong[] = {"0", "-1", "1025", "99999999999999999999", "four", "4x"};
    line most = {.command = "analyze", .words = {"-j", "1024"}};
    line rank = {.command = "analyze", .words = {"--rank", "2147483648"}};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[128];
        line l = {.command = "analyze", .words = {"-j", wrong[i]}};
        snprintf(text, sizeof text, "-j: '%s' is not a whole number from 1 to 1024", wrong[i]);
        assert_refused(&l, text);
    }
    assert_int_equal(parse(&most), ORR_OK);
    assert_int_equal(most.settings.threads, 1024);
    assert_refused(&rank, "--rank: '2147483648' is not a whole number from 0 to 2147483647");
}

/* A task that does not run here is not offered for it. */
static void a_choice_may_depend_on_the_command(void **state)
{
    line simulated = {.command = "simulate", .words = {"--task", "lora"}};
    line trained = {.command = "train", .words = {"--task", "lora"}};

    (void)state;
    assert_int_equal(parse(&simulated), ORR_OK);
    assert_refused(&trained, "--task: 'lora' is not one of pretrain|sft|dpo|rl");
}

/* Each option of a command once: common ones as its row lists them, then its others, then output
 * and general ones. */
static void options_of_a_command_are_in_order(void **state)
{
    (void)state;
    for (size_t c = 0; c < orr_commands_n; c++) {
        const orr_option *options[ORR_OPTION_NAMES_MAX];
        const orr_command *command = &orr_commands[c];
        const size_t n = orr_options_of(command, options);
        size_t applying = 0, common = 0, words = 0;
        for (size_t i = 0; i < orr_options_n; i++)
            applying += orr_option_applies(&orr_options[i], command);
        assert_int_equal(n, applying);
        while (common < n && orr_option_is_common(options[common], command))
            common++;
        for (size_t i = common; i < n; i++) {
            assert_false(orr_option_is_common(options[i], command));
            assert_true(i == common || options[i]->group >= options[i - 1]->group);
        }
        for (const char *at = command->common; *at != '\0'; at++)
            words += *at == ' ' && at[1] != '\0';
        assert_int_equal(common, words);
    }
    const orr_option *options[ORR_OPTION_NAMES_MAX];
    orr_options_of(orr_command_find("train"), options);
    assert_string_equal(options[0]->name, "plan");
    assert_string_equal(options[1]->name, "data");
}

/* The table itself: names are unique where they can meet, and name commands that exist. */
static void the_table_is_sound(void **state)
{
    (void)state;
    for (size_t i = 0; i < orr_options_n; i++) {
        const orr_option *o = &orr_options[i];
        assert_true(o->offset < sizeof(orr_settings));
        assert_true((o->kind == OPTION_FLAG) == (o->value == NULL));
        for (size_t c = 0; c < orr_commands_n; c++)
            for (size_t j = 0; j < i && orr_option_applies(o, &orr_commands[c]); j++)
                if (orr_option_applies(&orr_options[j], &orr_commands[c])) {
                    assert_string_not_equal(o->name, orr_options[j].name);
                    assert_true(!o->letter || o->letter != orr_options[j].letter);
                }
        for (size_t c = 0; c < orr_commands_n; c++) { /* a row speaks of no single command */
            char of_one[64];
            snprintf(of_one, sizeof of_one, "; %s: ", orr_commands[c].name);
            assert_null(strstr(o->about, of_one));
            assert_true(strncmp(o->about, of_one + 2, strlen(of_one + 2)) != 0);
        }
        if (!o->commands)
            continue;
        char words[512];
        snprintf(words, sizeof words, "%s", o->commands);
        char *rest = words;
        for (char *word; (word = strsep(&rest, " "));)
            assert_true(!*word || orr_command_find(word));
        assert_true(o->commands[0] == ' ' && o->commands[strlen(o->commands) - 1] == ' ');
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, clear_environment, clear_environment)
    const struct CMUnitTest tests[] = {
        TEST(defaults_are_filled_in),
        TEST(a_value_may_stand_in_four_ways),
        TEST(a_value_may_be_empty_or_look_like_an_option),
        TEST(options_stand_anywhere_and_inputs_keep_their_order),
        TEST(two_dashes_end_the_options),
        TEST(settings_become_words),
        TEST(words_are_all_or_none),
        TEST(the_environment_can_be_forgotten),
        TEST(the_last_of_two_values_counts),
        TEST(the_environment_gives_way_to_the_command_line),
        TEST(a_flag_of_the_environment_is_off_when_empty_or_0),
        TEST(the_environment_of_other_commands_is_left_alone),
        TEST(a_wrong_value_of_the_environment_names_the_variable),
        TEST(wrong_values_are_refused),
        TEST(a_missing_or_superfluous_value_is_refused),
        TEST(a_wrong_option_gets_a_suggestion),
        TEST(a_prefix_of_a_name_is_not_that_option),
        TEST(without_a_command_only_common_options_are_known),
        TEST(an_old_name_is_still_understood),
        TEST(numbers_have_bounds),
        TEST(a_choice_may_depend_on_the_command),
        TEST(options_of_a_command_are_in_order),
        TEST(the_table_is_sound),
    };
#undef TEST
    return cmocka_run_group_tests_name("option", tests, NULL, NULL);
}
