/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/xplane/hlo.h"

#include <string.h>

/* "all-reduce.3", "%all-reduce.3 = f32[] all-reduce(...)": the part before the number. */
static orr_text opcode_of(orr_text name)
{
    size_t n = 0;
    if (name.n > 0 && name.at[0] == '%')
        name = (orr_text){name.at + 1, name.n - 1};
    while (n < name.n && name.at[n] != '.' && name.at[n] != ' ')
        n++;
    return (orr_text){name.at, n};
}

static bool is(orr_text text, const char *word)
{
    return orr_text_equal(text, word, strlen(word));
}

const char *hlo_collective(orr_text name)
{
    static const struct {
        const char *opcode, *collective;
    } collectives[] = {
        {"all-reduce", "all_reduce"},
        {"all-gather", "all_gather"},
        {"reduce-scatter", "reduce_scatter"},
        {"all-to-all", "all_to_all"},
        {"ragged-all-to-all", "all_to_allv"},
        {"collective-broadcast", "broadcast"},
        {"send-done", "send"},
        {"recv-done", "recv"},
    };
    orr_text opcode = opcode_of(name);
    for (int ends = 0; ends < 2; ends++) {
        for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++)
            if (is(opcode, collectives[i].opcode))
                return collectives[i].collective;
        if (opcode.n <= 5 || memcmp(opcode.at + opcode.n - 5, "-done", 5) != 0)
            break;
        opcode.n -= 5;
    }
    return NULL;
}

bool hlo_is_control_flow(orr_text name, orr_text category)
{
    const orr_text word = category.n > 0 ? category : opcode_of(name);
    return is(word, "while") || is(word, "conditional") || is(word, "call");
}
