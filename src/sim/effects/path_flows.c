/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/effects/path_flows.h"

#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "sim/effects/multipath.h"

static const double PACKET_BYTES = 4096;
/* Streams of random numbers: hashes of a draw, and losses of a transfer on a path. */
enum { HASHES = 1, LOSSES = 2 };
static const uint32_t OTHERS = UINT32_MAX; /* instead of a transfer */

typedef orr_path_group group;

typedef struct player {
    const orr_path_job *job;
    uint64_t draw;
    uint64_t *on;    /* shape (n_traffic + 1, paths): flows; the last row: other jobs' */
    uint64_t *dealt; /* shape (n_traffic + 1): flows on all paths */
    group *active;   /* shape (n + 1) */
    uint32_t n_active;
    uint32_t path;
    double capacity; /* of the path */
    int64_t *ret_ns;
} player;

/* --- dealing --------------------------------------------------------------------------------- */

static bool is_pooled(const orr_path_traffic *t)
{
    return t->balance == ORR_BALANCE_ADAPTIVE || t->balance == ORR_BALANCE_UNKNOWN;
}

static uint32_t at_least_one(uint32_t x)
{
    return x > 0 ? x : 1;
}

/* Evenly, down to parts of a flow, where all paths are shared as one: `on` then counts connections
 * in units of one over the paths that work. */
static void deal_traffic(player *p, uint32_t i)
{
    const orr_path_network *net = &p->job->network;
    const orr_path_traffic *t = &p->job->traffic[i];
    uint64_t *on = p->on + (size_t)i * net->paths;
    const orr_multipath_job deal = {.balance = t->balance,
                                    .flows = t->connections,
                                    .queue_pairs = at_least_one(t->queue_pairs),
                                    .segments = at_least_one(t->segments),
                                    .paths = net->paths,
                                    .failed = net->failed,
                                    .seed = p->job->seed};
    if (!is_pooled(t)) {
        p->dealt[i] = orr_multipath_deal(&deal, p->draw << 20 | HASHES << 16 | i, on);
        return;
    }
    for (uint32_t path = net->failed; path < net->paths; path++)
        on[path] = t->connections;
    p->dealt[i] = (uint64_t)t->connections * (net->paths - net->failed);
}

static void deal_others(player *p)
{
    const orr_path_network *net = &p->job->network;
    const uint32_t row = p->job->n_traffic;
    const double flows =
        net->others_port > 0 ? ceil(net->others_frac * net->bytes_per_s / net->others_port) : 0;
    const orr_multipath_job deal = {.balance = ORR_BALANCE_ECMP,
                                    .flows = (uint32_t)fmin(flows, UINT32_MAX),
                                    .paths = net->paths,
                                    .failed = net->failed,
                                    .seed = p->job->seed};
    p->dealt[row] = orr_multipath_deal(&deal, p->draw << 20 | HASHES << 16 | row,
                                       p->on + (size_t)row * net->paths);
}

/* --- rates ----------------------------------------------------------------------------------- */

/* Max-min fair shares of `capacity` among the groups of one priority: flows that their cap holds
 * below the fair share are taken out until none is. Returns what is left. */
static double fill(player *p, uint8_t priority, double capacity)
{
    double flows = 0, left = capacity;
    bool again = true;
    for (uint32_t i = 0; i < p->n_active; i++)
        if (p->active[i].priority == priority) {
            p->active[i].rate = -1;
            flows += p->active[i].flows;
        }
    while (again && flows > 0) {
        const double share = fmax(left, 0) / flows;
        again = false;
        for (uint32_t i = 0; i < p->n_active; i++) {
            group *g = &p->active[i];
            if (g->priority != priority || g->rate >= 0 || g->cap > share)
                continue;
            g->rate = g->cap;
            left -= g->cap * g->flows;
            flows -= g->flows;
            again = true;
        }
    }
    const double share = flows > 0 ? fmax(left, 0) / flows : 0;
    for (uint32_t i = 0; i < p->n_active; i++)
        if (p->active[i].priority == priority && p->active[i].rate < 0) {
            p->active[i].rate = share;
            left -= share * p->active[i].flows;
        }
    return fmax(left, 0);
}

static void set_rates(player *p)
{
    double left = p->capacity;
    uint32_t done = 0, next = 0;
    while (done < p->n_active) {
        uint32_t lowest = UINT8_MAX + 1, count = 0;
        for (uint32_t i = 0; i < p->n_active; i++)
            if (p->active[i].priority >= next && p->active[i].priority < lowest)
                lowest = p->active[i].priority;
        for (uint32_t i = 0; i < p->n_active; i++)
            count += p->active[i].priority == lowest;
        left = fill(p, (uint8_t)lowest, left);
        done += count;
        next = lowest + 1;
    }
}

/* Packets of a queue pair under way. */
static double packets_under_way(const player *p, const group *g)
{
    const double bytes = fmin(g->rate * p->job->network.round_trip_ns * 1e-9, g->window_bytes);
    return 1 + bytes / g->queue_pairs / PACKET_BYTES;
}

/* Bytes/s that arrive for good. */
static double useful(const player *p, const group *g)
{
    const double l = p->job->network.loss_frac;
    if (!(l > 0))
        return g->rate;
    if (p->job->network.selective)
        return g->rate * (1 - l);
    return g->rate * (1 - l) / (1 - l + l * packets_under_way(p, g));
}

/* --- ends ------------------------------------------------------------------------------------ */

/* The most of n independent Poisson variables, as its quantile `unit`. */
static double most_of_poisson(double mean, double n, double unit)
{
    const double at = exp(log(fmax(unit, 1e-300)) / n); /* quantile of one of them */
    double one = exp(-mean), upto = one, k = 0;
    if (mean > 500) /* by the tail of a normal variable */
        return mean + sqrt(mean * 2 * log(fmax(n, 1)));
    while (upto < at && one > 0)
        one *= mean / ++k, upto += one;
    return k;
}

/* How much later than the mean the flow ends that has lost most. */
static double loss_tail_ns(const player *p, const group *g)
{
    const orr_path_network *net = &p->job->network;
    const double flows = g->flows * g->queue_pairs;
    const double packets = g->all_bytes / g->queue_pairs / PACKET_BYTES;
    const double wait_ns =
        (packets_under_way(p, g) - 1) * PACKET_BYTES * g->queue_pairs * 1e9 / fmax(g->rate, 1e-9);
    if (!(net->loss_frac > 0) || !(g->rate > 0))
        return 0;
    orr_random random = orr_random_of(p->job->seed, p->draw << 44 | (uint64_t)LOSSES << 40 |
                                                        (uint64_t)g->transfer << 12 | p->path);
    const double unit = orr_random_unit(&random);
    if (net->selective) {
        const double lost = flows * fmin(packets_under_way(p, g), packets) * net->loss_frac;
        return unit > exp(-lost) ? net->round_trip_ns : 0;
    }
    const double mean = packets * net->loss_frac;
    return fmax(0, most_of_poisson(mean, fmax(flows, 1), unit) - mean) * wait_ns;
}

/* What others of the priority, or above, have in flight beyond a round trip, at the end of a group
 * that leaves. */
static double queue_ns(const player *p, const group *g)
{
    const orr_path_network *net = &p->job->network;
    double bytes = 0, rate = 0;
    for (uint32_t i = 0; i < p->n_active; i++) {
        const group *other = &p->active[i];
        rate += other->rate * other->flows;
        if (other != g && other->priority <= g->priority)
            bytes += fmin(other->window_bytes, other->left_bytes) * other->flows;
    }
    if (rate < p->capacity * (1 - 1e-9))
        return 0;
    return fmin(net->room_ns, fmax(0, bytes * 1e9 / p->capacity - net->round_trip_ns));
}

static void end(player *p, uint32_t i, int64_t now_ns)
{
    const group *g = &p->active[i];
    if (g->transfer != OTHERS) {
        const double more_ns = loss_tail_ns(p, g) + queue_ns(p, g);
        const int64_t ns =
            now_ns - p->job->transfers[g->transfer].start_ns + (int64_t)ceil(more_ns);
        if (ns > p->ret_ns[g->transfer])
            p->ret_ns[g->transfer] = ns;
    }
}

/* --- one path -------------------------------------------------------------------------------- */

static void begin(player *p, uint32_t transfer)
{
    const orr_path_transfer *t = &p->job->transfers[transfer];
    const orr_path_traffic *of = &p->job->traffic[t->traffic];
    const double flows = (double)p->on[(size_t)t->traffic * p->job->network.paths + p->path];
    /* connections of a flow: 1 with ECMP, less where a connection has several */
    const double part = (double)of->connections / (double)p->dealt[t->traffic];
    const double window = of->window_bytes > 0 ? of->window_bytes * part : INFINITY;
    const double round_trip_s = p->job->network.round_trip_ns * 1e-9;
    if (!(flows > 0) || !(t->bytes > 0))
        return;
    const double bytes = t->bytes * part;
    p->active[p->n_active++] =
        (group){.transfer = transfer,
                .priority = of->priority,
                .flows = flows,
                .left_bytes = bytes,
                .all_bytes = bytes,
                .cap = fmin(of->port_bytes_per_s * part,
                            round_trip_s > 0 ? window / round_trip_s : INFINITY),
                .window_bytes = window,
                .queue_pairs = at_least_one(of->queue_pairs) * part};
}

static void begin_others(player *p)
{
    const orr_path_network *net = &p->job->network;
    const double flows = (double)p->on[(size_t)p->job->n_traffic * net->paths + p->path];
    if (flows > 0)
        p->active[p->n_active++] =
            (group){.transfer = OTHERS,
                    .priority = net->others_class,
                    .flows = flows,
                    .left_bytes = INFINITY,
                    .cap = net->others_port,
                    .window_bytes = net->others_port * net->round_trip_ns * 1e-9,
                    .queue_pairs = 1};
}

/* Whole ns until the first group has sent all; INT64_MAX: none ever will without another event. */
static int64_t until_end(const player *p)
{
    double least_ns = INFINITY;
    for (uint32_t i = 0; i < p->n_active; i++)
        if (p->active[i].rate > 0)
            least_ns = fmin(least_ns, p->active[i].left_bytes * 1e9 / useful(p, &p->active[i]));
    return least_ns < 9e18 ? (int64_t)ceil(least_ns) : INT64_MAX;
}

static void send(player *p, int64_t ns)
{
    for (uint32_t i = 0; i < p->n_active; i++)
        p->active[i].left_bytes -= useful(p, &p->active[i]) * 1e-9 * (double)ns;
}

/* Less than what passes in a thousandth of a ns counts as nothing. */
static void drop_ended(player *p, int64_t now_ns)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p->n_active; i++)
        if (p->active[i].left_bytes <= p->active[i].rate * 1e-12)
            end(p, i, now_ns);
    for (uint32_t i = 0; i < p->n_active; i++)
        if (p->active[i].left_bytes > p->active[i].rate * 1e-12)
            p->active[kept++] = p->active[i];
    p->n_active = kept;
}

/* False: what is left can never be sent, because other jobs leave nothing. */
static bool play_path(player *p, uint32_t path)
{
    const orr_path_job *job = p->job;
    uint32_t next = 0;
    p->path = path;
    p->n_active = 0;
    int64_t now_ns = job->n > 0 ? job->transfers[0].start_ns : 0;
    begin_others(p);
    const uint32_t endless = p->n_active;
    while (next < job->n || p->n_active > endless) {
        set_rates(p);
        const int64_t to_end_ns = until_end(p);
        const int64_t to_start_ns =
            next < job->n ? job->transfers[next].start_ns - now_ns : INT64_MAX;
        const int64_t ns = to_end_ns < to_start_ns ? to_end_ns : to_start_ns;
        if (ns == INT64_MAX)
            return false;
        send(p, ns);
        now_ns += ns;
        drop_ended(p, now_ns);
        while (next < job->n && job->transfers[next].start_ns == now_ns)
            begin(p, next++);
    }
    return true;
}

/* Paths that all have the same flows, of which none is lost at random. */
static bool are_alike(const player *p)
{
    bool alike = !(p->job->network.loss_frac > 0) && p->dealt[p->job->n_traffic] == 0;
    for (uint32_t i = 0; i < p->job->n_traffic; i++)
        alike &= is_pooled(&p->job->traffic[i]);
    return alike;
}

/* --- all paths ------------------------------------------------------------------------------- */

static orr_status check(const orr_path_job *job, orr_error *err)
{
    bool right = job->network.paths > job->network.failed && job->network.bytes_per_s > 0 &&
                 job->network.loss_frac < 1 && job->n_traffic < 1 << 16 && job->n < 1 << 28;
    for (uint32_t i = 0; i < job->n_traffic; i++)
        right &= job->traffic[i].port_bytes_per_s > 0;
    for (uint32_t i = 0; i < job->n; i++)
        right &= job->transfers[i].traffic < job->n_traffic &&
                 (i == 0 || job->transfers[i].start_ns >= job->transfers[i - 1].start_ns);
    return right
               ? ORR_OK
               : orr_fail(err, ORR_INVALID,
                          "flows over paths: %u paths, %u of them down, or transfers out of order",
                          job->network.paths, job->network.failed);
}

orr_status orr_path_flows_simulate(const orr_path_job *job, uint64_t draw, orr_path_room *room,
                                   int64_t *ret_ns, orr_error *err)
{
    player p = {.job = job, .draw = draw, .ret_ns = ret_ns};
    const size_t rows = (size_t)job->n_traffic + 1;
    orr_status status = ORR_OK;
    ORR_TRY(check(job, err));
    if (!orr_array_reserve(&room->on, rows * job->network.paths) ||
        !orr_array_reserve(&room->dealt, rows) ||
        !orr_array_reserve(&room->active, (size_t)job->n + 1))
        return orr_fail_memory(err);
    p.on = room->on.at;
    p.dealt = room->dealt.at;
    p.active = room->active.at;
    for (uint32_t i = 0; i < job->n_traffic; i++)
        deal_traffic(&p, i);
    deal_others(&p);
    p.capacity = job->network.bytes_per_s / job->network.paths;
    memset(ret_ns, 0, job->n * sizeof *ret_ns);
    const uint32_t last = are_alike(&p) ? job->network.failed + 1 : job->network.paths;
    for (uint32_t path = job->network.failed; path < last && status == ORR_OK; path++)
        if (!play_path(&p, path))
            status = orr_fail(err, ORR_INVALID, "other jobs' traffic leaves nothing of a path");
    return status;
}

void orr_path_room_done(orr_path_room *room)
{
    orr_array_done(&room->on);
    orr_array_done(&room->dealt);
    orr_array_done(&room->active);
}
