/* SPDX-License-Identifier: Apache-2.0 */
#include "io/archive/archive.h"

#include <string.h>

#include "base/printable.h"

/* What can be told of archives without libarchive: what one is, and which names are refused. */

static bool is_zip(const uint8_t *b, size_t n)
{
    /* A member, or the end of an archive without any. */
    return n >= 4 && (memcmp(b, "PK\3\4", 4) == 0 || memcmp(b, "PK\5\6", 4) == 0);
}

bool orr_archive_is(const uint8_t *bytes, size_t n)
{
    enum { MAGIC_AT = 257 };
    return is_zip(bytes, n) || (n >= 512 && memcmp(bytes + MAGIC_AT, "ustar", 5) == 0);
}

const char *orr_archive_name_fault(const char *name)
{
    if (name[0] == '/' || name[0] == '\\' || (name[0] != '\0' && name[1] == ':'))
        return "its name is not relative to the archive";
    for (const char *at = name; *at != '\0'; at += orr_code_point_bytes(at))
        if (orr_unprintable_bytes(at) > 0)
            return "its name has characters that cannot be printed";
    for (const char *part = name; part != NULL;) {
        const char *slash = strpbrk(part, "/\\");
        const size_t n = slash != NULL ? (size_t)(slash - part) : strlen(part);
        if (n == 2 && part[0] == '.' && part[1] == '.')
            return "its name leaves the archive";
        part = slash != NULL ? slash + 1 : NULL;
    }
    return name[0] == '\0' ? "it has no name" : NULL;
}
