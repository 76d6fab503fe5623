/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_BASE_PROGRESS_H
#define ORR_BASE_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

/* Progress meter: one line of a terminal, written over again and again, and gone at the
 * end. Work of less than two seconds is never seen to have one. Plain struct on the caller's stack.
 * Threads: one at a time. */
typedef struct orr_progress {
    const char *what; /* "reading"; borrowed */
    bool bytes;       /* of the unit: bytes, else things */
    int fd;           /* -1: silent */
    const orr_clock *clock;
    int64_t start_ns, next_ns; /* when it began, when to draw next */
    bool drawn;
} orr_progress;

/* Silent when `quiet`, or when `fd` is not a terminal. `clock` NULL: monotonic. */
void orr_progress_init(orr_progress *p, const char *what, bool bytes, int fd, bool quiet,
                       const orr_clock *clock);
/* `total` 0: not known. Cheap enough to be called for every record. */
void orr_progress_update(orr_progress *p, uint64_t done, uint64_t total);
/* For a line of one's own: is it time for one, and since when does the work go on? Then say it. */
bool orr_progress_due(orr_progress *p, int64_t *ret_elapsed_ns);
void orr_progress_say(orr_progress *p, const char *line);
/* Take the line away. */
void orr_progress_done(orr_progress *p);

/* The line as it would be drawn, at most `room` - 1 characters: "reading  42 %  120 MiB of 286
 * MiB  310 MB/s  0:03 left". */
void orr_progress_line(const orr_progress *p, uint64_t done, uint64_t total, int64_t elapsed_ns,
                       char *out, size_t room);

#endif /* ORR_BASE_PROGRESS_H */
