/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/arguments/tiers.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/units.h"

typedef struct parser {
    orr_session *session;
    const orr_catalog *catalog;
    const orr_cluster *cluster;
    orr_tier_rates *ret;
    orr_error *err;
} parser;

/* Storage that nobody measured: a drive of a cloud machine. Byte-addressable: another NUMA node.
 * Assumed. */
static const orr_tier_rates USUAL[ORR_TIERS] = {
    [ORR_TIER_DRAM] = {.name = "memory", .source = "said"},
    [ORR_TIER_BYTE] = {.name = "byte-addressable storage",
                       .sector_bytes = 256,
                       .read_bytes_per_s = 10e9,
                       .write_bytes_per_s = 5e9,
                       .read_ns = 300,
                       .request_ns = 1000,
                       .source = "assumed"},
    [ORR_TIER_BLOCK] = {.name = "this machine's storage",
                        .sector_bytes = 512,
                        .read_iops = 100e3,
                        .write_iops = 30e3,
                        .read_bytes_per_s = 2e9,
                        .write_bytes_per_s = 1e9,
                        .read_ns = 100e3,
                        .request_ns = ORR_TIER_REQUEST_NS,
                        .source = "assumed: nothing was measured"},
};

static bool has_part(const char *name, const char *part, size_t len)
{
    for (; strlen(name) >= len; name++)
        if (strncasecmp(name, part, len) == 0)
            return true;
    return false;
}

orr_status orr_memory_find(const orr_catalog *catalog, const char *option, const char *name,
                           size_t len, const orr_memory_tier **ret, orr_error *err)
{
    const orr_memory_tier *found = NULL, *other = NULL;
    const int shown = (int)(len < 60 ? len : 60);
    for (uint32_t i = 0; i < catalog->n_tiers; i++) {
        const orr_memory_tier *m = catalog->tiers[i];
        if (strlen(m->name) == len && strncasecmp(m->name, name, len) == 0) {
            *ret = m;
            return ORR_OK;
        }
        if (!has_part(m->name, name, len))
            continue;
        other = found;
        found = m;
    }
    if (found == NULL)
        return orr_fail(err, ORR_INVALID,
                        "%s: no memory is called '%.*s': orrery hw --kind memory lists them",
                        option, shown, name);
    if (other != NULL)
        return orr_fail(err, ORR_INVALID, "%s: '%.*s' is '%s' or '%s'", option, shown, name,
                        found->name, other->name);
    *ret = found;
    return ORR_OK;
}

/* NAME, or NAME*N. */
static orr_status read_device(const parser *p, orr_tier tier, const char *text, size_t len,
                              int64_t bytes)
{
    const orr_memory_tier *memory;
    const char *star = memchr(text, '*', len);
    unsigned long count = 1;
    char *end = NULL;
    if (star != NULL) {
        count = isdigit((unsigned char)star[1]) ? strtoul(star + 1, &end, 10) : 0;
        if (count < 1 || count > 1 << 16 || end != text + len)
            return orr_fail(p->err, ORR_INVALID, "--tiers: '%.*s': how many of them? NAME*4",
                            (int)(len < 60 ? len : 60), text);
        len = (size_t)(star - text);
    }
    ORR_TRY(orr_memory_find(p->catalog, "--tiers", text, len, &memory, p->err));
    const orr_tier kind = orr_tier_of_memory(memory);
    if ((kind == ORR_TIER_BLOCK) != (tier == ORR_TIER_BLOCK))
        return orr_fail(p->err, ORR_INVALID, "--tiers: '%s' is of kind %s, and no %s tier",
                        memory->name, memory->kind, orr_tier_name(tier));
    return orr_tier_rates_of_memory(memory, (double)count, bytes, p->session->arena, &p->ret[tier],
                                    p->err);
}

static orr_status read_tier(const parser *p, orr_tier tier, const char *text, size_t len)
{
    size_t colon = len;
    char size[64];
    uint64_t bytes = 0;
    while (colon > 0 && text[colon - 1] != ':')
        colon--;
    if (len - colon < sizeof size) {
        memcpy(size, text + colon, len - colon);
        size[len - colon] = '\0';
    }
    if (len - colon >= sizeof size || orr_parse_bytes(size, &bytes, NULL) != ORR_OK || bytes == 0 ||
        bytes > INT64_MAX / 4)
        return orr_fail(p->err, ORR_INVALID,
                        "--tiers: '%.*s' ends in no size, as in block=P4800X:1TiB",
                        (int)(len < 60 ? len : 60), text);
    if (colon > 0)
        return read_device(p, tier, text, colon - 1, (int64_t)bytes);
    if (!(p->ret[tier].bytes > 0)) {
        bool measured = false;
        if (tier == ORR_TIER_BLOCK)
            ORR_TRY(orr_measured_tier(p->session, &p->ret[tier], &measured));
        if (!measured)
            p->ret[tier] = USUAL[tier];
        if (tier != ORR_TIER_DRAM && !measured)
            orr_session_remark(p->session, "%s: rates are assumed; name a device, as %s=NAME:%s",
                               USUAL[tier].name, orr_tier_name(tier), size);
    }
    p->ret[tier].bytes = (int64_t)bytes;
    return ORR_OK;
}

static orr_status read_item(const parser *p, const char *item, size_t len)
{
    if (len == 4 && memcmp(item, "host", 4) == 0) {
        if (p->cluster == NULL)
            return orr_fail(p->err, ORR_INVALID, "--tiers: host: of which cluster?");
        return orr_tiers_of_host(p->cluster, p->cluster->levels[0].devices, p->session->arena,
                                 p->ret, p->err);
    }
    for (int k = 0; k < ORR_TIERS; k++) {
        const char *name = orr_tier_name((orr_tier)k);
        const size_t n = strlen(name);
        if (len > n && item[n] == '=' && memcmp(item, name, n) == 0)
            return read_tier(p, (orr_tier)k, item + n + 1, len - n - 1);
    }
    return orr_fail(p->err, ORR_INVALID, "--tiers: '%.*s' is no host, dram=, byte= or block=",
                    (int)(len < 60 ? len : 60), item);
}

/* Whether an item begins here: names of the catalogue have commas, too. */
static bool begins_item(const char *at)
{
    static const char *const words[] = {"host", "dram=", "byte=", "block="};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(at, words[i], strlen(words[i])) == 0)
            return true;
    return false;
}

orr_status orr_tiers_parse(orr_session *session, const char *text, const orr_catalog *catalog,
                           const orr_cluster *cluster, orr_tier_rates ret[ORR_TIERS])
{
    orr_tier_rates rates[ORR_TIERS] = {{.bytes = 0}};
    const parser p = {session, catalog, cluster, rates, &session->err};
    for (const char *at = text; *at != '\0';) {
        size_t len = strcspn(at, ",");
        while (at[len] == ',' && !begins_item(at + len + 1))
            len += 1 + strcspn(at + len + 1, ",");
        ORR_TRY(read_item(&p, at, len));
        at += len + (at[len] == ',');
    }
    if (rates[ORR_TIER_BYTE].bytes == 0 && rates[ORR_TIER_BLOCK].bytes == 0)
        return orr_fail(&session->err, ORR_INVALID,
                        "--tiers: where do rows live that memory does not hold? "
                        "dram=2GiB,block=P4800X:1TiB");
    memcpy(ret, rates, sizeof rates);
    return ORR_OK;
}

orr_status orr_drive_endurance(const char *text, orr_arena *arena, double *ret_bytes_per_day,
                               orr_error *err)
{
    const char *colon = strrchr(text, ':');
    const size_t len = colon != NULL ? (size_t)(colon - text) : strlen(text);
    const orr_catalog *catalog;
    const orr_memory_tier *memory;
    uint64_t said = 0;
    char *end;
    if (colon != NULL && (orr_parse_bytes(colon + 1, &said, NULL) != ORR_OK || said == 0))
        return orr_fail(err, ORR_INVALID, "--drive: '%s' ends in no size, as in P4800X:750GB",
                        text);
    const double writes = strtod(text, &end);
    if (colon != NULL && end == colon && writes > 0 && writes < 1000) { /* 9550 is a name */
        *ret_bytes_per_day = writes * (double)said;
        return ORR_OK;
    }
    ORR_TRY(orr_catalog_open(arena, &catalog, err));
    ORR_TRY(orr_memory_find(catalog, "--drive", text, len, &memory, err));
    const double bytes = colon != NULL ? (double)said : memory->capacity_bytes.value;
    if (!(memory->endurance_dwpd.value > 0))
        return orr_fail(err, ORR_INVALID,
                        "--drive: how often '%s' may be written is not known; say it, as 1:960GB",
                        memory->name);
    if (!(bytes > 0))
        return orr_fail(err, ORR_INVALID, "--drive: how large is '%s'? %.*s:800GB", memory->name,
                        (int)len, text);
    *ret_bytes_per_day = memory->endurance_dwpd.value * bytes;
    return ORR_OK;
}
