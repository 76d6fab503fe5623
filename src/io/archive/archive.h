/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_ARCHIVE_ARCHIVE_H
#define ORR_IO_ARCHIVE_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <orrery/status.h>

/* Archives read member by member (libarchive, opened with the first archive): tar, plain or
 * compressed by gzip or zstd, and zip. Nothing is written to disk. An archive may come from
 * anywhere: members with absolute names or "..", and names that stand twice, are refused by who
 * lists them (orr_archive_name_fault); what unpacks to far more than its size is a LIMIT.
 *
 * Errors: IO, NO_MEMORY, PARSE (damaged or truncated: names the member), LIMIT, UNSUPPORTED
 * (encrypted; or no libarchive, at build or at run time). Texts do not begin with the path of the
 * archive. Threads: one at a time for an archive. */
typedef struct orr_archive orr_archive;

/* Whether the first bytes of a file, decompressed, announce an archive. A tar needs 512 of them. */
bool orr_archive_is(const uint8_t *bytes, size_t n);

orr_status orr_archive_open(const char *path, orr_archive **ret, orr_error *err) ORR_MUST_CHECK;
void orr_archive_close(orr_archive *archive); /* NULL is allowed */

typedef struct orr_archive_member {
    const char *name; /* without "./" before it; until the next one is asked for */
    uint64_t bytes;   /* unpacked; 0 where the archive does not say              */
    uint32_t place;   /* among all members, from 0                               */
    bool regular;     /* a file: no folder, link or device                       */
    bool encrypted;   /* cannot be read                                          */
} orr_archive_member;

/* The next member; *ret_end: there is none. */
orr_status orr_archive_next(orr_archive *archive, orr_archive_member *ret, bool *ret_end,
                            orr_error *err) ORR_MUST_CHECK;
/* Content of the member at hand; *ret_n is 0 at its end. */
orr_status orr_archive_read(orr_archive *archive, void *to, size_t room, size_t *ret_n,
                            orr_error *err) ORR_MUST_CHECK;
/* Whether a member can be reached only by unpacking what stands before it: a compressed tar. Known
 * after the first member. */
bool orr_archive_is_sequential(const orr_archive *archive);

/* What is wrong with a member's name, for "X is refused: ..."; NULL: nothing. */
const char *orr_archive_name_fault(const char *name);

#endif /* ORR_IO_ARCHIVE_ARCHIVE_H */
