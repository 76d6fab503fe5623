/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/traces/diagnose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "graph/device_work.h"
#include "graph/pollers.h"
#include "sim/stragglers.h"

/* Causes of lost time, a row of a table each: which time of the recording a cause claims, and the
 * option of `orrery predict` that mends it. Most claim pieces of the critical path across ranks;
 * synchronisations are never on a path themselves, but hold back what comes after, so that theirs
 * is the time of the calls on the rank with most. */
enum { KEYS_A_CAUSE = 4, KEY_MAX = 200 };

typedef struct claim {
    const struct cause *cause;
    const char *key;  /* what the option gets; in the arena */
    int64_t piece_ns; /* the time that was looked at, of which piece.lost_ns was lost */
    orr_lost_piece piece;
} claim;

typedef struct finder {
    const orr_job *job;
    const orr_device *device; /* of the recording; NULL: not known */
    orr_cost_chain roofline;
    bool *on_device; /* shape (D): was device work recorded? */
    orr_array(claim) claims;
    orr_arena *arena;
    orr_error *err;
} finder;

/* Is the piece of this cause? Writes what the option gets, and may lessen what was lost. */
typedef bool (*claims_piece)(finder *f, const orr_path_piece *piece, char key[KEY_MAX],
                             int64_t *lost_ns);

typedef struct cause {
    const char *name;
    claims_piece claims;
    const char *option;
    bool flag; /* the option takes no value */
    const char *measured;
} cause;

static const orr_graph *graph_of(const finder *f, const orr_path_piece *piece)
{
    return f->job->graphs[piece->graph];
}

/* A name that an option can hold: options are lists, which commas part. */
static bool option_text(char key[KEY_MAX], const char *prefix, const char *name, size_t len)
{
    const size_t until = strcspn(name, ",");
    if (len > until)
        len = until;
    const int n =
        snprintf(key, KEY_MAX, "%s%.*s", prefix, (int)(len < KEY_MAX ? len : KEY_MAX), name);
    return len > 0 && n > 0 && n < KEY_MAX;
}

static bool is_exposed(finder *f, const orr_path_piece *piece, char key[KEY_MAX], int64_t *lost_ns)
{
    const orr_graph *g = graph_of(f, piece);
    const uint8_t kind = g->kind[piece->node];
    const orr_comm *comm = orr_graph_comm(g, piece->node);
    (void)lost_ns;
    if ((kind != ORR_NODE_COLLECTIVE && kind != ORR_NODE_SEND && kind != ORR_NODE_RECV) ||
        piece->bound == ORR_BOUND_PEER || comm == NULL)
        return false;
    const char *name = orr_collective_name((orr_collective)comm->collective), *group = "";
    if (comm->group != ORR_NONE) {
        const orr_group *of = &g->groups[comm->group];
        group = orr_graph_str(g, of->desc);
        if (*group == '\0' || strcmp(group, "undefined") == 0)
            group = orr_graph_str(g, of->name);
    }
    if (*group == '\0' || strpbrk(group, ",="))
        return option_text(key, "comm:", name, strlen(name));
    char text[KEY_MAX];
    const int n = snprintf(text, sizeof text, "%s@%s", name, group);
    return n > 0 && n < KEY_MAX && option_text(key, "comm:", text, strlen(text));
}

static bool is_loading(finder *f, const orr_path_piece *piece, char key[KEY_MAX], int64_t *lost_ns)
{
    (void)f, (void)lost_ns;
    return piece->bound == ORR_BOUND_DATA_LOADING &&
           option_text(key, "host:", "enumerate(DataLoader)", SIZE_MAX);
}

static bool is_allocation(finder *f, const orr_path_piece *piece, char key[KEY_MAX],
                          int64_t *lost_ns)
{
    static const char *const calls[] = {"cudaMalloc",     "cudaFree",      "cudaHostAlloc",
                                        "cudaMallocHost", "cudaFreeHost",  "hipMalloc",
                                        "hipFree",        "hipHostMalloc", "hipHostFree"};
    (void)f, (void)lost_ns;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(piece->name, calls[i]) == 0)
            return option_text(key, "host:", piece->name, strlen(piece->name));
    return false;
}

/* "Memcpy HtoD (Pageable -> Device)": of that direction, whatever the memory. */
static bool is_copy(finder *f, const orr_path_piece *piece, char key[KEY_MAX], int64_t *lost_ns)
{
    (void)lost_ns;
    return graph_of(f, piece)->kind[piece->node] == ORR_NODE_COPY &&
           (strstr(piece->name, "HtoD") || strstr(piece->name, "DtoH") ||
            strstr(piece->name, "HostToDevice") || strstr(piece->name, "DeviceToHost")) &&
           option_text(key, "", piece->name, strcspn(piece->name, "("));
}

/* What the host does while no device work is on the path, and the way from a launch to its work. */
static bool is_host_bound(finder *f, const orr_path_piece *piece, char key[KEY_MAX],
                          int64_t *lost_ns)
{
    (void)lost_ns;
    *key = '\0';
    return f->on_device[piece->graph] && !orr_is_synchronisation(piece->name) &&
           (piece->bound == ORR_BOUND_CPU || piece->bound == ORR_BOUND_HOST_GAP ||
            piece->bound == ORR_BOUND_LAUNCH || piece->bound == ORR_BOUND_KERNEL_GAP);
}

/* A kernel of known work that takes twice as long as the roofline says; lost is what is above. */
static bool is_slow_kernel(finder *f, const orr_path_piece *piece, char key[KEY_MAX],
                           int64_t *lost_ns)
{
    enum { FAR = 2 };
    const orr_graph *g = graph_of(f, piece);
    const int64_t took_ns = g->duration_ns[piece->node];
    orr_work work;
    if (f->device == NULL || piece->bound != ORR_BOUND_COMPUTE || piece->wait ||
        !orr_graph_on_device(g, piece->node) ||
        orr_work_of_node(g, piece->node, &work, NULL) != ORR_OK)
        return false;
    const orr_price price = orr_cost_price(&f->roofline, f->device, &work);
    if (price.basis == ORR_BASIS_ASSUMED || price.ns <= 0 || took_ns < FAR * price.ns)
        return false;
    *lost_ns = (int64_t)((double)*lost_ns * (1 - (double)price.ns / (double)took_ns));
    return option_text(key, "", piece->name, strlen(piece->name));
}

/* In this order: a piece is the first cause's that claims it. */
static const cause CAUSES[] = {
    {"exposed_communication", is_exposed, "remove", false,
     "transfers on the critical path across ranks"},
    {"data_loading", is_loading, "remove", false, "the data loader on the critical path"},
    {"memory_allocation", is_allocation, "remove", false,
     "calls that allocate or free device memory on the critical path"},
    {"host_device_copy", is_copy, "remove", false, "copies on the critical path"},
    {"kernel_below_roofline", is_slow_kernel, "scale", false,
     "time on the critical path above what the roofline says of the kernels"},
    {"launch_bound_host", is_host_bound, "cuda-graph", true,
     "the host, and the way from launch to kernel, on the critical path"},
};
static const cause HOST_WAIT = {"host_waits_for_device", NULL, "remove", false,
                                "calls that wait for the device, on the rank with most"};
static const cause WARM_UP = {
    "first_step_warm_up", NULL, "scale", false,
    "the first step above the median of the others, on the rank with most"};

static orr_status add_claim(finder *f, const cause *of, const char *key, int64_t piece_ns,
                            orr_lost_piece piece)
{
    const claim made = {of, orr_arena_strndup(f->arena, key, strlen(key)), piece_ns, piece};
    return made.key != NULL && orr_array_push(&f->claims, made) ? ORR_OK : orr_fail_memory(f->err);
}

static orr_status claim_path(finder *f, const orr_analysis_options *options)
{
    orr_critical_path path;
    char key[KEY_MAX];
    if (f->job->n_graphs == 0)
        return ORR_OK;
    ORR_TRY(orr_analyze_critical_path_job(f->job, options, f->arena, &path, f->err));
    for (size_t i = 0; i < path.n_pieces; i++)
        for (size_t c = 0; c < sizeof CAUSES / sizeof *CAUSES; c++) {
            const orr_path_piece *piece = &path.pieces[i];
            int64_t lost_ns = piece->to_ns - piece->from_ns;
            if (!CAUSES[c].claims(f, piece, key, &lost_ns))
                continue;
            ORR_TRY(
                add_claim(f, &CAUSES[c], key, piece->to_ns - piece->from_ns,
                          (orr_lost_piece){piece->graph, piece->node, piece->from_ns, lost_ns}));
            break;
        }
    return ORR_OK;
}

static bool waits_for_device(const orr_graph *g, orr_node_id v)
{
    if (g->kind[v] != ORR_NODE_RUNTIME)
        return false;
    for (uint32_t k = g->dep_first[v]; k < g->dep_first[v + 1]; k++)
        if (g->dep_kind[k] == ORR_DEP_SYNC && orr_graph_on_device(g, g->dep[k]))
            return true;
    return orr_is_synchronisation(orr_graph_str(g, g->name[v]));
}

static orr_status claim_waits(finder *f)
{
    char key[KEY_MAX];
    for (uint32_t d = 0; d < f->job->n_graphs; d++) {
        const orr_graph *g = f->job->graphs[d];
        for (orr_node_id v = 0; v < g->n_nodes && f->on_device[d]; v++) {
            const char *name = orr_graph_str(g, g->name[v]);
            if (!waits_for_device(g, v) || orr_lane_only_polls(g, g->lane[v]) ||
                !option_text(key, "host:", name, strlen(name)))
                continue;
            ORR_TRY(add_claim(
                f, &HOST_WAIT, key, g->duration_ns[v],
                (orr_lost_piece){d, v, orr_job_start_ns(f->job, d, v), g->duration_ns[v]}));
        }
    }
    return ORR_OK;
}

static int compare_ns(const void *a_, const void *b_)
{
    const int64_t *a = a_, *b = b_;
    return (*a > *b) - (*a < *b);
}

static orr_node_id node_called(const orr_graph *g, const char *name, orr_node_kind kind)
{
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (g->kind[v] == kind && strcmp(orr_graph_str(g, g->name[v]), name) == 0)
            return v;
    return ORR_NONE;
}

/* Time of a step's thread in which it does not wait for the device. */
static int64_t busy_ns(const orr_graph *g, orr_node_id step)
{
    const orr_lane_id lane = g->lane[step];
    const int64_t from_ns = g->start_ns[step], to_ns = from_ns + g->duration_ns[step];
    int64_t ns = g->duration_ns[step];
    for (uint32_t i = g->lane_first[lane]; i < g->lane_first[lane + 1]; i++) {
        const orr_node_id v = g->lane_node[i];
        if (g->start_ns[v] >= from_ns && g->start_ns[v] < to_ns && waits_for_device(g, v))
            ns -= g->duration_ns[v];
    }
    return ns;
}

/* The steps of one rank, by start. What the first takes longer is taken from the time in which its
 * thread did not wait. Names are parts of one another ("...#2", "...#22") only where
 * numbers have different lengths; then nothing is said, for an option would mean both. */
static orr_status claim_warm_up_of(finder *f, const orr_step_summary *steps, size_t n)
{
    enum { STEPS_LEAST = 3 };
    char key[KEY_MAX], text[KEY_MAX];
    int64_t *others = orr_arena_array(f->arena, int64_t, n);
    if (others == NULL)
        return orr_fail_memory(f->err);
    for (size_t i = 1; i < n; i++) {
        others[i - 1] = steps[i].duration_ns;
        if (strstr(steps[i].name, steps[0].name))
            return ORR_OK;
    }
    if (n < STEPS_LEAST)
        return ORR_OK;
    qsort(others, n - 1, sizeof *others, compare_ns);
    const int64_t usual_ns = others[(n - 1) / 2], lost_ns = steps[0].duration_ns - usual_ns;
    const uint32_t d = f->job->graph_of_rank[steps[0].rank];
    const orr_node_id v = node_called(f->job->graphs[d], steps[0].name, ORR_NODE_ANNOTATION);
    if (lost_ns <= 0 || v == ORR_NONE)
        return ORR_OK;
    const int64_t busy = busy_ns(f->job->graphs[d], v);
    snprintf(text, sizeof text, "%.80s=%.4f", steps[0].name,
             busy > lost_ns ? 1 - (double)lost_ns / (double)busy : 0);
    if (!option_text(key, "host:", text, strlen(text)))
        return ORR_OK;
    return add_claim(f, &WARM_UP, key, lost_ns, (orr_lost_piece){d, v, steps[0].start_ns, lost_ns});
}

static orr_status claim_warm_up(finder *f, const orr_analysis_options *options)
{
    const orr_step_summary *steps;
    size_t n;
    ORR_TRY(orr_analyze_steps(f->job, options, f->arena, &steps, &n, f->err));
    for (size_t first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && steps[end].rank == steps[first].rank;)
            end++;
        ORR_TRY(claim_warm_up_of(f, steps + first, end - first));
    }
    return ORR_OK;
}

static int compare_claims(const void *a_, const void *b_)
{
    const claim *a = a_, *b = b_;
    const int key = strcmp(a->key, b->key);
    if (a->cause != b->cause)
        return strcmp(a->cause->name, b->cause->name);
    if (key != 0)
        return key;
    if (a->piece.lost_ns != b->piece.lost_ns)
        return a->piece.lost_ns > b->piece.lost_ns ? -1 : 1;
    if (a->piece.graph != b->piece.graph)
        return a->piece.graph < b->piece.graph ? -1 : 1;
    return (a->piece.node > b->piece.node) - (a->piece.node < b->piece.node);
}

static int most_lost_first(const void *a_, const void *b_)
{
    const orr_lost *a = a_, *b = b_;
    const int by_cause = strcmp(a->cause, b->cause);
    if (by_cause != 0)
        return by_cause;
    return a->lost_ns != b->lost_ns ? (a->lost_ns > b->lost_ns ? -1 : 1)
                                    : strcmp(a->where, b->where);
}

/* Claims of one cause and key as one candidate. On a path time adds up; calls of ranks run side by
 * side, and the rank with most counts. */
static orr_status sum_up(finder *f, const claim *claims, size_t n, orr_lost *ret)
{
    const cause *of = claims[0].cause;
    int64_t *of_rank = orr_arena_array(f->arena, int64_t, f->job->n_graphs);
    orr_lost lost = {.cause = of->name,
                     .where = claims[0].key,
                     .option = of->option,
                     .value = of->flag ? NULL : claims[0].key,
                     .measured = of->measured,
                     .observations = n};
    if (of_rank == NULL)
        return orr_fail_memory(f->err);
    double recorded_ns = 0;
    for (size_t i = 0; i < n; i++) {
        const orr_lost_piece *piece = &claims[i].piece;
        int64_t *sum = of->claims != NULL ? &lost.lost_ns : &of_rank[piece->graph];
        *sum += piece->lost_ns;
        if (*sum > lost.lost_ns)
            lost.lost_ns = *sum;
        if (lost.n_pieces < ORR_LOST_PIECES)
            lost.pieces[lost.n_pieces++] = *piece;
        recorded_ns += (double)claims[i].piece_ns;
    }
    if (of->claims == is_slow_kernel && recorded_ns > 0) {
        char text[KEY_MAX + 16];
        const int len = snprintf(text, sizeof text, "%s=%.4f", claims[0].key,
                                 1 - (double)lost.lost_ns / recorded_ns);
        lost.value = orr_arena_strndup(f->arena, text, (size_t)len);
        if (lost.value == NULL)
            return orr_fail_memory(f->err);
    }
    *ret = lost;
    return ORR_OK;
}

static orr_status group_claims(finder *f, int64_t least_ns, orr_lost **ret, size_t *ret_n)
{
    claim *claims = f->claims.at;
    const size_t n_claims = f->claims.n;
    orr_lost *all = orr_arena_array(f->arena, orr_lost, n_claims);
    size_t n = 0, kept = 0, of_cause = 0;
    if (all == NULL)
        return orr_fail_memory(f->err);
    if (n_claims > 1)
        qsort(claims, n_claims, sizeof *claims, compare_claims);
    for (size_t i = 0, end; i < n_claims; i = end) {
        for (end = i + 1; end < n_claims && claims[end].cause == claims[i].cause &&
                          strcmp(claims[end].key, claims[i].key) == 0;)
            end++;
        ORR_TRY(sum_up(f, claims + i, end - i, &all[n]));
        n += all[n].lost_ns >= least_ns;
    }
    if (n > 1)
        qsort(all, n, sizeof *all, most_lost_first);
    for (size_t i = 0; i < n; i++) {
        of_cause = kept > 0 && strcmp(all[kept - 1].cause, all[i].cause) == 0 ? of_cause + 1 : 0;
        if (of_cause < KEYS_A_CAUSE)
            all[kept++] = all[i];
    }
    *ret = all;
    *ret_n = kept;
    return ORR_OK;
}

static const char *list_of(orr_arena *arena, const uint32_t *ranks, uint32_t n)
{
    enum { DIGITS = 11 };
    char *list = orr_arena_array(arena, char, (size_t)n *DIGITS + 1);
    size_t len = 0;
    for (uint32_t i = 0; list != NULL && i < n; i++)
        len += (size_t)snprintf(list + len, DIGITS + 1, "%s%u", i > 0 ? "," : "", ranks[i]);
    return list;
}

/* Ranks and stages that are slower than their peers, behind the `n` candidates that are there.
 * Where one rank or stage is, the differences as a whole are told as well. */
static orr_status add_slow_parts(finder *f, int64_t least_ns, orr_lost **ret, size_t *ret_n)
{
    static const char *const causes[] = {"slow_rank", "slow_stage", "load_imbalance"};
    const orr_slow_part *parts;
    size_t n_parts, n = *ret_n;
    ORR_TRY(orr_slow_parts_find(f->job, KEYS_A_CAUSE, f->arena, &parts, &n_parts, f->err));
    orr_lost *all = orr_arena_array(f->arena, orr_lost, n + n_parts);
    if (all == NULL)
        return orr_fail_memory(f->err);
    if (n > 0)
        memcpy(all, *ret, n * sizeof *all);
    for (size_t i = 0; i < n_parts; i++) {
        const orr_slow_part *part = &parts[i];
        char where[40];
        if (part->excess.ns < least_ns)
            continue;
        snprintf(where, sizeof where, "%s %u", orr_slow_kind_name((orr_slow_kind)part->kind),
                 part->number);
        all[n] = (orr_lost){
            .cause = causes[part->kind],
            .where = part->kind == ORR_SLOW_ALL ? "all ranks"
                                                : orr_arena_strndup(f->arena, where, strlen(where)),
            .option = "without-stragglers",
            .value =
                part->kind == ORR_SLOW_ALL ? "all" : list_of(f->arena, part->ranks, part->n_ranks),
            .measured = "operators and kernels above the median of the same ones on other ranks",
            .observations = part->excess.operations,
            .lost_ns = part->excess.ns};
        for (int k = 0; k < ORR_PEER_WORST && k < ORR_LOST_PIECES; k++) {
            const orr_node_id v = part->excess.worst[k];
            if (part->excess.worst_ns[k] > 0)
                all[n].pieces[all[n].n_pieces++] =
                    (orr_lost_piece){part->slowest, v, orr_job_start_ns(f->job, part->slowest, v),
                                     part->excess.worst_ns[k]};
        }
        if (all[n].where == NULL || all[n].value == NULL)
            return orr_fail_memory(f->err);
        n++;
    }
    *ret = all;
    *ret_n = n;
    return ORR_OK;
}

orr_status orr_diagnose_candidates(orr_session *session, const orr_device *device, int64_t least_ns,
                                   orr_lost **ret, size_t *ret_n)
{
    const orr_cost_model *const models[] = {orr_cost_roofline()};
    finder f = {.job = session->job,
                .device = device,
                .roofline = {models, 1},
                .on_device = orr_arena_array(session->arena, bool, session->job->n_graphs),
                .arena = session->arena,
                .err = &session->err};
    orr_status status = ORR_OK;
    if (f.on_device == NULL)
        return orr_fail_memory(f.err);
    for (uint32_t d = 0; d < f.job->n_graphs; d++)
        f.on_device[d] = orr_graph_has_device_work(f.job->graphs[d]);
    ORR_TRY_OUT(status, claim_path(&f, &session->analysis));
    ORR_TRY_OUT(status, claim_waits(&f));
    ORR_TRY_OUT(status, claim_warm_up(&f, &session->analysis));
    ORR_TRY_OUT(status, group_claims(&f, least_ns, ret, ret_n));
    ORR_TRY_OUT(status, add_slow_parts(&f, least_ns, ret, ret_n));
out:
    orr_array_done(&f.claims);
    return status;
}
