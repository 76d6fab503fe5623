/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/serve/metrics.h"

#include <string.h>

#include "io/json/utf8.h"

void orr_metric_head(orr_output *out, const char *name, const char *type, const char *help)
{
    orr_output_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void orr_metric(orr_output *out, const char *name, const char *labels, double value)
{
    const char *open = labels != NULL ? "{" : "", *close = labels != NULL ? "}" : "";
    orr_output_printf(out, "%s%s%s%s %.17g\n", name, open, labels != NULL ? labels : "", close,
                      value);
}

/* Backslash, quote and newline escaped, what is not UTF-8 replaced. */
void orr_metric_label(orr_output *out, const char *text)
{
    const uint8_t *at = (const uint8_t *)text;
    for (size_t left = strlen(text); left > 0;) {
        const size_t n = orr_utf8_len(at, left);
        if (*at == '\\' || *at == '"')
            orr_output_printf(out, "\\%c", *at);
        else if (*at == '\n')
            orr_output_text(out, "\\n");
        else if (n == 0)
            orr_output_text(out, ORR_UTF8_REPLACEMENT);
        else
            orr_output_write(out, at, n);
        at += n > 0 ? n : 1;
        left -= n > 0 ? n : 1;
    }
}
