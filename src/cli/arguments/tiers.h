/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_ARGUMENTS_TIERS_H
#define ORR_CLI_ARGUMENTS_TIERS_H

#include "cli/command/session.h"

/* --tiers: what a rank has of each tier.
 *
 *   dram=2GiB,byte=Optane PMem 100 DIMM:64GiB,block=9550*2:1TiB
 *   host                   memory and drives of the cluster's hosts, shared by their ranks
 *   host,block=P4800X:1TB  the same, with another device
 *
 * NAME is of the catalogue, or a part of a name that no other has; *N: so many of them. Without a
 * name, block=1TiB, it is this machine's storage, which `orrery bench` measured, or assumed rates,
 * with a remark. Errors: INVALID: what was typed. */
orr_status orr_tiers_parse(orr_session *session, const char *text, const orr_catalog *catalog,
                           const orr_cluster *cluster,
                           orr_tier_rates ret[ORR_TIERS]) ORR_MUST_CHECK;

/* The memory or storage of this name, or the only one with this part of a name. INVALID: none, or
 * several, after the option's name. */
orr_status orr_memory_find(const orr_catalog *catalog, const char *option, const char *name,
                           size_t len, const orr_memory_tier **ret, orr_error *err) ORR_MUST_CHECK;
/* --drive NAME[:BYTES]: what a drive of the catalogue may be written in a day, by its endurance in
 * writes of the whole drive a day, and its capacity, unless BYTES says it. "1:960GB": the endurance
 * itself. INVALID: what was typed; a fact that the catalogue does not have. */
orr_status orr_drive_endurance(const char *text, orr_arena *arena, double *ret_bytes_per_day,
                               orr_error *err) ORR_MUST_CHECK;
/* Storage that was measured on this machine (orrery bench --storage), without its size, with a
 * remark; *ret_found false: none was. Errors: those of the file. */
orr_status orr_measured_tier(orr_session *session, orr_tier_rates *ret,
                             bool *ret_found) ORR_MUST_CHECK;

#endif /* ORR_CLI_ARGUMENTS_TIERS_H */
