/* SPDX-License-Identifier: Apache-2.0 */
#include "report/page/svg.h"

#include <stdarg.h>
#include <stdio.h>

#include "report/page/html.h"

/* Hues of neighbouring stages lie far apart on the colour circle. */
enum { HUE = 210, HUE_STEP = 47 };

void orr_svg_open(orr_output *out, const char *label, int height)
{
    orr_output_printf(out,
                      "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"%s\">"
                      "<svg class=\"picture\" xmlns=\"http://www.w3.org/2000/svg\" role=\"group\" "
                      "aria-label=\"%s\" viewBox=\"0 0 %d %d\" font-size=\"12\">\n",
                      label, label, ORR_SVG_WIDTH, height);
}

void orr_svg_close(orr_output *out)
{
    orr_output_text(out, "</svg></div>\n");
}

static void end_rect(orr_output *out, double x, double y, double w, double h, const char *words)
{
    orr_output_printf(out, " x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"", x, y,
                      w > 0.4 ? w : 0.4, h);
    if (words == NULL) {
        orr_output_text(out, "/>\n");
        return;
    }
    orr_output_text(out, "><title>");
    orr_html_text(out, words);
    orr_output_text(out, "</title></rect>\n");
}

void orr_svg_rect(orr_output *out, const char *class, double x, double y, double w, double h,
                  const char *words)
{
    orr_output_printf(out, "<rect class=\"%s\"", class);
    end_rect(out, x, y, w, h, words);
}

void orr_svg_stage(orr_output *out, uint32_t stage, double x, double y, double w, double h,
                   const char *words)
{
    orr_output_printf(out, "<rect class=\"stage\" style=\"--hue:%u\"",
                      (HUE + stage * HUE_STEP) % 360);
    end_rect(out, x, y, w, h, words);
}

void orr_svg_line(orr_output *out, const char *class, double x1, double y1, double x2, double y2)
{
    orr_output_printf(out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
                      class, x1, y1, x2, y2);
}

void orr_svg_text(orr_output *out, const char *class, orr_svg_anchor anchor, double x, double y,
                  const char *format, ...)
{
    static const char *const anchors[] = {[ORR_SVG_START] = "",
                                          [ORR_SVG_MIDDLE] = " text-anchor=\"middle\"",
                                          [ORR_SVG_END] = " text-anchor=\"end\""};
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    orr_output_text(out, "<text");
    if (*class != '\0')
        orr_output_printf(out, " class=\"%s\"", class);
    orr_output_printf(out, "%s x=\"%.2f\" y=\"%.1f\">", anchors[anchor], x, y);
    orr_html_text(out, text);
    orr_output_text(out, "</text>\n");
}
