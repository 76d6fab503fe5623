/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/rescale.h>

#define NAME_FUNCTION(function, type, MAP, ROW)                                                    \
    const char *function(type value)                                                               \
    {                                                                                              \
        static const char *const names[] = {MAP(ROW)};                                             \
        return (size_t)value < sizeof names / sizeof *names ? names[value] : "?";                  \
    }
#define TEXT_ROW(name, text) text,
NAME_FUNCTION(orr_confidence_name, orr_confidence, ORR_CONFIDENCE_MAP, TEXT_ROW)
NAME_FUNCTION(orr_phase_name, orr_phase, ORR_PHASE_MAP, TEXT_ROW)
NAME_FUNCTION(orr_dimension_name, orr_dimension, ORR_DIMENSION_MAP, TEXT_ROW)
