/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_STATUS_H
#define ORR_STATUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ORR_API          __attribute__((visibility("default")))
#define ORR_MUST_CHECK   __attribute__((warn_unused_result))
#define ORR_PRINTF(a, b) __attribute__((format(printf, a, b)))
#else
#define ORR_API
#define ORR_MUST_CHECK
#define ORR_PRINTF(a, b)
#endif

/* How every function of the library that can fail says so.
 *
 * One list feeds the enum, orr_status_name() and orr_status_text(). */
#define ORR_STATUS_MAP(X)                                                                          \
    X(OK, 0, "success")                                                                            \
    X(NO_MEMORY, 1, "out of memory")                                                               \
    X(INVALID, 2, "the argument or the data breaks the contract")                                  \
    X(IO, 3, "the operating system refused a read or a write")                                     \
    X(PARSE, 4, "the input is not of the stated format")                                           \
    X(UNSUPPORTED, 5, "valid, but not built in")                                                   \
    X(NOT_FOUND, 6, "no such element")                                                             \
    X(LIMIT, 7, "a limit was reached")                                                             \
    X(CANCELED, 8, "the caller asked to stop")

typedef enum orr_status {
#define ORR_STATUS_ENUM_(name, value, text) ORR_##name = value,
    ORR_STATUS_MAP(ORR_STATUS_ENUM_)
#undef ORR_STATUS_ENUM_
} orr_status;

/* What went wrong, for a person. The function that decides that there is an
 * error fills it; callers above pass it on. Lives on the caller's stack and
 * needs no freeing. */
typedef struct orr_error {
    orr_status status;
    int os_errno;     /* errno at the failure, or 0                        */
    const char *file; /* source file that decided; static storage          */
    int line;
    uint64_t byte_pos; /* offset in the decompressed input; UINT64_MAX none */
    char text[512];    /* one line, NUL-terminated, no trailing newline    */
} orr_error;

/* "PARSE" and "the input is not of the stated format". Never NULL, static. */
ORR_API const char *orr_status_name(orr_status status);
ORR_API const char *orr_status_text(orr_status status);

/* Fill `err` (may be NULL) and return `status`, so that a failure reads as one
 * statement:  return orr_fail(err, ORR_PARSE, "rank %d is not known", r);
 * Control characters in the result are replaced, so the text is one line. */
#define orr_fail(err, status, ...)                                                                 \
    orr_fail_at_((err), (status), UINT64_MAX, __FILE__, __LINE__, __VA_ARGS__)
/* The same with the byte of the input where it happened. */
#define orr_fail_byte(err, status, byte_pos, ...)                                                  \
    orr_fail_at_((err), (status), (byte_pos), __FILE__, __LINE__, __VA_ARGS__)
ORR_API orr_status orr_fail_at_(orr_error *err, orr_status status, uint64_t byte_pos,
                                const char *file, int line, const char *format, ...)
    ORR_PRINTF(6, 7);

/* Out of memory, as one statement: return orr_fail_memory(err); */
#define orr_fail_memory(err) orr_fail((err), ORR_NO_MEMORY, "out of memory")

/* Put "prefix: " before the text of an error that is passed up, e.g. the name
 * of the file that a reader was working on. */
ORR_API void orr_error_prefix(orr_error *err, const char *prefix);

/* Pass a failure up unchanged. */
#define ORR_TRY(expr)                                                                              \
    do {                                                                                           \
        const orr_status orr_try_status_ = (expr);                                                 \
        if (orr_try_status_ != ORR_OK)                                                             \
            return orr_try_status_;                                                                \
    } while (0)

/* The same in a function with one exit: status = ...; goto out. */
#define ORR_TRY_OUT(status_variable, expr)                                                         \
    do {                                                                                           \
        (status_variable) = (expr);                                                                \
        if ((status_variable) != ORR_OK)                                                           \
            goto out;                                                                              \
    } while (0)

#ifdef __cplusplus
}
#endif

#endif /* ORR_STATUS_H */
