/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/find_files.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/parallel_for.h"
#include "trace/archive.h"
#include "trace/common/reader.h"

/* Reads all files of a job in parallel, links the host and device trace of each rank, and builds
 * the job. */

/* Two files of one rank, by index. */
typedef struct pair {
    uint32_t host, device;
} pair;

/* Files [first, first + n) in reading.turn that one thread reads: those of an archive that can
 * only be unpacked from its beginning, or a single one. */
typedef struct work_item {
    size_t first, n;
} work_item;

/* All files of a job while they are read. */
typedef struct reading {
    const orr_found_file *found; /* shape (n) */
    const orr_found_file **turn; /* shape (n): those of an item by their places in the archive */
    orr_array(work_item) items;
    orr_job_file *files;      /* shape (n), in the caller's arena */
    const orr_graph **graphs; /* shape (n) */
    size_t n;
    const orr_read_options *options;
    orr_array(pair) pairs;
    orr_array(pair) memories; /* host: a memory snapshot; device: the trace that it is added to */
    pthread_mutex_t lock;     /* protects what follows */
    uint64_t *done_bytes;     /* shape (n) */
    uint64_t all_done_bytes, total_bytes;
} reading;

/* The file that a reader reports progress on. */
typedef struct reading_file {
    reading *reading;
    size_t index;
} reading_file;

static bool add_progress(void *ctx, uint64_t done_bytes, uint64_t total_bytes)
{
    const reading_file *file = ctx;
    reading *r = file->reading;
    (void)total_bytes;
    pthread_mutex_lock(&r->lock);
    r->all_done_bytes += done_bytes - r->done_bytes[file->index];
    r->done_bytes[file->index] = done_bytes;
    const bool go_on =
        r->options->progress == NULL ||
        r->options->progress(r->options->progress_ctx, r->all_done_bytes, r->total_bytes);
    pthread_mutex_unlock(&r->lock);
    return go_on;
}

static orr_status read_one(reading *r, const orr_found_file *found, orr_stream *stream,
                           orr_error *err)
{
    const size_t index = (size_t)(found - r->found);
    reading_file file = {r, index};
    orr_read_options options = *r->options;
    options.progress = r->options->progress != NULL ? add_progress : NULL;
    options.progress_ctx = &file;
    if (stream == NULL)
        ORR_TRY(
            orr_trace_read(found->path, &options, &r->graphs[index], &r->files[index].report, err));
    else
        ORR_TRY(orr_trace_read_stream(stream, found->path, &options, &r->graphs[index],
                                      &r->files[index].report, err));
    if (!add_progress(&file, found->bytes, 0))
        return orr_fail(err, ORR_CANCELED, "stopped while reading");
    return ORR_OK;
}

/* Members by increasing place, in one pass over their archive. */
static orr_status read_members(reading *r, const work_item *item, orr_archive *archive,
                               orr_error *err)
{
    for (size_t i = item->first; i < item->first + item->n; i++) {
        const orr_found_file *found = r->turn[i];
        orr_archive_member member = {.place = 0};
        orr_input input = {.stream = NULL};
        bool end = false;
        do
            ORR_TRY(orr_archive_next(archive, &member, &end, err));
        while (!end && member.place < found->place);
        if (end)
            return orr_fail(err, ORR_IO, "%s: the archive changed while it was read", found->path);
        orr_status status = orr_input_open_member(archive, &member, &input, err);
        if (status == ORR_OK)
            status = read_one(r, found, input.stream, err);
        input.archive = NULL;
        orr_input_close(&input);
        ORR_TRY(status);
    }
    return ORR_OK;
}

static orr_status read_item(void *ctx, size_t index, orr_error *err)
{
    reading *r = ctx;
    const work_item *item = &r->items.at[index];
    const orr_found_file *first = r->turn[item->first];
    orr_archive *archive;
    if (first->archive == NULL)
        return read_one(r, first, NULL, err);
    ORR_TRY(orr_archive_open(first->archive, &archive, err));
    const orr_status status = read_members(r, item, archive, err);
    orr_archive_close(archive);
    return status;
}

static int by_place(const void *a, const void *b)
{
    const orr_found_file *x = *(const orr_found_file *const *)a;
    const orr_found_file *y = *(const orr_found_file *const *)b;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* An item for each file, but one for all members of an archive that is sequential; they follow one
 * another, by name. */
static orr_status plan_items(reading *r, orr_error *err)
{
    for (size_t first = 0, last; first < r->n; first = last) {
        const orr_found_file *f = &r->found[first];
        for (last = first; last < r->n; last++) {
            r->turn[last] = &r->found[last];
            if (last > first && (!f->sequential || r->found[last].archive != f->archive))
                break;
        }
        qsort(r->turn + first, last - first, sizeof(const orr_found_file *), by_place);
        if (!orr_array_push(&r->items, ((work_item){first, last - first})))
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

static bool is_host_trace(const reading *r, size_t i)
{
    return r->files[i].report.format == ORR_FORMAT_PYTORCH_ET;
}

static bool is_device_trace(const reading *r, size_t i)
{
    return r->files[i].report.format == ORR_FORMAT_KINETO;
}

static bool is_snapshot(const reading *r, size_t i)
{
    return r->files[i].report.format == ORR_FORMAT_TORCH_MEMORY;
}

/* A file with the rank of its graph; those without a rank come last. */
typedef struct by_rank {
    uint32_t rank;
    uint32_t file;
} by_rank;

static int compare_ranks(const void *a, const void *b)
{
    const by_rank *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->file < y->file ? -1 : x->file > y->file;
}

static orr_status link_one(void *ctx, size_t index, orr_error *err)
{
    reading *r = ctx;
    const pair p = r->pairs.at[index];
    const orr_graph *linked;
    orr_job_file *h = &r->files[p.host], *d = &r->files[p.device];
    ORR_TRY(orr_trace_link(r->graphs[p.host], r->graphs[p.device], &linked, &h->report.link, err));
    orr_graph_free(r->graphs[p.host]);
    orr_graph_free(r->graphs[p.device]);
    r->graphs[p.host] = NULL;
    r->graphs[p.device] = linked;
    h->report.linked = d->report.linked = true;
    d->report.link = h->report.link;
    h->paired_with = d->path;
    return ORR_OK;
}

static orr_status add_pair(reading *r, size_t host, size_t device, orr_error *err)
{
    return orr_array_push(&r->pairs, ((pair){(uint32_t)host, (uint32_t)device}))
               ? ORR_OK
               : orr_fail_memory(err);
}

static orr_status add_memory(void *ctx, size_t index, orr_error *err)
{
    reading *r = ctx;
    const pair p = r->memories.at[index];
    const orr_graph *whole;
    ORR_TRY(orr_trace_add_memory(r->graphs[p.host], r->graphs[p.device], &whole, err));
    orr_graph_free(r->graphs[p.host]);
    orr_graph_free(r->graphs[p.device]);
    r->graphs[p.host] = NULL;
    r->graphs[p.device] = whole;
    r->files[p.host].paired_with = r->files[p.device].path;
    return ORR_OK;
}

/* The memory snapshot among the files of one rank goes to its device trace, or to the only other
 * one; what is left are files [0, *n). */
static orr_status settle_snapshot(reading *r, by_rank *files, size_t *n, orr_error *err)
{
    size_t snapshots = 0, kept = 0;
    pair p = {0};
    for (size_t i = 0; i < *n; i++)
        snapshots += is_snapshot(r, files[i].file);
    if (snapshots != 1 || *n < 2)
        return ORR_OK;
    for (size_t i = 0; i < *n; i++) {
        if (is_snapshot(r, files[i].file)) {
            p.host = files[i].file;
            continue;
        }
        if (kept == 0 || is_device_trace(r, files[i].file))
            p.device = files[i].file;
        files[kept++] = files[i];
    }
    *n = kept;
    return orr_array_push(&r->memories, p) ? ORR_OK : orr_fail_memory(err);
}

/* Files [0, n) of one rank: either one file, or a host and a device trace; and a snapshot. */
static orr_status settle_rank(reading *r, by_rank *files, size_t n, orr_error *err)
{
    ORR_TRY(settle_snapshot(r, files, &n, err));
    if (n == 1)
        return ORR_OK;
    const size_t a = files[0].file, b = files[1].file;
    if (n == 2 && is_host_trace(r, a) && is_device_trace(r, b))
        return add_pair(r, a, b, err);
    if (n == 2 && is_host_trace(r, b) && is_device_trace(r, a))
        return add_pair(r, b, a, err);
    return orr_fail(
        err, ORR_INVALID,
        "%zu recordings of rank %u: %s, %s%s; one host trace and one device trace make a rank", n,
        files[0].rank, r->files[a].path, r->files[b].path, n > 2 ? ", ..." : "");
}

/* The process of a recording's busiest thread; INT64_MIN: not recorded as a number. */
static int64_t process_of(const orr_graph *g)
{
    int64_t pid = INT64_MIN;
    uint32_t most = 0;
    for (uint32_t lane = 0; lane < g->n_lanes; lane++) {
        const uint32_t n = g->lane_first[lane + 1] - g->lane_first[lane];
        if (g->lanes[lane].kind == ORR_LANE_HOST && n > most) {
            most = n;
            pid = g->lanes[lane].pid;
        }
    }
    return pid;
}

static bool is_paired(const reading *r, size_t i)
{
    for (size_t p = 0; p < r->pairs.n; p++)
        if (r->pairs.at[p].host == i || r->pairs.at[p].device == i)
            return true;
    return false;
}

/* The only recording of a process that is not in a pair, of those that `is` selects; SIZE_MAX:
 * none, or several. */
static size_t only_of_process(const reading *r, bool (*is)(const reading *r, size_t i), int64_t pid)
{
    size_t found = SIZE_MAX, n = 0;
    for (size_t i = 0; i < r->n; i++)
        if (is(r, i) && !is_paired(r, i) && process_of(r->graphs[i]) == pid) {
            found = i;
            n++;
        }
    return n == 1 ? found : SIZE_MAX;
}

/* A host trace that does not tell its rank is of the rank whose device trace is of its process. */
static orr_status settle_processes(reading *r, orr_error *err)
{
    for (size_t i = 0; i < r->n; i++) {
        if (!is_host_trace(r, i) || r->graphs[i]->rank != ORR_NONE)
            continue;
        const int64_t pid = process_of(r->graphs[i]);
        const size_t device = only_of_process(r, is_device_trace, pid);
        if (pid != INT64_MIN && device != SIZE_MAX && only_of_process(r, is_host_trace, pid) == i)
            ORR_TRY(add_pair(r, i, device, err));
    }
    return ORR_OK;
}

/* The only host and the only device trace are linked even if their ranks do not tell, but not if
 * their processes say that they are of two. */
static orr_status settle_single_pair(reading *r, orr_error *err)
{
    size_t host = SIZE_MAX, device = SIZE_MAX, hosts = 0, devices = 0;
    for (size_t i = 0; i < r->n; i++) {
        if (is_host_trace(r, i))
            host = i, hosts++;
        else if (is_device_trace(r, i))
            device = i, devices++;
    }
    if (hosts != 1 || devices != 1 || r->pairs.n > 0)
        return ORR_OK;
    const uint32_t a = r->graphs[host]->rank, b = r->graphs[device]->rank;
    const int64_t x = process_of(r->graphs[host]), y = process_of(r->graphs[device]);
    if ((a != b && a != ORR_NONE && b != ORR_NONE) || (x != y && x != INT64_MIN && y != INT64_MIN))
        return ORR_OK;
    return add_pair(r, host, device, err);
}

/* "rank 3", or "no known rank", and the process. */
static void describe_owner(const orr_graph *g, char text[64])
{
    const int64_t pid = process_of(g);
    size_t n = g->rank == ORR_NONE ? (size_t)snprintf(text, 64, "no known rank")
                                   : (size_t)snprintf(text, 64, "rank %u", g->rank);
    if (g->rank == ORR_NONE && pid != INT64_MIN)
        (void)snprintf(text + n, 64 - n, ", of process %lld", (long long)pid);
}

/* A host trace has no times: beside recordings that have some it stands for nothing. */
static orr_status refuse_lone_host_traces(const reading *r, orr_error *err)
{
    size_t device = SIZE_MAX;
    for (size_t i = 0; i < r->n; i++)
        if (is_device_trace(r, i))
            device = i;
    for (size_t i = 0; device != SIZE_MAX && i < r->n; i++) {
        char mine[64], other[64];
        if (!is_host_trace(r, i) || is_paired(r, i))
            continue;
        const orr_graph *g = r->graphs[i], *of_device = r->graphs[device];
        describe_owner(g, mine);
        if (g->rank != ORR_NONE)
            describe_owner(of_device, other);
        else
            (void)snprintf(other, sizeof other, "process %lld", (long long)process_of(of_device));
        return orr_fail(err, ORR_INVALID,
                        "%s is the host trace of %s, and no device trace is of that %s (%s is of "
                        "%s): a host trace has no times of its own%s",
                        r->files[i].path, mine, g->rank != ORR_NONE ? "rank" : "process",
                        r->files[device].path, other,
                        g->rank != ORR_NONE ? "" : "; a file's name can tell its rank");
    }
    return ORR_OK;
}

/* A snapshot that no rank's trace was found for: of the only trace there is, if a rank is not
 * known. Snapshots alone, without any trace, are a job. */
static orr_status settle_lone_snapshots(reading *r, orr_error *err)
{
    size_t snapshot = SIZE_MAX, trace = SIZE_MAX, snapshots = 0, traces = 0;
    for (size_t i = 0; i < r->n; i++) {
        bool paired = false;
        for (size_t p = 0; p < r->pairs.n; p++)
            paired |= r->pairs.at[p].host == i;
        for (size_t p = 0; p < r->memories.n; p++)
            paired |= r->memories.at[p].host == i;
        if (paired)
            continue;
        if (is_snapshot(r, i))
            snapshot = i, snapshots++;
        else
            trace = i, traces++;
    }
    if (snapshots == 0 || traces == 0)
        return ORR_OK;
    if (snapshots == 1 && traces == 1 && r->memories.n == 0 &&
        (r->graphs[snapshot]->rank == ORR_NONE || r->graphs[trace]->rank == ORR_NONE))
        return orr_array_push(&r->memories, ((pair){(uint32_t)snapshot, (uint32_t)trace}))
                   ? ORR_OK
                   : orr_fail_memory(err);
    return orr_fail(
        err, ORR_INVALID,
        "%s is a memory snapshot, and it is not known of which rank's trace: name it by "
        "its rank (rank0.pickle)",
        r->files[snapshot].path);
}

static orr_status pair_up(reading *r, orr_error *err)
{
    orr_status status = ORR_OK;
    by_rank *files = orr_malloc(r->n * sizeof *files);
    if (files == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < r->n; i++)
        files[i] = (by_rank){r->graphs[i]->rank, (uint32_t)i};
    qsort(files, r->n, sizeof *files, compare_ranks);
    for (size_t first = 0, last; first < r->n; first = last) {
        for (last = first + 1; last < r->n && files[last].rank == files[first].rank;)
            last++;
        if (files[first].rank != ORR_NONE)
            ORR_TRY_OUT(status, settle_rank(r, files + first, last - first, err));
    }
    ORR_TRY_OUT(status, settle_processes(r, err));
    ORR_TRY_OUT(status, settle_single_pair(r, err));
    ORR_TRY_OUT(status, settle_lone_snapshots(r, err));
    status = refuse_lone_host_traces(r, err);
out:
    orr_free(files);
    return status;
}

/* The ranks of the files' graphs. Graphs that name none have got the free ranks, in their order. */
static void tell_ranks(reading *r, const orr_job *job)
{
    uint32_t d = 0;
    for (size_t i = 0; i < r->n; i++) {
        if (r->graphs[i] == NULL)
            continue;
        r->files[i].rank = r->graphs[i]->rank;
        if (r->files[i].rank != ORR_NONE)
            continue;
        while (job->graphs[d]->rank != ORR_NONE)
            d++;
        r->files[i].rank = job->rank_of_graph[d++];
    }
}

/* Builds the job, which takes over the remaining graphs; the files get their ranks. */
static orr_status build_job(reading *r, const orr_job **ret_job, orr_error *err)
{
    orr_status status;
    uint32_t n = 0;
    const orr_graph **left = orr_malloc(r->n * sizeof *left);
    if (left == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < r->n; i++)
        if (r->graphs[i] != NULL)
            left[n++] = r->graphs[i];
    ORR_TRY_OUT(status, orr_job_build(left, n, ret_job, err));
    tell_ranks(r, *ret_job);
    for (size_t i = 0; i < r->n; i++)
        for (size_t d = 0; r->files[i].paired_with != NULL && d < r->n; d++)
            if (r->files[d].path == r->files[i].paired_with)
                r->files[i].rank = r->files[d].rank;
    memset(r->graphs, 0, r->n * sizeof *r->graphs);
out:
    orr_free(left);
    return status;
}

static orr_status read_all(reading *r, const orr_job **ret_job, orr_error *err)
{
    r->graphs = orr_calloc(r->n, sizeof *r->graphs);
    r->done_bytes = orr_calloc(r->n, sizeof *r->done_bytes);
    r->turn = orr_calloc(r->n, sizeof *r->turn);
    if (r->graphs == NULL || r->done_bytes == NULL || r->turn == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < r->n; i++)
        r->total_bytes += r->found[i].bytes;
    ORR_TRY(plan_items(r, err));
    ORR_TRY(orr_parallel_for(r->items.n, r->options->threads, read_item, r, err));
    ORR_TRY(pair_up(r, err));
    ORR_TRY(orr_parallel_for(r->pairs.n, r->options->threads, link_one, r, err));
    ORR_TRY(orr_parallel_for(r->memories.n, r->options->threads, add_memory, r, err));
    return build_job(r, ret_job, err);
}

orr_status orr_job_read(const char *const *paths, size_t n_paths, const orr_read_options *options,
                        orr_arena *arena, const orr_job **ret_job, const orr_job_file **ret_files,
                        size_t *ret_n_files, orr_error *err)
{
    orr_read_options full;
    orr_read_options_init(&full);
    reading r = {.options = options != NULL ? options : &full};
    orr_status status;
    ORR_TRY(orr_find_files(paths, n_paths, arena, &r.found, &r.n, err));
    if (r.n == 0)
        return orr_fail(err, ORR_NOT_FOUND, "no recording there to read");
    r.files = orr_arena_array(arena, orr_job_file, r.n);
    if (r.files == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < r.n; i++)
        r.files[i] = (orr_job_file){.path = r.found[i].path, .rank = ORR_NONE};
    if (pthread_mutex_init(&r.lock, NULL) != 0)
        return orr_fail_memory(err);
    status = read_all(&r, ret_job, err);
    pthread_mutex_destroy(&r.lock);
    for (size_t i = 0; r.graphs != NULL && i < r.n; i++)
        orr_graph_free(r.graphs[i]);
    orr_free(r.graphs);
    orr_free(r.done_bytes);
    orr_free(r.turn);
    orr_array_done(&r.items);
    orr_array_done(&r.pairs);
    orr_array_done(&r.memories);
    if (status == ORR_OK) {
        *ret_files = r.files;
        *ret_n_files = r.n;
    }
    return status;
}
