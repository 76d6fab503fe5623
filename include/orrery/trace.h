/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_H
#define ORR_TRACE_H

#include <orrery/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Recordings: reading, linking and writing traces. A reader is strict unless `tolerant` is set;
 * what a tolerant reader lets pass is counted in the report. Memory while reading is bounded by the
 * graph and the largest single record, not by the file. Threads: all functions may be called at
 * once on different files. */
#define ORR_FORMAT_MAP(X)                                                                          \
    X(UNKNOWN, "unknown", "")                                                                      \
    X(KINETO, "kineto", "PyTorch profiler, Chrome trace JSON")                                     \
    X(PYTORCH_ET, "pytorch-et", "PyTorch execution trace (Chakra host trace), JSON")               \
    X(CHAKRA, "chakra", "Chakra execution trace, protobuf (.et)")                                  \
    X(CHAKRA_JSON, "chakra-json", "Chakra workload, JSON")                                         \
    X(PERFETTO, "perfetto", "Perfetto track events (.pftrace); output only")                       \
    X(CHROME, "chrome", "Chrome trace JSON (.json), output of Orrery")                             \
    X(JSON, "json", "Chakra as protobuf's JSON, an object a message; output only")                 \
    X(TEXT, "text", "Chakra as protobuf's text format (.textproto); output only")                  \
    X(DOT, "dot", "Graphviz (.dot); output only")                                                  \
    X(GRAPHML, "graphml", "GraphML (.graphml); output only")                                       \
    X(NSIGHT, "nsight", "Nsight Systems, SQLite (nsys export --type sqlite); input only")          \
    X(XPLANE, "xplane", "JAX, TensorFlow, PyTorch/XLA profiles (.xplane.pb); input only")          \
    X(TORCH_MEMORY, "torch-memory", "PyTorch memory snapshot, pickle or JSON; input only")         \
    X(ROCPD, "rocpd", "rocprofv3, SQLite (rocpd, its default output); input only")

typedef enum orr_format {
#define ORR_FORMAT_ENUM_(name, text, about) ORR_FORMAT_##name,
    ORR_FORMAT_MAP(ORR_FORMAT_ENUM_)
#undef ORR_FORMAT_ENUM_
} orr_format;

ORR_API const char *orr_format_name(orr_format format);
/* The format of that name, or UNKNOWN. */
ORR_API orr_format orr_format_from_name(const char *name);
/* The format by a path's ending, for writing: .et, .pftrace, .json (Chrome), .textproto, .dot,
 * .graphml, each with .gz or .zst. */
ORR_API orr_format orr_format_from_path(const char *path);

/* Faults of real tracers that the tolerant mode lets pass; each is counted. */
#define ORR_TRACE_FAULT_MAP(X)                                                                     \
    X(TRUNCATED, "the file ends in the middle; what stands before is used")                        \
    X(CONTROL_CHARACTER, "raw control character inside a string")                                  \
    X(MISSING_COMMA, "comma or closing brace missing between values")                              \
    X(NOT_A_NUMBER, "NaN or Infinity as a number")                                                 \
    X(LONE_SURROGATE, "half of a surrogate pair, or bytes that are not UTF-8")                     \
    X(LOST_PARENT, "parent that is not in the file; the node is kept without it")                  \
    X(BAD_EVENT, "event without a field that its kind needs; left out")                            \
    X(NEGATIVE_DURATION, "event that ends before it begins; it takes no time")                     \
    X(DUPLICATE_KEY, "event that says a field twice; the last one counts")

typedef enum orr_trace_fault {
#define ORR_TRACE_FAULT_ENUM_(name, text) ORR_TRACE_FAULT_##name,
    ORR_TRACE_FAULT_MAP(ORR_TRACE_FAULT_ENUM_)
#undef ORR_TRACE_FAULT_ENUM_
        ORR_TRACE_FAULTS
} orr_trace_fault;
ORR_API const char *orr_trace_fault_text(orr_trace_fault fault);

/* Why a host operator of one trace has no counterpart in the other. */
#define ORR_LINK_MISS_MAP(X)                                                                       \
    X(NO_ID, "no record-function id")                                                              \
    X(ID_NOT_FOUND, "its record-function id is not in the other trace")                            \
    X(NAME_DIFFERS, "the id matches an operator of another name")                                  \
    X(NO_THREAD, "no thread of the other trace matches its thread")                                \
    X(ORDER, "the order of operators differs at this point")

typedef enum orr_link_miss {
#define ORR_LINK_MISS_ENUM_(name, text) ORR_LINK_MISS_##name,
    ORR_LINK_MISS_MAP(ORR_LINK_MISS_ENUM_)
#undef ORR_LINK_MISS_ENUM_
        ORR_LINK_MISSES
} orr_link_miss;
ORR_API const char *orr_link_miss_text(orr_link_miss miss);

/* Result of linking a host trace to a device trace. */
typedef struct orr_link_report {
    uint32_t host_ops;   /* operators of the host trace                    */
    uint32_t device_ops; /* host operators of the device trace             */
    uint32_t matched_by_id, matched_by_order;
    uint32_t missed[ORR_LINK_MISSES]; /* host_ops without a counterpart, by reason */
} orr_link_report;

/* Statistics of reading. Zeroed by the reader. */
typedef struct orr_read_report {
    orr_format format;
    uint64_t bytes;   /* of the decompressed input                       */
    uint64_t events;  /* records read, including those that make no node */
    uint64_t ignored; /* flows and metadata: used, but not nodes of their own */
    uint64_t faults[ORR_TRACE_FAULTS];
    uint64_t first_fault_byte; /* UINT64_MAX: none */
    uint64_t orphans;          /* device work whose launch is not in the recording */
    bool linked;
    orr_link_report link;
} orr_read_report;

typedef struct orr_read_options {
    size_t struct_bytes; /* set by orr_read_options_init()                      */
    bool tolerant;       /* default off                                         */
    orr_format format;   /* UNKNOWN: detect by content (default) */
    bool attributes;     /* keep shapes, grids, ...; default on */
    bool lowered;        /* CHAKRA that Orrery wrote: as Chakra's readers see it, not the graph that
                          * was written; default off */
    int threads;         /* files read in parallel; 0: one per core (default) */
    /* Called now and then with bytes done and total; false cancels. From any of the reading
     * threads, one at a time. May be NULL. */
    bool (*progress)(void *ctx, uint64_t done_bytes, uint64_t total_bytes);
    void *progress_ctx;
} orr_read_options;
ORR_API void orr_read_options_init(orr_read_options *options);

/* Format of a file by its content; "-" is standard input and cannot be asked. */
ORR_API ORR_MUST_CHECK orr_status orr_trace_detect(const char *path, orr_format *ret_format,
                                                   orr_error *err);

/* Reads one file into the graph of one rank, with the dependencies that the file states or that can
 * be recovered from it alone. Plain, gzip or zstd, by content. "-" is standard input. The rank is
 * taken from the content, else from the file name ("rank3.json", "rank-3...", "trace.3.et"), else
 * unknown. `options` and `report` may be NULL. Free with orr_graph_free(). Errors: IO, PARSE,
 * INVALID (cycle, unknown id, duplicate id), UNSUPPORTED, LIMIT, NO_MEMORY, CANCELED. */
ORR_API ORR_MUST_CHECK orr_status orr_trace_read(const char *path, const orr_read_options *options,
                                                 const orr_graph **ret_graph,
                                                 orr_read_report *report, orr_error *err);
/* The same from memory; `bytes` is borrowed for the call. */
ORR_API ORR_MUST_CHECK orr_status orr_trace_read_memory(const void *bytes, size_t len,
                                                        const orr_read_options *options,
                                                        const orr_graph **ret_graph,
                                                        orr_read_report *report, orr_error *err);

/* Links the host trace (PyTorch execution trace) and the device trace (Kineto) of one rank and run
 * into one graph: every node of both; operators with tensors, groups and call tree from the host
 * trace; times and device work from the device trace; dependencies of both. Operators are matched
 * by record-function id where present, otherwise by order within threads. The inputs are borrowed
 * for the call. */
ORR_API ORR_MUST_CHECK orr_status orr_trace_link(const orr_graph *host, const orr_graph *device,
                                                 const orr_graph **ret_graph,
                                                 orr_link_report *report, orr_error *err);

/* What orr_job_read() did with a file. In the caller's arena. */
typedef struct orr_job_file {
    const char *path;
    const char *paired_with; /* the trace that this host trace was linked to, or that this memory
                              * snapshot was added to; or NULL */
    uint32_t rank;
    orr_read_report report;
} orr_job_file;

/* Resolves files, directories, archives and globs to recordings: each path in the arena, each file
 * once; those of a directory, archive or glob in natural order of their names (numbers by value).
 * An existing path stands for itself, whatever characters it has; "-" stays "-". A directory gives
 * its files of a known format, not recursively. An archive (tar, plain or compressed, or zip; known
 * by its content) gives its members of a known format, in whatever folder of it, as
 * "job.tgz/rank1.json", which is also the path to read one by. Errors: NOT_FOUND (a path, archive
 * or glob without a file), IO, NO_MEMORY; of archives also PARSE (damaged), INVALID (a name that
 * leaves the archive, or stands in it twice, a link), LIMIT (it unpacks to over 500 times its
 * size), UNSUPPORTED (encrypted, an archive in an archive, no libarchive). */
ORR_API ORR_MUST_CHECK orr_status orr_trace_find(const char *const *paths, size_t n_paths,
                                                 orr_arena *arena, const char *const **ret_files,
                                                 size_t *ret_n_files, orr_error *err);

/* Reads files, directories, archives and globs into a job. Directories are searched for files of a
 * known format, not recursively; several files of one rank must be one host and one device trace,
 * which are linked, and a memory snapshot (TORCH_MEMORY), whose events are added to it. A host trace
 * of no known rank is of the device trace of its process; beside those of other processes alone it is
 * INVALID. A rank missing in 0..max is reported, not an error: see job->graph_of_rank. Errors as
 * orr_trace_read(), and NOT_FOUND (nothing to read). */
ORR_API ORR_MUST_CHECK orr_status orr_job_read(const char *const *paths, size_t n_paths,
                                               const orr_read_options *options, orr_arena *arena,
                                               const orr_job **ret_job,
                                               const orr_job_file **ret_files, size_t *ret_n_files,
                                               orr_error *err);

/* Writes a graph to a file, complete or not at all: under a temporary name, then renamed. A path
 * that ends in .gz or .zst is compressed; "-" is standard output. CHAKRA: readable by Chakra's own
 * readers, with exact times in the attributes start_ns and duration_ns. Errors: IO, UNSUPPORTED (a
 * format that is only read), LIMIT (DOT: too many nodes for a picture), NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_trace_write(const char *path, orr_format format,
                                                  const orr_graph *graph, orr_error *err);
/* Writes all ranks to one file, on the job's clock: PERFETTO and CHROME only. */
ORR_API ORR_MUST_CHECK orr_status orr_job_write(const char *path, orr_format format,
                                                const orr_job *job, orr_error *err);

/* A part of a recording. The order of its nodes is that of the whole: what waited for a node that
 * is left out waits for the nearest kept ones before it, or for a node without duration that takes
 * its place where these are many (a METADATA node of a thread, SYNC on a stream). */
typedef struct orr_part {
    const uint8_t *keep;   /* shape (N): is the node kept? NULL: all are */
    const char *about;     /* what the part is, "step 3", which its file will say; NULL: nothing */
    const uint32_t *ranks; /* shape (n_ranks): the part is of a sample of the job's ranks, these, in
                            * order, as its file will say; NULL: of all that there are */
    uint32_t n_ranks;
    uint32_t rank, world_size; /* with `ranks`: of graph and job, where the graph does not know */
} orr_part;
/* Free with orr_graph_free(). Errors: LIMIT (over 2^31 - 1 nodes), NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_trace_part(const orr_graph *graph, const orr_part *part,
                                                 const orr_graph **ret_graph, orr_error *err);
/* Sets keep[v] = 1, shape (N), for the first operator or annotation of that name, or node "#12" (of
 * a Chakra file its id, else its number in the graph), for what is nested in it, what began on any
 * thread while it was open if it is an annotation, and what all of these called or enqueued.
 * `within`, shape (N) or NULL: a name is looked for among these nodes. Errors: NOT_FOUND,
 * NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_trace_subtree(const orr_graph *graph, const char *name,
                                                    const uint8_t *within, uint8_t *keep,
                                                    orr_error *err);

/* What a job's files say of being a sample of its ranks. */
typedef struct orr_job_sample {
    const uint8_t *sampled; /* shape (R): is the rank in the sample? NULL: it is no sample */
    uint32_t n_sampled;
    uint32_t outside; /* communications in no match because members lie outside of the sample */
} orr_job_sample;
/* In the arena. Errors: NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_job_sample_of(const orr_job *job, orr_arena *arena,
                                                    orr_job_sample *ret, orr_error *err);

/* A small graph of one pattern, as Chakra's generator makes it ("all_reduce", or "ALL_REDUCE" as
 * its files are called there): written as CHAKRA node for node the same, but for ids, which begin
 * with 0 in every file. Free with orr_graph_free(). Errors: NOT_FOUND (no such pattern), NO_MEMORY.
 */
typedef struct orr_chakra_generate_options {
    uint64_t bytes;     /* of a tensor or collective; 0: 1024, or 65536 of a collective */
    int64_t runtime_ns; /* of a node of compute */
} orr_chakra_generate_options;
ORR_API ORR_MUST_CHECK orr_status orr_chakra_generate(const char *pattern,
                                                      const orr_chakra_generate_options *options,
                                                      const orr_graph **ret_graph, orr_error *err);
/* Name of pattern i = 0, 1, ... and what it is; NULL: there are no more. */
ORR_API const char *orr_chakra_pattern_name(uint32_t i, const char **ret_about);
/* What Chakra calls its files, or NULL: no pattern. */
ORR_API const char *orr_chakra_pattern_file(const char *pattern);

#ifdef __cplusplus
}
#endif

#endif /* ORR_TRACE_H */
