/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_MODELS_HW_NEW_H
#define ORR_CLI_MODELS_HW_NEW_H

#include "cli/command/session.h"
#include "machine/catalog/entries.h"

/* What joins the units of a level: a link of the catalogue, or a bandwidth alone. */
typedef struct orr_hw_join {
    const orr_link *link;
    const char *bandwidth; /* "400Gbps", as it was given; NULL: that of the link */
} orr_hw_join;

/* What a user's cluster is made of: answers of a person, options, or what the catalogue has. */
enum orr_hw_answer {
    ORR_HW_DEVICE,
    ORR_HW_GPUS,
    ORR_HW_PER_HOST,
    ORR_HW_LINK,
    ORR_HW_NETWORK,
    ORR_HW_BUILDINGS,
    ORR_HW_DISTANCE,
    ORR_HW_ANSWERS
};
typedef struct orr_hw_new {
    orr_session *session;
    const orr_catalog *catalog;
    const orr_device *device;
    const orr_level *pattern; /* how a cluster of the catalogue joins such devices, or NULL */
    uint32_t gpus, per_host, buildings;
    orr_hw_join link, network;
    const char *distance;
    bool assumed[ORR_HW_ANSWERS]; /* nobody said it */
} orr_hw_new;

/* The cluster as a file of the catalogue's form, with comments. */
void orr_hw_new_write(const orr_hw_new *made, orr_output *out);

/* `hw --new [FILE]`: asks on a terminal for what options do not say, and writes the file. */
orr_status orr_hw_new_run(orr_session *session, const orr_catalog *catalog) ORR_MUST_CHECK;

#endif /* ORR_CLI_MODELS_HW_NEW_H */
