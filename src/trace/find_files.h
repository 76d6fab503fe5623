/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_FIND_FILES_H
#define ORR_TRACE_FIND_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <orrery/trace.h>

/* A recording: a file, or a member of an archive, whose path goes on behind the archive's
 * ("job.tgz/rank1.json") as if that were a folder. */
typedef struct orr_found_file {
    const char *path;    /* in the caller's arena */
    const char *archive; /* the archive's path, as long as the path; NULL: a file of its own */
    uint32_t place;      /* of the member in the archive                          */
    bool sequential;     /* is reached only by unpacking the members before it    */
    uint64_t bytes;      /* 0: not known ("-", a pipe)                            */
    dev_t device;        /* of the file, or of the archive ...                    */
    ino_t inode;
    size_t order; /* in which they were found */
} orr_found_file;

/* As orr_trace_find(), with what is known of each. */
orr_status orr_find_files(const char *const *paths, size_t n_paths, orr_arena *arena,
                          const orr_found_file **ret_files, size_t *ret_n_files,
                          orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_TRACE_FIND_FILES_H */
