/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"

#include <string.h>

const orr_command orr_commands[] = {
    {"analyze", "where did the time of a recorded job go", "TRACE...",
     "Reads the recordings of all ranks of a job and prints what they say: breakdown of time, "
     "kernels, idle time by cause, communication and how much of it is exposed, and the "
     "critical path.\n"
     "A TRACE is a file, a directory or a glob; the files of a rank are found by themselves, and "
     "a host trace (PyTorch execution trace) is linked to the device trace (Kineto) of its rank. "
     "\"-\" is standard input.",
     "orrery analyze traces/\n"
     "orrery analyze --html report.html rank*.json.gz\n"
     "orrery analyze --only critical_path,idle_time_breakdown --format json traces/\n"
     "orrery analyze --fail-if 'temporal_breakdown.idle_frac>0.3' traces/",
     1, SIZE_MAX, orr_command_analyze},
    {"convert", "write a recording in another format", "TRACE... -o OUTPUT",
     "Writes Chakra execution traces (.et), Perfetto (.pftrace) or Chrome JSON (.json), by the "
     "ending of OUTPUT or by --to; .gz or .zst compresses. Host and device traces of a rank are "
     "linked first, and the match rate is printed.\n"
     "With several ranks OUTPUT is a directory, or a pattern in which %r stands for the rank; "
     "Perfetto and Chrome files can hold all ranks in one.",
     "orrery convert traces/ -o et/ --to chakra\n"
     "orrery convert rank0.json.gz -o rank0.et\n"
     "orrery convert traces/ -o all.pftrace",
     1, SIZE_MAX, orr_command_convert},
    {"diff", "compare two recorded jobs", "BEFORE AFTER",
     "Compares two jobs operator by operator and kernel by kernel: what was added, what is gone, "
     "what takes longer. Jobs of different numbers of ranks or steps are compared per rank "
     "and step with --normalise.",
     "orrery diff monday/ tuesday/\n"
     "orrery diff --format csv --all monday/ tuesday/",
     2, 2, orr_command_diff},
    {"info", "what is in a file", "TRACE...",
     "Prints format, version, rank, number of nodes by kind, lanes, process groups, steps and "
     "what the reader had to let pass.",
     "orrery info rank0.json.gz\n"
     "orrery info --format json traces/",
     1, SIZE_MAX, orr_command_info},
    {"validate", "check recordings, file by file and as a job", "TRACE...",
     "Reads each file strictly and says what is wrong with it, then checks the job: missing "
     "ranks, unmatched collectives, links between host and device traces. Exit status 3 when a "
     "file cannot be read, 1 when the job has faults, 0 when all is well.",
     "orrery validate traces/\n"
     "orrery validate --tolerant traces/",
     1, SIZE_MAX, orr_command_validate},
    {"demo", "analyse the bundled example", "[EXAMPLE]",
     "Analyses one of the recordings that come with Orrery: two ranks of a small transformer, "
     "unless EXAMPLE names another; \"list\" lists them.",
     "orrery demo\n"
     "orrery demo --html demo.html\n"
     "orrery demo moe_gloo_w2",
     0, 1, orr_command_demo},
    {"completion", "print completions for a shell, or the man page", "bash|zsh|fish|man",
     "Everything printed comes from the tables that the command itself runs on.",
     "orrery completion bash > /etc/bash_completion.d/orrery\n"
     "orrery completion man | man -l -",
     1, 1, orr_command_completion},
};
const size_t orr_commands_n = sizeof orr_commands / sizeof *orr_commands;

const orr_command *orr_command_find(const char *name)
{
    for (size_t i = 0; i < orr_commands_n; i++)
        if (strcmp(orr_commands[i].name, name) == 0)
            return &orr_commands[i];
    return NULL;
}
