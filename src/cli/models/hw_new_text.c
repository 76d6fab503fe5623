/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "cli/models/hw_new.h"
#include "report/humanize/human.h"

static const char *if_assumed(const orr_hw_new *made, enum orr_hw_answer answer)
{
    return made->assumed[answer] ? " (assumed)" : "";
}

static void write_device(const orr_hw_new *made, orr_output *out)
{
    const orr_device *d = made->device;
    const double tflops = orr_fact_or(&d->peak_flops[ORR_DTYPE_BF16],
                                      orr_fact_or(&d->peak_flops[ORR_DTYPE_FP16], NAN)) /
                          1e12;
    char buf[ORR_HUMAN_MAX];
    orr_output_printf(out, "    device: %s  #%s", d->name, if_assumed(made, ORR_HW_DEVICE));
    if (!isnan(d->memory_bytes.value))
        orr_output_printf(out, " %s;", orr_human_bytes(buf, d->memory_bytes.value));
    if (!isnan(tflops))
        orr_output_printf(out, " %g TFLOPS;", tflops);
    if (!isnan(d->price_per_hour.value))
        orr_output_printf(out, " %g USD an hour;", d->price_per_hour.value);
    orr_output_text(out, " `orrery hw` lists devices\n");
}

/* "technology: NVLink4" or "bandwidth: 400Gbps, kind: scale-out". */
static void write_join(const orr_hw_join *join, const char *kind, orr_output *out)
{
    if (join->link != NULL)
        orr_output_printf(out, ", technology: \"%s\"", join->link->name);
    if (join->bandwidth != NULL)
        orr_output_printf(out, ", bandwidth: %s", join->bandwidth);
    if (join->link == NULL || strcmp(join->link->kind, kind) != 0)
        orr_output_printf(out, ", kind: %s", kind);
}

static void write_remark(const orr_hw_new *made, const orr_hw_join *join, enum orr_hw_answer answer,
                         orr_output *out)
{
    char buf[ORR_HUMAN_MAX];
    orr_output_text(out, "}  #");
    if (join->link != NULL && join->bandwidth == NULL)
        orr_output_printf(out, " %s a device, one way",
                          orr_human_bytes_per_s(buf, join->link->bytes_per_s.value));
    else
        orr_output_text(out, " of a device, one way");
    orr_output_printf(out, "%s\n", if_assumed(made, answer));
}

static void write_host(const orr_hw_new *made, orr_output *out)
{
    const orr_level *pattern = made->pattern;
    orr_output_printf(out, "      - {name: %s, size: %u", pattern != NULL ? pattern->name : "host",
                      made->per_host);
    if (pattern != NULL && pattern->topology != ORR_TOPOLOGY_SWITCH)
        orr_output_printf(out, ", topology: %s", orr_topology_name(pattern->topology));
    write_join(&made->link, "scale-up", out);
    if (pattern != NULL && pattern->in_network_reduction && made->link.link != NULL &&
        strcmp(pattern->technology, made->link.link->name) == 0)
        orr_output_text(out, ", in_network_reduction: true");
    write_remark(made, &made->link, ORR_HW_LINK, out);
}

static void write_network(const orr_hw_new *made, uint32_t size, orr_output *out)
{
    orr_output_printf(out, "      - {name: %s, size: %u", made->buildings > 1 ? "building" : "pod",
                      size);
    write_join(&made->network, "scale-out", out);
    if (made->network.link == NULL || isnan(made->network.link->latency_ns.value))
        orr_output_text(out, ", latency: 10us");
    write_remark(made, &made->network, ORR_HW_NETWORK, out);
    orr_output_text(out, "        # also: oversubscription: 1:2; in_network_reduction: true; "
                         "latencies of 10us are assumed\n");
}

/* Single devices to a host have nothing in it that joins them. */
static void write_levels(const orr_hw_new *made, orr_output *out)
{
    const uint32_t in_building = made->gpus / made->per_host / made->buildings;
    const bool lone = made->per_host == 1 && made->gpus > 1;
    orr_output_text(out, "    levels:  # from the inside out; sizes multiply\n");
    if (!lone)
        write_host(made, out);
    if (lone || in_building > 1)
        write_network(made, in_building, out);
}

static void write_sites(const orr_hw_new *made, orr_output *out)
{
    orr_output_text(out,
                    "    sites:  # buildings; each may have a device and a price of its own\n");
    for (uint32_t b = 1; b <= made->buildings; b++)
        orr_output_printf(out, "      - {name: building%u, region: here, devices: %u}\n", b,
                          made->gpus / made->buildings);
    orr_output_printf(out, "    cuts:\n      - {between: sites, distance: %s", made->distance);
    if (made->network.link != NULL)
        orr_output_printf(out, ", technology: \"%s\"", made->network.link->name);
    if (made->network.bandwidth != NULL)
        orr_output_printf(out, ", bandwidth: %s", made->network.bandwidth);
    orr_output_printf(out,
                      "}  # light in fibre takes 5 us/km%s\n        # also: oversubscription: "
                      "1:4, where fewer links join buildings than devices have; price: USD a GB\n",
                      if_assumed(made, ORR_HW_DISTANCE));
}

void orr_hw_new_write(const orr_hw_new *made, orr_output *out)
{
    orr_output_printf(out,
                      "# %u devices, %u to a host%s: a start by `orrery hw --new`, for `-c` of "
                      "orrery simulate and explore.\n"
                      "# `orrery hw FILE` shows what is understood of it; catalog/README.md has "
                      "all that it may say.\n"
                      "clusters:\n"
                      "  mine:\n",
                      made->gpus, made->per_host,
                      made->assumed[ORR_HW_GPUS] || made->assumed[ORR_HW_PER_HOST] ? " (assumed)"
                                                                                   : "");
    write_device(made, out);
    write_levels(made, out);
    if (made->buildings > 1)
        write_sites(made, out);
}
