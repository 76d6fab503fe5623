/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_PAGE_SVG_H
#define ORR_REPORT_PAGE_SVG_H

#include "io/stream/output.h"

/* Pictures of the pages. Each is a whole <svg>, ORR_SVG_WIDTH units wide, in a box that scrolls
 * sideways where the window is narrower than the picture can be read at. Colours are classes of
 * page.css. `words` of a mark (or NULL) are shown when it is pointed at or reached by keys. */
enum { ORR_SVG_WIDTH = 1400 };
typedef enum orr_svg_anchor { ORR_SVG_START, ORR_SVG_MIDDLE, ORR_SVG_END } orr_svg_anchor;

void orr_svg_open(orr_output *out, const char *label, int height);
void orr_svg_close(orr_output *out);
void orr_svg_rect(orr_output *out, const char *class, double x, double y, double w, double h,
                  const char *words);
/* A rectangle in the colour of a pipeline stage, the same in all pictures. */
void orr_svg_stage(orr_output *out, uint32_t stage, double x, double y, double w, double h,
                   const char *words);
void orr_svg_line(orr_output *out, const char *class, double x1, double y1, double x2, double y2);
ORR_PRINTF(6, 7)
void orr_svg_text(orr_output *out, const char *class, orr_svg_anchor anchor, double x, double y,
                  const char *format, ...);

#endif /* ORR_REPORT_PAGE_SVG_H */
