/* SPDX-License-Identifier: Apache-2.0 */
#include "base/closest.h"

#include <stdbool.h>
#include <string.h>

/* Damerau-Levenshtein distance of short words, at most `limit`. */
static unsigned distance(const char *a, const char *b, unsigned limit)
{
    enum { LONGEST = 63 };
    unsigned rows[3][LONGEST + 1];
    const size_t n = strlen(a), m = strlen(b);

    if (n > LONGEST || m > LONGEST)
        return limit;
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        unsigned *now = rows[i % 3];
        const unsigned *before = rows[(i + 2) % 3], *two_before = rows[(i + 1) % 3];
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned best = before[j - 1] + (a[i - 1] != b[j - 1]);
            if (before[j] + 1 < best)
                best = before[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                two_before[j - 2] + 1 < best)
                best = two_before[j - 2] + 1;
            now[j] = best;
        }
    }
    return rows[n % 3][m] < limit ? rows[n % 3][m] : limit;
}

const char *orr_closest_match(const char *word, const char *const *candidates, size_t n)
{
    unsigned best = (unsigned)strlen(word) / 3 + 2;
    const char *closest = NULL;

    for (size_t i = 0; i < n; i++) {
        const bool begins = *word && strncmp(word, candidates[i], strlen(word)) == 0;
        const bool within = strlen(word) >= 4 && strstr(candidates[i], word) != NULL;
        const unsigned d = begins ? 1 : within ? 2 : distance(word, candidates[i], best);
        if (d < best) {
            best = d;
            closest = candidates[i];
        }
    }
    return closest;
}
