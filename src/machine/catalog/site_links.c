/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "machine/catalog/entries.h"
#include "machine/catalog/sites.h"

/* Reader of site links ("cuts:"). The list holds rules, from wide to narrow: a rule names the
 * pairs of sites that it is about, and a later rule overrides what earlier ones said of a pair.
 * From a distance follows the latency (5 us/km of fibre), from a capacity the oversubscription.
 * Every pair of sites must end up with a link. */
typedef struct rule {
    const char *name, *technology;
    orr_fact km, bytes_per_s, latency_ns, oversubscription, capacity, price_per_gb;
} rule;

#define FACT(key_, quantity_, field)                                                               \
    {                                                                                              \
        .key = (key_), .kind = ORR_FIELD_FACT, .quantity = ORR_QUANTITY_##quantity_,               \
        .offset = offsetof(rule, field)                                                            \
    }
static const orr_field FIELDS[] = {
    {.key = "between", .kind = ORR_FIELD_OTHER, .required = true},
    {.key = "name", .kind = ORR_FIELD_TEXT, .offset = offsetof(rule, name)},
    {.key = "technology", .kind = ORR_FIELD_TEXT, .offset = offsetof(rule, technology)},
    FACT("distance", KM, km),
    FACT("latency", NS, latency_ns),
    FACT("bandwidth", BANDWIDTH, bytes_per_s),
    FACT("oversubscription", RATIO, oversubscription),
    FACT("capacity", BANDWIDTH, capacity),
    FACT("price", USD, price_per_gb),
    {.key = "transport", .kind = ORR_FIELD_OTHER},
};
#undef FACT
enum { N_FIELDS = sizeof FIELDS / sizeof *FIELDS };

/* Fields of a site link as printed, under the keys by which they are written. */
static const orr_field CUT_FIELDS[] = {
#define FACT(key_, quantity_, field)                                                               \
    {                                                                                              \
        .key = (key_), .kind = ORR_FIELD_FACT, .quantity = ORR_QUANTITY_##quantity_,               \
        .offset = offsetof(orr_site_link, field)                                                   \
    }
    FACT("distance", KM, km),
    FACT("latency", NS, latency_ns),
    FACT("bandwidth", BANDWIDTH, bytes_per_s),
    FACT("oversubscription", RATIO, oversubscription),
    FACT("price", USD, price_per_gb),
#undef FACT
};

const orr_field *orr_site_link_fields(size_t *ret_n)
{
    *ret_n = sizeof CUT_FIELDS / sizeof *CUT_FIELDS;
    return CUT_FIELDS;
}

/* The link of a pair of sites while rules are read. */
typedef struct draft {
    rule said; /* merged rules */
    orr_rdma_transport transport;
    bool has_wire;
    const orr_yaml *at; /* last rule about the pair; NULL: none */
} draft;

typedef struct reader {
    const orr_scope *scope;
    const orr_catalog *parts;
    const orr_cluster *cluster;
    orr_site_levels *levels;
    draft drafts[ORR_SITES_MAX][ORR_SITES_MAX]; /* a < b */
} reader;

static bool same_region(const orr_cluster *cluster, uint32_t a, uint32_t b)
{
    return strcmp(cluster->sites[a].region, cluster->sites[b].region) == 0;
}

/* Sites that a name means, as bits: a site, or all sites of a region. */
static orr_status sites_named(const reader *r, const orr_yaml *value, uint32_t *ret, orr_error *err)
{
    const char *name, *names[2 * ORR_SITES_MAX];
    size_t n = 0;
    uint32_t site = 0, region = 0;
    ORR_TRY(orr_text_read(value, "between", &name, err));
    for (uint32_t s = 0; s < r->cluster->n_sites; s++) {
        const orr_site *at = &r->cluster->sites[s];
        site |= (uint32_t)(strcmp(at->name, name) == 0) << s;
        region |= (uint32_t)(strcmp(at->region, name) == 0) << s;
        names[n++] = at->name;
        if (at->region[0] != '\0')
            names[n++] = at->region;
    }
    if (site == 0 && region == 0)
        return orr_fail_unknown(value, "site or region", name, names, n, err);
    if (site != 0 && region != 0 && site != region)
        return orr_yaml_fail(value, ORR_INVALID, err,
                             "'%.80s' is both a site and a region: give one of them another name",
                             name);
    *ret = site | region;
    return ORR_OK;
}

/* Pairs that a rule is about. ret[a]: the sites b > a, as bits. */
static orr_status pairs_of(const reader *r, const orr_yaml *between, uint32_t *ret, orr_error *err)
{
    const bool word = between->kind == ORR_YAML_SCALAR;
    const bool sites = word && strcmp(between->text, "sites") == 0;
    uint32_t one = 0, other = 0;
    if (!sites && !(word && strcmp(between->text, "regions") == 0)) {
        if (between->kind != ORR_YAML_LIST || between->n != 2)
            return orr_yaml_fail(between, ORR_INVALID, err,
                                 "between: sites (of one region), regions, or two names: "
                                 "[north, south]");
        ORR_TRY(sites_named(r, between->values[0], &one, err));
        ORR_TRY(sites_named(r, between->values[1], &other, err));
        if ((one & other) != 0)
            return orr_yaml_fail(between, ORR_INVALID, err,
                                 "between: two sites, or regions, that are not the same");
    }
    for (uint32_t a = 0; a < r->cluster->n_sites; a++) {
        ret[a] = 0;
        for (uint32_t b = a + 1; b < r->cluster->n_sites; b++) {
            const bool named = (one >> a & other >> b & 1) || (one >> b & other >> a & 1);
            const bool about = one != 0 ? named : same_region(r->cluster, a, b) == sites;
            ret[a] |= (uint32_t)about << b;
        }
    }
    return ORR_OK;
}

static bool says(const orr_yaml *map, const char *key)
{
    return orr_yaml_find(map, key) != NULL;
}

/* Merges a rule over earlier ones. A number replaces what it stands for: a distance a latency, a
 * capacity an oversubscription, a technology a bandwidth. */
static orr_status say(const reader *r, const orr_yaml *map, const rule *said, draft *d,
                      orr_error *err)
{
    const orr_fact unknown = orr_fact_unknown();
    if (says(map, "distance")) {
        d->said.km = said->km;
        d->said.latency_ns = unknown;
    }
    if (says(map, "latency"))
        d->said.latency_ns = said->latency_ns;
    if (said->technology[0] != '\0') {
        d->said.technology = said->technology;
        d->said.bytes_per_s = unknown;
    }
    if (says(map, "bandwidth"))
        d->said.bytes_per_s = said->bytes_per_s;
    if (says(map, "capacity") || says(map, "oversubscription")) {
        d->said.capacity = said->capacity;
        d->said.oversubscription = said->oversubscription;
    }
    if (says(map, "price"))
        d->said.price_per_gb = said->price_per_gb;
    d->at = map;
    if (!says(map, "transport"))
        return ORR_OK;
    d->has_wire = true;
    return orr_rdma_transport_read(orr_yaml_find(map, "transport"), r->scope, &d->transport, err);
}

/* The name of a rule for all links of a kind is that of the level that these links become. */
static orr_status name_level(const orr_yaml *map, const char *name, orr_site_levels *levels,
                             orr_error *err)
{
    const orr_yaml *between = orr_yaml_find(map, "between");
    if (name[0] == '\0')
        return ORR_OK;
    if (between->kind != ORR_YAML_SCALAR)
        return orr_yaml_fail(orr_yaml_find(map, "name"), ORR_INVALID, err,
                             "name: the level that all cuts between sites, or regions, make has "
                             "one; a single cut has none");
    if (strcmp(between->text, "sites") == 0)
        levels->region.name = name;
    else
        levels->wan.name = name;
    return ORR_OK;
}

static orr_status check_rule(const orr_yaml *map, const rule *said, orr_error *err)
{
    if (says(map, "capacity") && says(map, "oversubscription"))
        return orr_yaml_fail(orr_yaml_find(map, "capacity"), ORR_INVALID, err,
                             "a capacity of the whole cut says its oversubscription: leave one "
                             "of them out");
    if (orr_fact_or(&said->bytes_per_s, 1) <= 0)
        return orr_yaml_fail(orr_yaml_find(map, "bandwidth"), ORR_INVALID, err,
                             "bandwidth: has to be above 0");
    if (orr_fact_or(&said->capacity, 1) <= 0)
        return orr_yaml_fail(orr_yaml_find(map, "capacity"), ORR_INVALID, err,
                             "capacity: has to be above 0");
    return ORR_OK;
}

static orr_status read_rule(reader *r, const orr_yaml *map, orr_error *err)
{
    rule said = {0};
    orr_scope inner = *r->scope;
    uint32_t pairs[ORR_SITES_MAX];
    ORR_TRY(orr_schema_read(map, "a cut", FIELDS, N_FIELDS, &inner, &said, err));
    ORR_TRY(check_rule(map, &said, err));
    ORR_TRY(name_level(map, said.name, r->levels, err));
    ORR_TRY(pairs_of(r, orr_yaml_find(map, "between"), pairs, err));
    const orr_scope *outer = r->scope;
    r->scope = &inner;
    orr_status status = ORR_OK;
    for (uint32_t a = 0; a < r->cluster->n_sites; a++)
        for (uint32_t b = a + 1; b < r->cluster->n_sites; b++)
            if (status == ORR_OK && (pairs[a] >> b & 1))
                status = say(r, map, &said, &r->drafts[a][b], err);
    r->scope = outer;
    return status;
}

/* Light in fibre: 300,000 km/s over a refractive index of about 1.5. */
#define FIBRE_NS_PER_KM 5000.0

/* Latency: through the building at each end, as between two of its units, and along the fibre. */
static orr_status latency_of(const reader *r, const draft *d, const orr_link *link, orr_fact *ret,
                             orr_error *err)
{
    const orr_level *site = &r->levels->inner[r->levels->n_inner - 1];
    const double per_km =
        link != NULL ? orr_fact_or(&link->latency_ns_per_km, FIBRE_NS_PER_KM) : FIBRE_NS_PER_KM;
    const double inside = orr_fact_or(&site->latency_ns, 0);
    *ret = d->said.latency_ns;
    if (ret->basis != ORR_FACT_UNKNOWN)
        return ORR_OK;
    if (d->said.km.basis == ORR_FACT_UNKNOWN)
        return orr_yaml_fail(d->at, ORR_INVALID, err, "a cut needs a latency or a distance");
    const uint8_t basis = site->latency_ns.basis == ORR_FACT_ASSUMED ? ORR_FACT_ASSUMED
                          : d->said.km.basis == ORR_FACT_ASSUMED     ? ORR_FACT_ASSUMED
                                                                     : ORR_FACT_DERIVED;
    *ret = (orr_fact){.value = inside + d->said.km.value * per_km,
                      .basis = basis,
                      .source = d->said.km.source,
                      .note = orr_arena_printf(r->scope->arena,
                                               "%.6g us of level %s, and %.6g us/km of fibre",
                                               inside / 1e3, site->name, per_km / 1e3)};
    return ret->note != NULL ? ORR_OK : orr_fail_memory(err);
}

/* Oversubscription from a capacity: what all devices of the smaller site could send, over the
 * capacity. */
static orr_status oversubscription_of(const reader *r, const draft *d, const orr_site_link *cut,
                                      orr_fact *ret, orr_error *err)
{
    const orr_fact *capacity = &d->said.capacity;
    *ret = d->said.oversubscription;
    if (ret->basis != ORR_FACT_UNKNOWN)
        return ORR_OK;
    if (capacity->basis == ORR_FACT_UNKNOWN) {
        *ret = (orr_fact){
            .value = 1, .basis = ORR_FACT_ASSUMED, .source = "not said: none", .note = ""};
        return ORR_OK;
    }
    const uint32_t a = r->cluster->sites[cut->a].devices, b = r->cluster->sites[cut->b].devices;
    *ret = *capacity;
    ret->conflict = NULL;
    ret->value = fmax(1, cut->bytes_per_s.value * (a < b ? a : b) / capacity->value);
    if (ret->basis != ORR_FACT_ASSUMED)
        ret->basis = ORR_FACT_DERIVED;
    ret->note = orr_arena_printf(r->scope->arena, "of a capacity of %.6g Tbit/s",
                                 capacity->value * 8 / 1e12);
    return ret->note != NULL ? ORR_OK : orr_fail_memory(err);
}

static orr_status finish(const reader *r, uint32_t a, uint32_t b, orr_site_link *cut,
                         orr_error *err)
{
    const draft *d = &r->drafts[a][b];
    const orr_link *link = orr_catalog_link(r->parts, d->said.technology);
    *cut = (orr_site_link){.a = a,
                           .b = b,
                           .km = d->said.km,
                           .price_per_gb = d->said.price_per_gb,
                           .technology = d->said.technology,
                           .bytes_per_s = d->said.bytes_per_s};
    if (cut->bytes_per_s.basis == ORR_FACT_UNKNOWN && link != NULL)
        cut->bytes_per_s = link->bytes_per_s;
    if (orr_fact_or(&cut->bytes_per_s, 0) <= 0)
        cut->bytes_per_s = r->levels->inner[r->levels->n_inner - 1].bytes_per_s;
    ORR_TRY(latency_of(r, d, link, &cut->latency_ns, err));
    ORR_TRY(oversubscription_of(r, d, cut, &cut->oversubscription, err));
    if (!d->has_wire)
        return ORR_OK;
    orr_rdma_transport *transport = orr_arena_one(r->scope->arena, orr_rdma_transport);
    if (transport == NULL)
        return orr_fail_memory(err);
    *transport = d->transport;
    cut->transport = transport;
    return ORR_OK;
}

static orr_status read_rules(reader *r, const orr_yaml *list, orr_error *err)
{
    const rule nothing = {.technology = "",
                          .km = orr_fact_unknown(),
                          .bytes_per_s = orr_fact_unknown(),
                          .latency_ns = orr_fact_unknown(),
                          .oversubscription = orr_fact_unknown(),
                          .capacity = orr_fact_unknown(),
                          .price_per_gb = orr_fact_unknown()};
    for (uint32_t a = 0; a < ORR_SITES_MAX; a++)
        for (uint32_t b = 0; b < ORR_SITES_MAX; b++)
            r->drafts[a][b] = (draft){.said = nothing};
    if (list != NULL && list->kind != ORR_YAML_LIST)
        return orr_yaml_fail(list, ORR_INVALID, err,
                             "cuts: a list: [{between: sites, distance: 3km}, ...]");
    for (uint32_t i = 0; list != NULL && i < list->n; i++)
        ORR_TRY(read_rule(r, list->values[i], err));
    return ORR_OK;
}

orr_status orr_site_links_read(const orr_yaml *map, const orr_yaml *list, const orr_scope *scope,
                               const orr_catalog *parts, orr_cluster *cluster,
                               orr_site_levels *levels, orr_error *err)
{
    reader r = {.scope = scope, .parts = parts, .cluster = cluster, .levels = levels};
    orr_site_link *cuts = orr_arena_array(scope->arena, orr_site_link, ORR_SITE_LINKS_MAX);
    uint32_t n = 0;
    if (cuts == NULL)
        return orr_fail_memory(err);
    ORR_TRY(read_rules(&r, list, err));
    for (uint32_t a = 0; a < cluster->n_sites; a++) {
        for (uint32_t b = a + 1; b < cluster->n_sites; b++) {
            if (r.drafts[a][b].at == NULL)
                return orr_yaml_fail(
                    list != NULL ? list : map, ORR_INVALID, err,
                    "no cut joins sites '%.80s' and '%.80s': say {between: %s, ...}",
                    cluster->sites[a].name, cluster->sites[b].name,
                    same_region(cluster, a, b) ? "sites" : "regions");
            ORR_TRY(finish(&r, a, b, &cuts[n++], err));
        }
    }
    cluster->cuts = cuts;
    cluster->n_cuts = n;
    return ORR_OK;
}
