/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "cost/calibration/parameters.h"
#include "io/stream/output.h"
#include "job_fit.h"

/* The files of catalog/calibrations, in the form that cost/calibration/file.c reads. */

static void write_number(orr_output *out, const char *key, double value)
{
    if (!isnan(value))
        orr_output_printf(out, ", %s: %.4g", key, value);
}

static void write_parameter(orr_output *out, const char *indent, const char *name,
                            const orr_calibration_parameter *p)
{
    orr_output_printf(out, "%s%s:\n%s  {value: %.4g", indent, name, indent, p->value);
    write_number(out, "low", p->low);
    write_number(out, "high", p->high);
    write_number(out, "prior", p->prior);
    if (p->yearly != 0)
        write_number(out, "yearly", p->yearly);
    if (p->until < ORR_SOFTWARE_NEWEST)
        orr_output_printf(out, ", until: %.6g", p->until);
    orr_output_printf(out, ", basis: %s", p->basis == ORR_BASIS_FITTED ? "fitted" : "assumed");
    if (p->at_bound)
        orr_output_text(out, ", at_bound: true");
    orr_output_printf(out, ",\n%s   prior_source: \"%s\",\n%s   rests_on: \"%s\"}\n", indent,
                      p->prior_source, indent, p->rests_on);
}

static orr_status open_file(const char *folder, const char *name, const char *about,
                            orr_output **ret, orr_error *err)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s.yaml", folder, name) >= (int)sizeof path)
        return orr_fail(err, ORR_INVALID, "the name of the folder is too long");
    ORR_TRY(orr_output_open(path, ret, err));
    orr_output_printf(*ret,
                      "# SPDX-License-Identifier: Apache-2.0\n# %s Fields: "
                      "include/orrery/calibration.h.\n# Made by `bench/jobs --fit`.\n",
                      about);
    return ORR_OK;
}

static orr_status close_file(orr_output *out, orr_error *err)
{
    const orr_status status = orr_output_finish(out, err);
    orr_output_close(out);
    return status;
}

static orr_status write_device(const orr_calibration *c, const char *folder, orr_error *err)
{
    orr_output *out;
    ORR_TRY(open_file(folder, c->name, "What jobs on this device reach.", &out, err));
    orr_output_printf(out, "device: %s\nbasis: %s\nsource: \"%s\"\n", c->name,
                      c->basis == ORR_BASIS_FITTED ? "fitted" : "assumed", c->source);
    if (c->widening > 1)
        orr_output_printf(out, "widening: %.3g\n", c->widening);
    for (int k = 0; k < ORR_CALIBRATION_FIELDS; k++)
        write_parameter(out, "", orr_calibration_ranges[k].name, &c->parameters[k]);
    return close_file(out, err);
}

static orr_status write_links(const orr_calibration *c, const char *folder, orr_error *err)
{
    orr_output *out;
    ORR_TRY(
        open_file(folder, "links", "What collectives reach on technologies of links.", &out, err));
    orr_output_text(out, "links:\n");
    for (uint32_t i = 0; i < c->n_links; i++) {
        const orr_link_rates *link = &c->links[i];
        orr_output_printf(out, "  \"%s\":\n", link->technology);
        write_parameter(out, "    ", "frac", &link->frac);
        write_parameter(out, "    ", "base_ns", &link->base_ns);
        if (link->reduction.value > 0)
            write_parameter(out, "    ", "reduction", &link->reduction);
    }
    return close_file(out, err);
}

static orr_status write_intervals(const orr_calibration *c, const char *folder, orr_error *err)
{
    orr_output *out;
    ORR_TRY(open_file(folder, "intervals",
                      "Measured over predicted, minus 1: where 90 % of rows of a kind of job lie.",
                      &out, err));
    orr_output_text(out, "intervals:\n");
    for (int kind = 0; kind < ORR_JOB_KINDS; kind++) {
        const orr_error_interval *of = &c->intervals[kind];
        if (of->rows > 0)
            orr_output_printf(out, "  %s: {low: %.4g, high: %.4g, error: %.4g, rows: %u}\n",
                              orr_job_kind_name((orr_job_kind)kind), of->low_frac, of->high_frac,
                              of->error_frac, of->rows);
    }
    return close_file(out, err);
}

orr_status job_fit_write(const job_fit *fit, const char *folder, orr_error *err)
{
    for (size_t d = 0; d < fit->world->n_devices; d++)
        ORR_TRY(write_device(&fit->world->devices[d].calibration, folder, err));
    if (fit->world->n_devices == 0)
        return ORR_OK;
    const orr_calibration *any = &fit->world->devices[0].calibration;
    ORR_TRY(write_links(any, folder, err));
    return any->intervals != NULL ? write_intervals(any, folder, err) : ORR_OK;
}
