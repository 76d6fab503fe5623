/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/command/option.h"

/* What `orrery completion KIND` prints: the text, and a file that holds it. */
typedef struct printed {
    char text[256 * 1024];
    char path[64];
} printed;

static int take_away(void **state)
{
    printed *p = *state;

    unlink(p->path);
    free(p);
    return 0;
}

static int print_kind(void **state, const char *kind)
{
    printed *p = calloc(1, sizeof *p);

    if (!p)
        return -1;
    *state = p;
    snprintf(p->path, sizeof p->path, "/tmp/orrery-completion-XXXXXX");
    const int fd = mkstemp(p->path), old = dup(STDOUT_FILENO);
    if (fd < 0 || old < 0)
        return -1;
    const char *const args[] = {kind};
    const orr_settings settings = {.args = args, .n_args = 1};
    fflush(stdout);
    dup2(fd, STDOUT_FILENO);
    const int code = orr_command_completion(&settings);
    fflush(stdout);
    dup2(old, STDOUT_FILENO);
    close(old);
    const ssize_t n = pread(fd, p->text, sizeof p->text - 1, 0);
    close(fd);
    return code == EXIT_DONE && n > 0 ? 0 : -1;
}

static int print_bash(void **state)
{
    return print_kind(state, "bash");
}
static int print_zsh(void **state)
{
    return print_kind(state, "zsh");
}
static int print_fish(void **state)
{
    return print_kind(state, "fish");
}
static int print_man(void **state)
{
    return print_kind(state, "man");
}

/* `before`NAME`after` stands in the text, with each '-' of the name as `dash`. */
static bool has(const char *text, const char *before, const char *name, const char *after,
                const char *dash)
{
    char wanted[128];
    char *at = wanted + snprintf(wanted, sizeof wanted, "%s", before);

    for (; *name; name++)
        at += snprintf(at, (size_t)(wanted + sizeof wanted - at), "%.*s", *name == '-' ? 2 : 1,
                       *name == '-' ? dash : name);
    snprintf(at, (size_t)(wanted + sizeof wanted - at), "%s", after);
    return strstr(text, wanted) != NULL;
}

static void bash_knows_all_of_it(void **state)
{
    const printed *p = *state;

    for (size_t i = 0; i < orr_options_n; i++)
        assert_true(has(p->text, "--", orr_options[i].name, " ", "-"));
    for (size_t i = 0; i < orr_commands_n; i++)
        assert_true(has(p->text, "    ", orr_commands[i].name, ") options='", "-"));
}

static void zsh_knows_all_of_it(void **state)
{
    const printed *p = *state;

    for (size_t i = 0; i < orr_options_n; i++)
        assert_true(has(p->text, "--", orr_options[i].name, "", "-"));
    for (size_t i = 0; i < orr_commands_n; i++)
        assert_true(has(p->text, "    ", orr_commands[i].name, ") _arguments", "-"));
}

static void fish_knows_all_of_it(void **state)
{
    const printed *p = *state;

    for (size_t i = 0; i < orr_options_n; i++)
        assert_true(has(p->text, " -l ", orr_options[i].name, " ", "-"));
    for (size_t i = 0; i < orr_commands_n; i++)
        assert_true(has(p->text, "-f -a ", orr_commands[i].name, " -d ", "-"));
}

static void man_knows_all_of_it(void **state)
{
    const printed *p = *state;

    for (size_t i = 0; i < orr_options_n; i++) {
        char variable[64];
        orr_option_environment(&orr_options[i], variable, sizeof variable);
        assert_true(has(p->text, "\\fB\\-\\-", orr_options[i].name, "\\fR", "\\-"));
        assert_true(has(p->text, "\\fB", variable, "\\fR", "\\-"));
    }
    for (size_t i = 0; i < orr_commands_n; i++)
        assert_true(has(p->text, ".SS orrery ", orr_commands[i].name, " ", "-"));
}

/* Run a shell command on the file, which is its $1. Skips where the program is not installed. */
static void check(const printed *p, const char *program, const char *command)
{
    char line[4096];

    snprintf(line, sizeof line, "command -v %s >/dev/null", program);
    if (system(line) != 0) {
        print_message("# %s is not installed\n", program);
        skip();
    }
    snprintf(line, sizeof line, "set -- '%s'\n%s", p->path, command);
    assert_int_equal(system(line), 0);
}

static void bash_parses_it(void **state)
{
    check(*state, "bash", "bash -n \"$1\"");
}

static void zsh_parses_it(void **state)
{
    check(*state, "zsh", "zsh -n \"$1\"");
}

static void fish_parses_it(void **state)
{
    check(*state, "fish", "fish -n \"$1\"");
}

static void groff_has_nothing_to_say(void **state)
{
    check(
        *state, "groff",
        "said=$(groff -man -ww -z -Tutf8 \"$1\" 2>&1) && test -z \"$said\" || { echo \"# $said\"; exit 1; }");
}

/* What bash offers for a line whose last word is being typed. */
static void bash_completes_words(void **state)
{
    check(
        *state, "bash",
        "bash -c '. \"$1\"\n"
        "offers() { want=$1; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _orrery;\n"
        "  [ \"${COMPREPLY[*]}\" = \"$want\" ] || { echo \"# $*: ${COMPREPLY[*]}\"; exit 1; }; }\n"
        "offers analyze orrery an\n"
        "offers \"convert compare coordinator completion\" orrery co\n"
        "offers json orrery analyze --format j\n"
        "offers json orrery analyze -f j\n"
        "offers \"pretrain sft dpo rl\" orrery train --task \"\"\n"
        "offers \"pretrain sft lora\" orrery explore --task \"\"\n"
        "offers --html orrery analyze --ht\n"
        "offers \"\" orrery validate --ht\n"
        "offers \"bash zsh fish man\" orrery completion \"\"\n"
        "cd \"$(mktemp -d)\" && touch rank0.json && offers rank0.json orrery analyze ra\n"
        "rm -r \"$PWD\"' x \"$1\"");
}

static void an_unknown_kind_is_refused(void **state)
{
    const char *const args[] = {"tcsh"};
    const orr_settings settings = {.args = args, .n_args = 1};

    (void)state;
    assert_int_equal(orr_command_completion(&settings), EXIT_USAGE);
}

int main(void)
{
#define TEST(f, kind) cmocka_unit_test_setup_teardown(f, print_##kind, take_away)
    const struct CMUnitTest tests[] = {
        TEST(bash_knows_all_of_it, bash), TEST(zsh_knows_all_of_it, zsh),
        TEST(fish_knows_all_of_it, fish), TEST(man_knows_all_of_it, man),
        TEST(bash_parses_it, bash),       TEST(zsh_parses_it, zsh),
        TEST(fish_parses_it, fish),       TEST(groff_has_nothing_to_say, man),
        TEST(bash_completes_words, bash), cmocka_unit_test(an_unknown_kind_is_refused),
    };
#undef TEST
    return cmocka_run_group_tests_name("completion", tests, NULL, NULL);
}
