/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/option.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD(name) offsetof(orr_settings, name)

const orr_option orr_options[] = {
    {"output", 'o', OPTION_TEXT, FIELD(output), "FILE", NULL, " analyze compare convert diff info fit hw models ops predict simulate ",
     "write to FILE instead of standard output"},
    {"format", 'f', OPTION_TEXT, FIELD(format), "FORMAT", "table|json|csv|md",
     " analyze compare diff info demo hw fit models ops predict simulate ", "how tables are printed; default: table"},
    {"html", 0, OPTION_TEXT, FIELD(html), "FILE", NULL, " analyze compare demo predict simulate ",
     "write the report as one self-contained page"},
    {"only", 0, OPTION_TEXT, FIELD(only), "NAMES", NULL, " analyze demo ",
     "only these analyses, by name, separated by commas; \"list\" lists them"},
    {"all", 'a', OPTION_FLAG, FIELD(all), NULL, NULL, " analyze diff demo hw models ops predict simulate ",
     "every analysis, every row, every column"},
    {"rank", 'r', OPTION_NUMBER, FIELD(rank), "RANK", NULL, " analyze ", "only this rank"},
    {"step", 's', OPTION_TEXT, FIELD(step), "A[:B]", NULL, " analyze ",
     "only these instances of the step annotation, counted from 0"},
    {"annotation", 0, OPTION_TEXT, FIELD(annotation), "NAME", NULL, " analyze diff demo predict ",
     "what bounds a step; default: ProfilerStep"},
    {"operator", 0, OPTION_TEXT, FIELD(op), "NAME", NULL, " analyze ",
     "the operator whose frequent kernel sequences are wanted"},
    {"path", 0, OPTION_TEXT, FIELD(path), "RULES", "walk|hta", " analyze demo ",
     "how the critical path of a rank is found: by walking back along what was waited for "
     "(default), or as HolisticTraceAnalysis does"},
    {"top", 'n', OPTION_NUMBER, FIELD(top), "N", NULL, " analyze diff demo predict ",
     "rows shown of a table, and kernels named before the others are summed up; default: 10"},
    {"fail-if", 0, OPTION_TEXT, FIELD(fail_if), "CONDITION", NULL, " analyze ",
     "exit with status 1 when a row holds: TABLE.COLUMN, one of < <= > >= == !=, a number with or "
     "without unit"},
    {"normalise", 0, OPTION_FLAG, FIELD(normalise), NULL, NULL, " diff ",
     "compare times per rank and step"},
    {"gpu", 0, OPTION_TEXT, FIELD(gpu), "DEVICE", NULL, " predict ",
     "on this device: kernels change by the ratio of what the cost models say"},
    {"network", 0, OPTION_TEXT, FIELD(network), "CLUSTER", NULL, " predict ",
     "communication over this cluster: a name of the catalogue, or a file"},
    {"algorithm", 0, OPTION_TEXT, FIELD(algorithm), "NAME",
     "auto|ring|tree|recursive_doubling|halving_doubling|direct|hierarchical|in_network",
     " compare predict simulate ", "how collectives go; default: the cheapest"},
    {"contention", 0, OPTION_FLAG, FIELD(contention), NULL, NULL, " compare predict simulate ",
     "transfers that overlap share the links of the network fairly, instead of closed forms"},
    {"scale", 0, OPTION_TEXT, FIELD(scale), "NAME=F,...", NULL, " predict ",
     "kernels whose name holds NAME take F times as long"},
    {"remove", 0, OPTION_TEXT, FIELD(remove), "NAME,...", NULL, " predict ",
     "kernels whose name holds NAME take no time"},
    {"overlap", 0, OPTION_TEXT, FIELD(overlap), "F[:G]", NULL, " predict ",
     "computation takes F times as long while its device communicates (1.09 was seen on an A100), "
     "and communication G times; default: as recorded"},
    {"host-speed", 0, OPTION_TEXT, FIELD(host_speed), "F", NULL, " predict ",
     "host threads are F times as fast"},
    {"launch-latency", 0, OPTION_TEXT, FIELD(launch_latency), "TIME", NULL, " predict ",
     "from a launch call to its kernel on an idle stream; default: as recorded"},
    {"straggler", 0, OPTION_TEXT, FIELD(straggler), "RANK:Fx,...", NULL, " compare predict simulate ",
     "device work of this rank takes F times as long"},
    {"message-bytes", 0, OPTION_TEXT, FIELD(message_bytes), "F", NULL, " predict ",
     "messages are F times as large"},
    {"batch", 0, OPTION_TEXT, FIELD(batch), "F", NULL, " predict ",
     "the batch is F times as large"},
    {"cuda-graph", 0, OPTION_FLAG, FIELD(cuda_graph), NULL, NULL, " predict ",
     "each step is launched as one graph: launch gaps, and what the host does in between, are gone"},
    {"ranks", 0, OPTION_NUMBER, FIELD(ranks), "N", NULL, " predict ",
     "this many ranks, by more or fewer data-parallel replicas"},
    {"traced", 0, OPTION_TEXT, FIELD(traced), "PLAN", NULL, " predict ",
     "the plan that was traced: \"dp=4,tp=2\"; default: recognised"},
    {"plan", 0, OPTION_TEXT, FIELD(plan), "PLAN", NULL, " compare predict simulate ",
     "predict: rescale to this plan: any of dp, tp, pp, layers, hidden, ffn, seq, micro_batches; simulate: "
     "how the job is spread and scheduled, as tp=8,pp=16,dp=128,micro_batches=16"},
    {"model", 'm', OPTION_TEXT, FIELD(model), "MODEL", NULL, " compare ",
     "what A and B train or serve, where they do not say it"},
    {"cluster", 'c', OPTION_TEXT, FIELD(cluster), "CLUSTER", NULL, " compare simulate ",
     "the machine: a name of the catalogue, or a file"},
    {"task", 0, OPTION_TEXT, FIELD(task), "TASK", "pretrain|sft|lora|dpo|rl|prefill|decode",
     " compare simulate ", "what is done with the model; default: pretrain"},
    {"prompt", 0, OPTION_NUMBER, FIELD(prompt), "N", NULL, " compare simulate ",
     "tokens of a prompt: of prefill, decode and rl"},
    {"generated", 0, OPTION_NUMBER, FIELD(generated), "N", NULL, " compare simulate ",
     "tokens generated for a prompt: of decode and rl"},
    {"lora-rank", 0, OPTION_NUMBER, FIELD(lora_rank), "N", NULL, " compare simulate ",
     "rank of the adapters of --task lora; default: 16"},
    {"images", 0, OPTION_NUMBER, FIELD(images), "N", NULL, " compare simulate ",
     "pictures a sample, of models that see"},
    {"expert-load", 0, OPTION_TEXT, FIELD(expert_load), "FILE", NULL, " compare simulate ",
     "a trace of which experts were chosen, as CSV; default: all alike"},
    {"detail", 0, OPTION_TEXT, FIELD(detail), "DETAIL", "chunk|layer|operator", " compare simulate ",
     "how finely a step is built; default: layer"},
    {"calibration", 0, OPTION_TEXT, FIELD(calibration), "FILE", NULL, " compare simulate ",
     "what the device reaches in whole jobs; default: as fitted for its type"},
    {"mixed", 0, OPTION_TEXT, FIELD(mixed), "FIRST-LAST:DEVICE,...", NULL, " compare simulate ",
     "these ranks run on another device"},
    {"slow-link", 0, OPTION_TEXT, FIELD(slow_link), "LEVEL:UNIT:SHARE,...", NULL, " compare simulate ",
     "a unit of a level of the cluster has this share of its bandwidth, as building:0:0.5"},
    {"ranks-as-trace", 0, OPTION_TEXT, FIELD(ranks_as_trace), "FOLDER", NULL, " simulate ",
     "also write a Chakra trace of every rank and its process groups, as ASTRA-sim reads them"},
    {"explain", 0, OPTION_FLAG, FIELD(explain), NULL, NULL, " predict ",
     "list where the replay differs most from the recording, and why"},
    {"unfolded", 0, OPTION_FLAG, FIELD(unfolded), NULL, NULL, " compare predict simulate ",
     "simulate each rank for itself, also where ranks behave alike"},
    {"trace", 0, OPTION_TEXT, FIELD(trace), "FILE", NULL, " predict simulate ",
     "write the simulated job as a trace, recorded and simulated lanes one above the other: .pftrace or .json"},
    {"cost", 0, OPTION_TEXT, FIELD(cost), "FILE", NULL, " predict ",
     "cost model made by `orrery fit`"},
    {"kind", 0, OPTION_TEXT, FIELD(kind), "KIND", NULL, " hw fit ",
     "hw: devices, links, memory or clusters; fit: table, learned or both (default)"},
    {"device", 0, OPTION_TEXT, FIELD(device), "DEVICE", NULL, " fit predict ",
     "what was recorded or measured; default: as the recording says"},
    {"seed", 0, OPTION_TEXT, FIELD(seed), "N", NULL, " fit ",
     "of the split into fitted and held-out shapes; default: 1"},
    {"overheads", 0, OPTION_TEXT, FIELD(overheads), "FILE", NULL, " fit ",
     "also write the host overheads T1 to T5, as CSV"},
    {"astra-system", 0, OPTION_TEXT, FIELD(astra_system), "FILE", NULL, " simulate ",
     "ASTRA-sim's system, JSON"},
    {"astra-network", 0, OPTION_TEXT, FIELD(astra_network), "FILE", NULL, " simulate ",
     "ASTRA-sim's analytical network, YAML"},
    {"comm-groups", 0, OPTION_TEXT, FIELD(comm_groups), "FILE", NULL, " simulate ",
     "ASTRA-sim's communication groups, JSON"},
    {"workload", 0, OPTION_TEXT, FIELD(workload), "PREFIX", NULL, " simulate ",
     "Chakra traces: PREFIX.0.et, PREFIX.1.et, ..."},
    {"compare", 0, OPTION_FLAG, FIELD(compare), NULL, NULL, " simulate ",
     "also what Orrery's own model says"},
    {"to", 't', OPTION_TEXT, FIELD(to), "FORMAT", "chakra|perfetto|chrome", " convert ",
     "format to write; default: by the ending of OUTPUT"},
    {"from", 0, OPTION_TEXT, FIELD(from), "FORMAT", "kineto|pytorch-et|chakra|chakra-json",
     " analyze convert diff info validate fit predict ", "format to read; default: by content"},
    {"tolerant", 0, OPTION_FLAG, FIELD(tolerant), NULL, NULL,
     " analyze convert diff info validate fit predict ",
     "let pass what real tracers get wrong (truncated tail, control characters, missing commas, "
     "NaN, bad UTF-8), and count it"},
    {"threads", 'j', OPTION_NUMBER, FIELD(threads), "N", NULL,
     " analyze compare convert diff info validate fit predict simulate ", "files read, or ranks simulated, at once; default: one per core"},
    {"color", 0, OPTION_TEXT, FIELD(color), "WHEN", "auto|always|never", NULL,
     "colour in tables; default: auto, which NO_COLOR turns off"},
    {"quiet", 'q', OPTION_FLAG, FIELD(quiet), NULL, NULL, NULL, "no progress and no remarks"},
    {"verbose", 'v', OPTION_FLAG, FIELD(verbose), NULL, NULL, NULL, "say what was read and how"},
    {"help", 'h', OPTION_FLAG, FIELD(help), NULL, NULL, NULL, "print help and exit"},
    {"version", 0, OPTION_FLAG, FIELD(version), NULL, NULL, NULL, "print the version and exit"},
};
const size_t orr_options_n = sizeof orr_options / sizeof *orr_options;

bool orr_option_applies(const orr_option *option, const orr_command *command)
{
    char word[64];

    if (!option->commands)
        return true;
    if (!command)
        return false;
    snprintf(word, sizeof word, " %s ", command->name);
    return strstr(option->commands, word) != NULL;
}

void orr_option_environment(const orr_option *option, char *name, size_t size)
{
    snprintf(name, size, "ORRERY_%s", option->name);
    for (char *c = name; *c; c++)
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}

static bool is_choice(const char *choices, const char *value)
{
    const size_t len = strlen(value);

    for (const char *at = choices; at;) {
        const char *bar = strchr(at, '|');
        const size_t n = bar ? (size_t)(bar - at) : strlen(at);
        if (n == len && memcmp(at, value, n) == 0)
            return true;
        at = bar ? bar + 1 : NULL;
    }
    return false;
}

/* `from` says where the value stood, for the error: "--rank" or "ORRERY_RANK". */
static orr_status set_value(const orr_option *option, const char *from, const char *value,
                            orr_settings *settings, orr_error *err)
{
    char *field = (char *)settings + option->offset;
    char *end;

    switch (option->kind) {
    case OPTION_FLAG:
        *(bool *)field = true;
        return ORR_OK;
    case OPTION_TEXT:
        if (option->choices && !is_choice(option->choices, value))
            return orr_fail(err, ORR_INVALID, "%s: '%s' is not one of %s", from, value,
                            option->choices);
        *(const char **)field = value;
        return ORR_OK;
    case OPTION_NUMBER:
        errno = 0;
        *(int64_t *)field = strtoll(value, &end, 10);
        if (end == value || *end || errno || *(int64_t *)field < 0)
            return orr_fail(err, ORR_INVALID, "%s: '%s' is not a whole number of 0 or more", from,
                            value);
        return ORR_OK;
    }
    return ORR_OK;
}

static orr_status read_environment(const orr_command *command, orr_settings *settings,
                                   orr_error *err)
{
    for (const orr_option *o = orr_options; o < orr_options + orr_options_n; o++) {
        char name[64];
        orr_option_environment(o, name, sizeof name);
        const char *value = getenv(name);
        if (!value || !*value || !orr_option_applies(o, command) || o->offset == FIELD(help) ||
            o->offset == FIELD(version) || (o->kind == OPTION_FLAG && strcmp(value, "0") == 0))
            continue;
        ORR_TRY(set_value(o, name, value, settings, err));
    }
    return ORR_OK;
}

static orr_status unknown_option(const char *word, const orr_command *command, orr_error *err)
{
    const char *names[64];
    size_t n = 0;

    for (size_t i = 0; i < orr_options_n && n < 64; i++)
        if (orr_option_applies(&orr_options[i], command))
            names[n++] = orr_options[i].name;
    const char *close = strncmp(word, "--", 2) == 0 ? orr_closest(word + 2, names, n) : NULL;
    return close ? orr_fail(err, ORR_INVALID, "no option %s; did you mean --%s?", word, close)
                 : orr_fail(err, ORR_INVALID, "no option %s here; see --help", word);
}

static const orr_option *find_long(const char *name, size_t len, const orr_command *command)
{
    for (const orr_option *o = orr_options; o < orr_options + orr_options_n; o++)
        if (strlen(o->name) == len && memcmp(o->name, name, len) == 0 &&
            orr_option_applies(o, command))
            return o;
    return NULL;
}

static const orr_option *find_letter(char letter, const orr_command *command)
{
    for (const orr_option *o = orr_options; o < orr_options + orr_options_n; o++)
        if (letter && o->letter == letter && orr_option_applies(o, command))
            return o;
    return NULL;
}

/* One word that begins with '-': "--name", "--name=value", "-x", "-xvalue"; *at moves past a value
 * that is the next word. */
static orr_status parse_option(int argc, char **argv, int *at, const orr_command *command,
                               orr_settings *settings, orr_error *err)
{
    const char *word = argv[*at], *value = NULL;
    const bool is_long = word[1] == '-';
    const char *equals = is_long ? strchr(word, '=') : NULL;
    const orr_option *o;

    if (is_long)
        o = find_long(word + 2, equals ? (size_t)(equals - word - 2) : strlen(word + 2), command);
    else
        o = find_letter(word[1], command);
    if (!o)
        return unknown_option(word, command, err);
    if (equals)
        value = equals + 1;
    else if (!is_long && word[2])
        value = word + 2;
    if (o->kind == OPTION_FLAG && value)
        return orr_fail(err, ORR_INVALID, "--%s takes no value", o->name);
    if (o->kind != OPTION_FLAG && !value) {
        if (*at + 1 >= argc)
            return orr_fail(err, ORR_INVALID, "--%s needs a %s", o->name, o->value);
        value = argv[++*at];
    }
    return set_value(o, word, value, settings, err);
}

orr_status orr_options_parse(int argc, char **argv, const orr_command *command,
                             orr_settings *settings, orr_error *err)
{
    int n_inputs = 0;

    *settings = (orr_settings){.format = "table", .color = "auto", .rank = -1, .top = 10};
    ORR_TRY(read_environment(command, settings, err));
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            while (++i < argc)
                argv[n_inputs++] = argv[i];
        } else if (argv[i][0] == '-' && argv[i][1]) {
            ORR_TRY(parse_option(argc, argv, &i, command, settings, err));
        } else {
            argv[n_inputs++] = argv[i];
        }
    }
    settings->args = (const char *const *)argv;
    settings->n_args = (size_t)n_inputs;
    return ORR_OK;
}
