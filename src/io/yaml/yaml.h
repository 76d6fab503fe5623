/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_YAML_YAML_H
#define ORR_IO_YAML_YAML_H

#include <stdbool.h>
#include <stdint.h>

#include <orrery/arena.h>

/* A YAML document as a tree that remembers where each value stood, so that whoever knows what the
 * document should say can point at what is wrong. Parsed by libyaml.
 *
 * Bounded: at most 16 MiB of text, 1,000,000 values, 64 deep; aliases are refused (they let a few
 * lines unfold without end), tags and duplicate keys too. Errors: IO, LIMIT, NO_MEMORY, and PARSE
 * as "file:line:column: ...". Everything lives in the arena. Threads: any. */
typedef enum orr_yaml_kind { ORR_YAML_SCALAR, ORR_YAML_LIST, ORR_YAML_MAP } orr_yaml_kind;

typedef struct orr_yaml {
    uint8_t kind;          /* orr_yaml_kind */
    bool quoted;           /* a scalar written in quotes: text, even if it looks like a number */
    uint32_t line, column; /* from 1 */
    const char *text;      /* of a scalar, NUL-terminated */
    uint32_t n;            /* values of a list, pairs of a map */
    const struct orr_yaml *const *keys;   /* shape (n); NULL for a list */
    const struct orr_yaml *const *values; /* shape (n) */
    const char *file;                     /* for messages */
} orr_yaml;

orr_status orr_yaml_load(const char *path, orr_arena *arena, const orr_yaml **ret,
                         orr_error *err) ORR_MUST_CHECK;
/* `file`: how messages call it. */
orr_status orr_yaml_parse(const char *text, size_t len, const char *file, orr_arena *arena,
                          const orr_yaml **ret, orr_error *err) ORR_MUST_CHECK;

/* The value of a key of a map, or NULL. */
const orr_yaml *orr_yaml_find(const orr_yaml *map, const char *key);
/* Scalars as numbers. Errors: INVALID, with the position. */
orr_status orr_yaml_int(const orr_yaml *value, int64_t *ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_yaml_number(const orr_yaml *value, double *ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_yaml_bool(const orr_yaml *value, bool *ret, orr_error *err) ORR_MUST_CHECK;

/* "file:line:column: " and the text. */
orr_status orr_yaml_fail_(const orr_yaml *at, orr_status status, orr_error *err, const char *file,
                          int line, const char *format, ...) ORR_PRINTF(6, 7);
#define orr_yaml_fail(at, status, err, ...)                                                        \
    orr_yaml_fail_((at), (status), (err), __FILE__, __LINE__, __VA_ARGS__)

#endif /* ORR_IO_YAML_YAML_H */
