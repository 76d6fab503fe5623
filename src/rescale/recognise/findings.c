/* SPDX-License-Identifier: Apache-2.0 */
#include "rescale/recognise/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *orr_findings_decimal(orr_findings *findings, uint64_t number)
{
    return orr_arena_printf(findings->arena, "%llu", (unsigned long long)number);
}

orr_status orr_findings_add(orr_findings *findings, const char *what, const char *value,
                            orr_confidence confidence, orr_error *err, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const size_t len = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    const orr_finding row = {
        .what = what,
        .value = value == NULL ? NULL : orr_arena_strndup(findings->arena, value, strlen(value)),
        .evidence = orr_arena_strndup(findings->arena, text, len),
        .confidence = (uint8_t)confidence};
    if (row.value == NULL || row.evidence == NULL || !orr_array_push(&findings->rows, row))
        return orr_fail_memory(err);
    return ORR_OK;
}

orr_status orr_findings_keep(orr_findings *findings, const orr_finding **ret, uint32_t *ret_n,
                             orr_error *err)
{
    orr_finding *rows = orr_arena_array(findings->arena, orr_finding, findings->rows.n);
    if (rows == NULL)
        return orr_fail_memory(err);
    if (findings->rows.n > 0)
        memcpy(rows, findings->rows.at, findings->rows.n * sizeof *rows);
    *ret = rows;
    *ret_n = (uint32_t)findings->rows.n;
    return ORR_OK;
}

void orr_findings_done(orr_findings *findings)
{
    orr_array_done(&findings->rows);
}
