/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_CHECKPOINT_MANIFEST_H
#define ORR_ENGINE_CHECKPOINT_MANIFEST_H

#include <stdint.h>

#include <orrery/arena.h>

/* The manifest of a checkpoint, written when all of its files are: the file `manifest` in the
 * folder of the step,
 *
 *   orrery.manifest/1 step 200
 *   rank-00000.safetensors 73912 0f3a...      its bytes, and the XXH3 (64 bits, hexadecimal) of its
 *   rank-00000.tables 1064960 77c1...         header: of safetensors the size and the JSON text, of
 *                                             tables the first page
 *
 * in the order of names. Headers have hashes of what follows them, so that whoever knows the hash
 * of the manifest (`latest` has it) can tell a changed bit anywhere, and a file of another run. */
#define ORR_MANIFEST_NAME "manifest"

/* Writes it for the files rank-* of the folder. Errors: IO; PARSE: a file without a header. */
orr_status orr_manifest_write(const char *folder, int64_t step, uint64_t *ret_hash,
                              orr_error *err) ORR_MUST_CHECK;
/* Whether it has the hash, and the folder its files with their headers. PARSE: what differs. */
orr_status orr_manifest_check(const char *folder, uint64_t hash, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_CHECKPOINT_MANIFEST_H */
