/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MACHINE_H
#define ORR_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include <orrery/arena.h>
#include <orrery/dtype.h>
#include <orrery/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Machines: devices, memory tiers, links, and clusters made of them.
 *
 * Read from YAML: the built-in catalogue, or files of the user, which may refer to the catalogue.
 * Immutable once read: any number of threads may share it. Every number is a fact: it has a source
 * and a basis, and where sources conflict the other values are kept with it.
 *
 * Units: bytes/s, FLOP/s, ns, W; in files "450GB/s", "400Gbps", "989TFLOPS", "80GiB", "5us". */

#define ORR_FACT_BASIS_MAP(X)                                                                      \
    X(UNKNOWN, "unknown")     /* the fact is missing: value is NAN                */               \
    X(PUBLISHED, "published") /* by the vendor or a paper                         */               \
    X(MEASURED, "measured")   /* by somebody, with a benchmark                    */               \
    X(DERIVED, "derived")     /* arithmetic on published or measured facts        */               \
    X(ASSUMED, "assumed")     /* somebody's guess; the source says whose          */
typedef enum orr_fact_basis {
#define ORR_FACT_BASIS_ENUM_(name, text) ORR_FACT_##name,
    ORR_FACT_BASIS_MAP(ORR_FACT_BASIS_ENUM_)
#undef ORR_FACT_BASIS_ENUM_
} orr_fact_basis;
ORR_API const char *orr_fact_basis_name(orr_fact_basis basis);

typedef struct orr_fact {
    double value;                    /* NAN: unknown */
    uint8_t basis;                   /* orr_fact_basis                                            */
    const char *source;              /* never NULL; "" only for an unknown fact                   */
    const struct orr_fact *conflict; /* value of another source, or NULL; a list */
    const char *note; /* "an upper bound", "at queue depth 1"; mostly ""; never NULL */
} orr_fact;
/* The value if it is known, else `otherwise`. */
ORR_API double orr_fact_or(const orr_fact *fact, double otherwise);

typedef struct orr_device {
    const char *name;           /* "h100_sxm_80g"; what --gpu takes                             */
    const char *vendor, *kind;  /* "NVIDIA", "gpu"                                       */
    const char *const *matches; /* shape (n_matches): patterns by which a recording's device name
                                 * ("NVIDIA H100 80GB HBM3") is recognised */
    uint32_t n_matches;
    orr_fact peak_flops[ORR_DTYPES];   /* dense                                          */
    orr_fact matmul_flops[ORR_DTYPES]; /* highest rate of a matrix product that was measured */
    orr_fact memory_bytes, memory_bytes_per_s;
    orr_fact achievable_memory_bytes_per_s; /* fitted or measured, else unknown */
    orr_fact l2_bytes, l2_bytes_per_s;
    orr_fact shared_memory_bytes_per_s; /* of all SMs together                           */
    orr_fact sms, clock_hz;
    orr_fact launch_latency_ns;           /* launch call to start on an idle stream */
    orr_fact kernel_gap_ns;               /* end to start, back to back on a stream */
    orr_fact pcie_bytes_per_s;            /* host to device, one way: of the link           */
    orr_fact achievable_pcie_bytes_per_s; /* measured rate of copies, else unknown */
    orr_fact scale_up_bytes_per_s;        /* all its ports, one way                         */
    orr_fact scale_up_pair_bytes_per_s;   /* to one peer, one way                          */
    orr_fact nic_bytes_per_s;             /* the network port that it usually comes with */
    orr_fact power_w, idle_power_w;
    const char *memory_type;           /* "HBM3", or "" if unknown */
    const char *pcie, *scale_up, *nic; /* "PCIe5 x16", "NVLink4", "NDR400"               */
    const char *notes;
    orr_fact price_per_hour; /* USD, on demand, of the cloud that the source names */
} orr_device;

/* A memory tier: memory or storage that is not the device's own: DRAM, CXL, PMem, NVMe... */
typedef struct orr_memory_tier {
    const char *name, *kind; /* "dram", "cxl", "scm-dimm", "scm-ssd", "tlc", "qlc", "slc", "mlc" */
    orr_fact read_latency_ns, write_latency_ns;
    orr_fact read_bytes_per_s, write_bytes_per_s; /* sequential */
    orr_fact read_iops_4k, write_iops_4k;
    orr_fact endurance_dwpd, power_w, idle_power_w, granule_bytes, capacity_bytes;
    const char *notes;
} orr_memory_tier;

typedef struct orr_link {
    const char *name, *kind; /* "NVLink4", "scale-up"; "IB NDR 4x", "scale-out"; ... */
    orr_fact bytes_per_s;    /* one way, per endpoint */
    orr_fact latency_ns;     /* one way, one hop      */
    orr_fact latency_ns_per_km;
    const char *reach, *notes;
    const char *const *aliases; /* shape (n_aliases): what else it is called */
    uint32_t n_aliases;
} orr_link;

/* Topology of a level: how units are joined. */
#define ORR_TOPOLOGY_MAP(X)                                                                        \
    X(SWITCH, "switch") X(RING, "ring") X(FULLY_CONNECTED, "fully_connected")
typedef enum orr_topology {
#define ORR_TOPOLOGY_ENUM_(name, text) ORR_TOPOLOGY_##name,
    ORR_TOPOLOGY_MAP(ORR_TOPOLOGY_ENUM_)
#undef ORR_TOPOLOGY_ENUM_
} orr_topology;
ORR_API const char *orr_topology_name(orr_topology topology);

/* Technology of a level: what decides which constants its collectives have, and whether transfers
 * across the level above pass through its ports. UNKNOWN: neither the level nor its link says; then
 * the innermost level is SCALE_UP and the others are SCALE_OUT (orr_cluster_is_scale_up()). */
#define ORR_LEVEL_KIND_MAP(X)                                                                      \
    X(UNKNOWN, "unknown")                                                                          \
    X(SCALE_UP, "scale-up")   /* links of the devices themselves: NVLink, xGMI, ICI, PCIe */       \
    X(SCALE_OUT, "scale-out") /* network adapters: InfiniBand, Ethernet, fibre between sites */
typedef enum orr_level_kind {
#define ORR_LEVEL_KIND_ENUM_(name, text) ORR_LEVEL_##name,
    ORR_LEVEL_KIND_MAP(ORR_LEVEL_KIND_ENUM_)
#undef ORR_LEVEL_KIND_ENUM_
} orr_level_kind;

/* RDMA transport: how bytes travel over a level: its settings, and properties of the network.
 * Fields of 0: not given, and then nothing is lost for it. Formulas:
 * src/cost/network/rdma_transport.h. */
#define ORR_BALANCE_MAP(X)                                                                         \
    X(UNKNOWN, "unknown")                                                                          \
    X(ECMP, "ecmp")         /* a hash of the connection picks one path                */           \
    X(QP, "qp")             /* of the queue pair, too (E-ECMP): more, smaller flows   */           \
    X(SPRAY, "spray")       /* segments go round the queue pairs, whatever the path   */           \
    X(ADAPTIVE, "adaptive") /* each packet to the emptiest path                     */             \
    X(CENTRAL, "central")   /* flows placed by traffic engineering, every 30 s        */
typedef enum orr_balance {
#define ORR_BALANCE_ENUM_(name, text) ORR_BALANCE_##name,
    ORR_BALANCE_MAP(ORR_BALANCE_ENUM_)
#undef ORR_BALANCE_ENUM_
} orr_balance;
#define ORR_CONGESTION_MAP(X)                                                                      \
    X(UNKNOWN, "unknown")                                                                          \
    X(NONE, "none") X(DCQCN, "dcqcn") X(CREDITS, "credits") /* the receiver says when to send */
typedef enum orr_congestion {
#define ORR_CONGESTION_ENUM_(name, text) ORR_CONGESTION_##name,
    ORR_CONGESTION_MAP(ORR_CONGESTION_ENUM_)
#undef ORR_CONGESTION_ENUM_
} orr_congestion;
#define ORR_BUFFERS_MAP(X) X(UNKNOWN, "unknown") X(SHALLOW, "shallow") X(DEEP, "deep")
typedef enum orr_buffers {
#define ORR_BUFFERS_ENUM_(name, text) ORR_BUFFERS_##name,
    ORR_BUFFERS_MAP(ORR_BUFFERS_ENUM_)
#undef ORR_BUFFERS_ENUM_
} orr_buffers;
typedef struct orr_rdma_transport {
    uint8_t balance, congestion, buffers;
    uint32_t queue_pairs;   /* of a connection between two ranks                           */
    uint32_t outstanding;   /* segments of a queue pair in flight */
    uint32_t paths, failed; /* links, or planes, that flows are spread over; of these, failed */
    double segment_bytes;
    double loss_frac; /* of packets                                                  */
} orr_rdma_transport;
ORR_API const char *orr_balance_name(orr_balance balance);
ORR_API const char *orr_congestion_name(orr_congestion congestion);
ORR_API const char *orr_buffers_name(orr_buffers buffers);
/* Presets: settings that a job can choose for each class of traffic. They override the level's
 * settings; paths, loss and buffers stay the level's. */
#define ORR_RDMA_PRESET_MAP(X)                                                                     \
    X(UNKNOWN, "unknown") /* as the level has it                                    */             \
    X(SINGLE, "single")   /* one queue pair, ECMP                                   */             \
    X(QP4, "qp4")                                                                                  \
    X(QP16, "qp16")       /* E-ECMP with 4 or 16 queue pairs                 */                    \
    X(SPRAY, "spray")     /* 16 queue pairs, 1 MiB, 128 each: as if unbounded        */            \
    X(BOUNDED, "bounded") /* the same, as many segments as the connection holds      */            \
    X(CENTRAL, "central") X(CREDITS, "credits") X(DCQCN, "dcqcn")
typedef enum orr_rdma_preset {
#define ORR_RDMA_PRESET_ENUM_(name, text) ORR_RDMA_##name,
    ORR_RDMA_PRESET_MAP(ORR_RDMA_PRESET_ENUM_)
#undef ORR_RDMA_PRESET_ENUM_
        ORR_RDMA_PRESETS
} orr_rdma_preset;

typedef struct orr_level {
    const char *name;          /* "host", "rack", "building", "region"                     */
    uint32_t size;             /* units of the level below in one unit of this level */
    uint32_t devices;          /* devices in one unit: product of the sizes up to here */
    uint8_t topology;          /* orr_topology                                             */
    uint8_t kind;              /* orr_level_kind                                           */
    orr_fact bytes_per_s;      /* one way, per device, across this level; before oversubscription */
    orr_fact latency_ns;       /* one way, between two units of the level below            */
    orr_fact oversubscription; /* 7 for 1:7; at least 1                                 */
    const char *technology;    /* name of a link, or text                                  */
    bool in_network_reduction; /* SHARP, NVLS                                       */
    const uint32_t *ends;      /* NULL: units are equal. Else shape (units): prefix sums of their
                                * devices; units of levels below are counted anew in each, and
                                * `size` and `devices` are those of the largest */
    const orr_rdma_transport *transport; /* NULL: not given */
} orr_level;

/* Sites: the units that levels from `site_level` + 1 on join. Mostly buildings; sites with the
 * same `region` are near each other. Sites of a region are consecutive. */
enum { ORR_SITES_MAX = 8, ORR_SITE_LINKS_MAX = ORR_SITES_MAX * (ORR_SITES_MAX - 1) / 2 };
typedef struct orr_site {
    const char *name, *region; /* "" if not named */
    const orr_device *device;
    uint32_t devices;
    orr_fact price_per_hour; /* USD, per device */
} orr_site;
/* A site link: the network between two sites, equal in both directions and shared by all that
 * crosses it. */
typedef struct orr_site_link {
    uint32_t a, b; /* sites, a < b                                              */
    orr_fact km;
    orr_fact bytes_per_s; /* one way, per device of the smaller site; before oversubscription */
    orr_fact latency_ns;  /* one way: distance (fibre: 5 us/km) and switches */
    orr_fact oversubscription;
    orr_fact price_per_gb; /* USD, for what leaves a site                               */
    const orr_rdma_transport *transport; /* NULL: not given */
    const char *technology;              /* name of a link, or text; "" if not given */
} orr_site_link;

typedef struct orr_cluster {
    const char *name;
    const orr_device *device;
    uint32_t n_devices; /* those of one unit of the highest level */
    uint32_t n_levels;
    const orr_level *levels;             /* shape (n_levels), from the inside out */
    const orr_memory_tier *const *tiers; /* shape (n_tiers), of a host */
    const uint32_t *tier_counts;         /* shape (n_tiers): how many a host has; 0: not said */
    uint32_t n_tiers;
    const char *source, *notes;
    uint32_t n_sites;      /* 0: none; 2 to ORR_SITES_MAX; 1: a selection that lies in one named
                            * site */
    uint32_t site_level;   /* the level whose units are sites */
    const orr_site *sites; /* shape (n_sites) */
    uint32_t n_cuts;
    const orr_site_link *cuts;  /* shape (n_cuts): site links of every pair, by a, then b */
    const char *const *aliases; /* shape (n_aliases): what else it is called */
    uint32_t n_aliases;
} orr_cluster;

/* The catalogue: built-in entries, and those that files added. */
typedef struct orr_catalog {
    uint32_t n_devices, n_tiers, n_links, n_clusters;
    const orr_device *const *devices;
    const orr_memory_tier *const *tiers;
    const orr_link *const *links;
    const orr_cluster *const *clusters;
} orr_catalog;

/* Opens the built-in catalogue, in the arena. Errors: NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_catalog_open(orr_arena *arena, const orr_catalog **ret,
                                                   orr_error *err);
/* Finds an entry; NULL: none. Case is ignored, and '-' equals '_': "H100-24K" is "h100_24k". */
ORR_API const orr_device *orr_catalog_device(const orr_catalog *catalog, const char *name);
ORR_API const orr_cluster *orr_catalog_cluster(const orr_catalog *catalog, const char *name);
/* The device that a recording's device name means, or NULL. */
ORR_API const orr_device *orr_catalog_recognise(const orr_catalog *catalog,
                                                const char *device_name);

/* Loads a cluster by its name in the catalogue, or by words that it alone has in its name and
 * aliases ("DGX H100"), or, when the text ends in .yaml or .yml or holds
 * a slash, from that file (format: catalog/README.md). Errors: NOT_FOUND with the closest name;
 * IO; LIMIT; INVALID and PARSE as "file:line:column: what is wrong and what is right". The
 * catalogue has to outlive the result. */
ORR_API ORR_MUST_CHECK orr_status orr_cluster_load(const orr_catalog *catalog, const char *name,
                                                   orr_arena *arena, const orr_cluster **ret,
                                                   orr_error *err);
/* Loads a device likewise. */
ORR_API ORR_MUST_CHECK orr_status orr_device_load(const orr_catalog *catalog, const char *name,
                                                  orr_arena *arena, const orr_device **ret,
                                                  orr_error *err);
/* The smallest part of a cluster that holds `n_devices`, for jobs that do not fill the machine:
 * the highest level that is needed is shortened, levels below stay, levels above are left out.
 * The result may have more devices than requested: whole units. Sites with names, or of unequal
 * size, are filled one after another, from the first one on, in whole hosts. INVALID: more than
 * there are, or 0. */
ORR_API ORR_MUST_CHECK orr_status orr_cluster_resize(const orr_cluster *cluster, uint32_t n_devices,
                                                     orr_arena *arena, const orr_cluster **ret,
                                                     orr_error *err);

/* A part of a cluster by devices of each site, shape (n_sites), 0: none. Unused sites are left
 * out; of levels above sites those stay that still join something: one for the sites of a
 * region, one for regions, each as slow as the slowest site link that it stands for. Sites keep
 * their names. INVALID: more than a site has, no devices at all, a cluster without sites. */
ORR_API ORR_MUST_CHECK orr_status orr_cluster_select_sites(const orr_cluster *cluster,
                                                           const uint32_t *devices,
                                                           orr_arena *arena,
                                                           const orr_cluster **ret, orr_error *err);
/* The unit of a level that contains a device: its first device, and the one after its last. */
typedef struct orr_device_range {
    uint32_t first, end;
} orr_device_range;
ORR_API orr_device_range orr_cluster_unit(const orr_cluster *cluster, uint32_t level,
                                          uint32_t device);
/* Whether a level is of the devices' own links, not of a network: by its kind, else its place. */
ORR_API bool orr_cluster_is_scale_up(const orr_cluster *cluster, uint32_t level);
/* Index of the site of a device; 0 in a cluster without sites. */
ORR_API uint32_t orr_cluster_site(const orr_cluster *cluster, uint32_t device);
/* Hypothetical clusters: factors on facts, for sensitivity analysis. */
typedef struct orr_cluster_factors {
    double latency, bandwidth, oversubscription; /* of the network between sites; of the highest
                                                  * level if there are none. Oversubscription is
                                                  * at least 1:1 */
    double compute;                              /* of all devices: FLOP/s and memory */
} orr_cluster_factors;
ORR_API ORR_MUST_CHECK orr_status orr_cluster_scaled(const orr_cluster *cluster,
                                                     const orr_cluster_factors *factors,
                                                     orr_arena *arena, const orr_cluster **ret,
                                                     orr_error *err);

/* Span of a process group on a cluster, where rank r is device r: at each level, how many units
 * of the level below it has in one unit of this level, at most; 1 where it does not spread. The
 * product is at least the number of ranks. */
enum { ORR_LEVELS_MAX = 8 };
typedef struct orr_span {
    uint32_t n_ranks;
    uint32_t n_levels;
    uint32_t width[ORR_LEVELS_MAX]; /* shape (n_levels) */
    uint32_t top;                   /* highest level with width > 1; 0 for one rank */
    bool even;                      /* all units of each level hold the same number of members */
} orr_span;
/* Computes the span of `ranks`, shape (n), in any order. INVALID: a rank beyond the cluster. */
ORR_API ORR_MUST_CHECK orr_status orr_cluster_span(const orr_cluster *cluster,
                                                   const uint32_t *ranks, uint32_t n, orr_span *ret,
                                                   orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_MACHINE_H */
