/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_SERVE_METRICS_H
#define ORR_ENGINE_SERVE_METRICS_H

#include "io/stream/output.h"

/* Prometheus' text format, version 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats). */

/* What stands above the samples of a family. */
void orr_metric_head(orr_output *out, const char *name, const char *type, const char *help);
/* name{labels} value; `labels` NULL: none. */
void orr_metric(orr_output *out, const char *name, const char *labels, double value);
/* The value of a label, within its quotes. */
void orr_metric_label(orr_output *out, const char *text);

#endif /* ORR_ENGINE_SERVE_METRICS_H */
