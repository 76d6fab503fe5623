/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_MODELS_PUBLISHED_JOB_H
#define ORR_CLI_MODELS_PUBLISHED_JOB_H

#include "cli/command/command.h"

/* Published jobs that `orrery demo` simulates, beside the published figure. NULL: no more. */
const char *orr_published_job_name(size_t i);
bool orr_published_job_known(const char *name);
int orr_published_job(const char *name, const orr_settings *settings); /* exit code */

#endif /* ORR_CLI_MODELS_PUBLISHED_JOB_H */
