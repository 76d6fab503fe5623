/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/policy/cost_model.h"

#include <math.h>
#include <string.h>

/* Branchless and inline, unlike fmax(). */
static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* --- a layer ---------------------------------------------------------------------------------- */

static void fill_flows(orr_layer *layer, const orr_flows *f, uint32_t index)
{
    const double *rows = f->rows + (size_t)index * f->groups * f->experts;
    double sum = 0;
    for (uint32_t e = 0; e < layer->experts; e++)
        for (uint32_t r = 0; r < layer->ranks; r++) {
            if (f->dead != NULL && f->dead[r])
                continue;
            const uint32_t g = f->group[r];
            const double flow = rows[(size_t)g * f->experts + e] / f->live[g] / layer->costs->scale;
            layer->flow[(size_t)e * layer->ranks + r] = (float)flow;
            layer->host_flow[(size_t)e * layer->hosts + r / layer->host_ranks] += (float)flow;
            layer->total[e] += (float)flow;
            sum += flow;
        }
    layer->mean_rows = sum / layer->live;
}

orr_status orr_layer_new(const orr_flows *f, const orr_policy_problem *p, uint32_t index,
                         const orr_layer_costs *costs, const uint16_t *host, orr_arena *arena,
                         orr_layer *ret, orr_error *err)
{
    const size_t cells = (size_t)p->experts * p->ranks;
    orr_layer layer = {.experts = p->experts,
                       .ranks = p->ranks,
                       .hosts = p->hosts,
                       .host_ranks = p->host_ranks,
                       .by_share = p->options->by_share,
                       .costs = costs,
                       .host = host};
    for (uint32_t g = 0; g < f->groups; g++)
        layer.live += f->live[g];
    layer.flow = orr_arena_array(arena, float, cells);
    layer.host_flow = orr_arena_array(arena, float, (size_t)p->experts * p->hosts);
    layer.total = orr_arena_array(arena, float, p->experts);
    layer.apart = f->sampled > 0 ? orr_arena_array(arena, float, cells) : NULL;
    layer.has = orr_arena_array(arena, uint8_t, cells);
    layer.copy = orr_arena_array(arena, uint16_t, cells);
    layer.copies = orr_arena_array(arena, uint16_t, p->experts);
    layer.used = orr_arena_array(arena, uint32_t, p->ranks);
    layer.rows = orr_arena_array(arena, double, p->ranks);
    layer.host_of = orr_arena_array(arena, uint16_t, p->ranks);
    bool memory = layer.flow != NULL && layer.host_flow != NULL && layer.total != NULL &&
                  (layer.apart != NULL || f->sampled == 0) && layer.has != NULL &&
                  layer.copy != NULL && layer.copies != NULL && layer.used != NULL &&
                  layer.rows != NULL && layer.host_of != NULL;
    for (int end = 0; end < 2; end++)
        for (int level = 0; level < ORR_LEVELS; level++) {
            layer.port[end][level] = orr_arena_array(arena, double, p->ranks);
            memory &= layer.port[end][level] != NULL;
        }
    if (!memory)
        return orr_fail_memory(err);
    for (uint32_t r = 0; r < p->ranks; r++)
        layer.host_of[r] = (uint16_t)(r / p->host_ranks);
    fill_flows(&layer, f, index);
    for (size_t i = 0; layer.apart != NULL && i < cells; i++)
        layer.apart[i] = 1;
    *ret = layer;
    return ORR_OK;
}

void orr_layer_add(orr_layer *layer, uint32_t expert, uint32_t rank)
{
    uint16_t *copy = layer->copy + (size_t)expert * layer->ranks;
    uint32_t at = layer->copies[expert]++;
    for (; at > 0 && copy[at - 1] > rank; at--)
        copy[at] = copy[at - 1];
    copy[at] = (uint16_t)rank;
    layer->has[(size_t)expert * layer->ranks + rank] = 1;
    layer->used[rank]++;
}

void orr_layer_drop(orr_layer *layer, uint32_t expert, uint32_t rank)
{
    uint16_t *copy = layer->copy + (size_t)expert * layer->ranks;
    uint32_t at = 0;
    while (copy[at] != rank)
        at++;
    layer->copies[expert]--;
    for (; at < layer->copies[expert]; at++)
        copy[at] = copy[at + 1];
    layer->has[(size_t)expert * layer->ranks + rank] = 0;
    layer->used[rank]--;
}

/* --- what an expert adds to the sums ---------------------------------------------------------- */

double orr_layer_row_ns(const orr_layer *layer, uint32_t expert, uint32_t rank, int level)
{
    const double apart =
        layer->apart != NULL ? (double)layer->apart[(size_t)expert * layer->ranks + rank] : 1;
    return layer->costs->combine_ns[level] + layer->costs->dispatch_ns[level] * apart;
}

static void add_rows(orr_layer *layer, uint32_t rank, double rows)
{
    const double before = layer->rows[rank], after = before + rows;
    layer->rows[rank] = after;
    layer->squares += (after - before) * (after + before);
}

/* Rows that leave a copy for tokens of other ranks. */
static void add_link(orr_layer *layer, uint32_t expert, uint32_t rank, int level, double rows)
{
    const double ns = rows * orr_layer_row_ns(layer, expert, rank, level);
    layer->links += ns;
    if (layer->with_ports)
        layer->port[0][level][rank] += ns;
}

/* The same rows where they enter: at the ranks of the tokens. A row costs there what it costs as a
 * mean over the copies. */
static void add_entries(orr_layer *layer, uint32_t expert, double sign)
{
    const uint16_t *copy = layer->copy + (size_t)expert * layer->ranks;
    const float *flow = layer->flow + (size_t)expert * layer->ranks;
    const uint8_t *has = layer->has + (size_t)expert * layer->ranks;
    const uint32_t n = layer->copies[expert];
    double ns[ORR_LEVELS] = {0};
    for (uint32_t i = 0; i < n; i++)
        for (int level = 0; level < ORR_LEVELS; level++)
            ns[level] += sign * orr_layer_row_ns(layer, expert, copy[i], level) / n;
    for (uint32_t h = 0, i = 0; h < layer->hosts; h++) {
        const uint32_t begin = h * layer->host_ranks;
        const uint32_t end =
            begin + layer->host_ranks < layer->ranks ? begin + layer->host_ranks : layer->ranks;
        const uint32_t first = i;
        while (i < n && copy[i] < end)
            i++;
        const double near = (double)(i - first) / n; /* share of copies on this host */
        for (uint32_t r = begin; r < end; r++) {
            const double rows = (double)flow[r];
            if (layer->by_share) {
                layer->port[1][ORR_HOST][r] += rows * ns[ORR_HOST] * (near - (double)has[r] / n);
                layer->port[1][ORR_NETWORK][r] += rows * ns[ORR_NETWORK] * (1 - near);
            } else if (!has[r]) {
                const int level = i > first ? ORR_HOST : ORR_NETWORK;
                layer->port[1][level][r] += rows * ns[level];
            }
        }
    }
}

/* By shares alone: every copy has an equal part of the rows of every rank. */
static void add_by_share(orr_layer *layer, uint32_t expert, double sign)
{
    const uint16_t *copy = layer->copy + (size_t)expert * layer->ranks;
    const double n = layer->copies[expert], total = (double)layer->total[expert] * sign;
    for (uint32_t i = 0; i < layer->copies[expert]; i++) {
        const uint32_t r = copy[i];
        const double near =
            sign * (double)layer->host_flow[(size_t)expert * layer->hosts + r / layer->host_ranks];
        const double own = sign * (double)layer->flow[(size_t)expert * layer->ranks + r];
        add_rows(layer, r, total / n);
        add_link(layer, expert, r, ORR_HOST, (near - own) / n);
        add_link(layer, expert, r, ORR_NETWORK, (total - near) / n);
    }
}

static void add_nearest(orr_layer *layer, uint32_t expert, double sign)
{
    const uint16_t *copy = layer->copy + (size_t)expert * layer->ranks;
    const float *flow = layer->flow + (size_t)expert * layer->ranks;
    const float *host_flow = layer->host_flow + (size_t)expert * layer->hosts;
    const uint32_t n = layer->copies[expert];
    double far = (double)layer->total[expert]; /* of hosts without a copy */
    for (uint32_t i = 0, h = UINT32_MAX; i < n; i++)
        if (copy[i] / layer->host_ranks != h) {
            h = copy[i] / layer->host_ranks;
            far -= (double)host_flow[h];
        }
    far = larger(far, 0) * sign / n;
    for (uint32_t i = 0, next; i < n; i = next) {
        const uint32_t h = copy[i] / layer->host_ranks;
        double near = (double)host_flow[h]; /* of ranks of this host without a copy */
        for (next = i; next < n && copy[next] / layer->host_ranks == h; next++)
            near -= (double)flow[copy[next]];
        near = larger(near, 0) * sign / (next - i);
        for (uint32_t j = i; j < next; j++) {
            add_rows(layer, copy[j], sign * (double)flow[copy[j]] + near + far);
            add_link(layer, expert, copy[j], ORR_HOST, near);
            add_link(layer, expert, copy[j], ORR_NETWORK, far);
        }
    }
}

static void add_expert(orr_layer *layer, uint32_t expert, double sign)
{
    if (layer->copies[expert] == 0)
        return;
    if (layer->by_share)
        add_by_share(layer, expert, sign);
    else
        add_nearest(layer, expert, sign);
    if (layer->with_ports)
        add_entries(layer, expert, sign);
}

void orr_layer_take_out(orr_layer *layer, uint32_t expert)
{
    add_expert(layer, expert, -1);
}

void orr_layer_put_in(orr_layer *layer, uint32_t expert)
{
    add_expert(layer, expert, 1);
}

void orr_layer_sum(orr_layer *layer, bool with_ports)
{
    memset(layer->rows, 0, layer->ranks * sizeof *layer->rows);
    for (int end = 0; end < 2; end++)
        for (int level = 0; level < ORR_LEVELS; level++)
            memset(layer->port[end][level], 0, layer->ranks * sizeof(double));
    layer->links = layer->squares = 0;
    layer->with_ports = with_ports;
    for (uint32_t e = 0; e < layer->experts; e++)
        orr_layer_put_in(layer, e);
}

/* --- one more copy ---------------------------------------------------------------------------- */

/* The sums of all copies with one more, by taking the expert out and putting it in. */
static double gain_by_sums(orr_layer *layer, uint32_t expert, uint32_t rank)
{
    const double before = orr_layer_smooth(layer);
    orr_layer_take_out(layer, expert);
    orr_layer_add(layer, expert, rank);
    orr_layer_put_in(layer, expert);
    const double ret = before - orr_layer_smooth(layer);
    orr_layer_take_out(layer, expert);
    orr_layer_drop(layer, expert, rank);
    orr_layer_put_in(layer, expert);
    return ret;
}

/* Rows of an expert that a copy gets from other ranks: of its host, and of hosts without a copy. */
typedef struct spread {
    double near, far;
} spread;

/* What each copy on a host gets, now and with one more there. Returns the copies on the host. */
static uint32_t spread_rows(const orr_layer *layer, uint32_t expert, uint32_t rank, spread *ret_now,
                            spread *ret_then)
{
    const uint16_t *copy = layer->copy + (size_t)expert * layer->ranks;
    const float *flow = layer->flow + (size_t)expert * layer->ranks;
    const float *host_flow = layer->host_flow + (size_t)expert * layer->hosts;
    const uint32_t n = layer->copies[expert], host = layer->host_of[rank];
    double far = (double)layer->total[expert], near = (double)host_flow[host];
    uint32_t here = 0;
    for (uint32_t i = 0, h = UINT32_MAX; i < n; i++) {
        if (layer->host_of[copy[i]] != h) {
            h = layer->host_of[copy[i]];
            far -= (double)host_flow[h];
        }
        if (h == host) {
            near -= (double)flow[copy[i]];
            here++;
        }
    }
    *ret_now = (spread){here > 0 ? larger(near, 0) / here : 0, larger(far, 0) / n};
    far -= here == 0 ? (double)host_flow[host] : 0;
    *ret_then =
        (spread){larger(near - (double)flow[rank], 0) / (here + 1), larger(far, 0) / (n + 1)};
    return here;
}

double orr_layer_gain(orr_layer *layer, uint32_t expert, uint32_t rank)
{
    if (layer->by_share || layer->with_ports || layer->copies[expert] == 0)
        return gain_by_sums(layer, expert, rank);
    const uint16_t *copy = layer->copy + (size_t)expert * layer->ranks;
    const uint32_t host = layer->host_of[rank];
    const double own = (double)layer->flow[(size_t)expert * layer->ranks + rank];
    const double sum = layer->mean_rows * layer->live;
    spread now, then;
    const bool beside = spread_rows(layer, expert, rank, &now, &then) > 0;
    const double rows = own + then.near + then.far, far = then.far - now.far;
    double squares = rows * (2 * layer->rows[rank] + rows);
    double links = then.near * orr_layer_row_ns(layer, expert, rank, ORR_HOST) +
                   then.far * orr_layer_row_ns(layer, expert, rank, ORR_NETWORK);
    for (uint32_t i = 0; i < layer->copies[expert]; i++) {
        const uint32_t r = copy[i];
        const double near = beside && layer->host_of[r] == host ? then.near - now.near : 0;
        squares += (near + far) * (2 * layer->rows[r] + near + far);
        links += near * orr_layer_row_ns(layer, expert, r, ORR_HOST) +
                 far * orr_layer_row_ns(layer, expert, r, ORR_NETWORK);
    }
    return -links / layer->live - (sum > 0 ? layer->costs->evenness * squares / sum : 0);
}

/* --- measures --------------------------------------------------------------------------------- */

double orr_layer_smooth(const orr_layer *layer)
{
    const double sum = layer->mean_rows * layer->live;
    return layer->links / layer->live +
           (sum > 0 ? layer->costs->evenness * layer->squares / sum : 0);
}

double orr_layer_step(const orr_layer *layer)
{
    double port = 0, rows = 0;
    for (int end = 0; end < 2; end++)
        for (int level = 0; level < ORR_LEVELS; level++)
            for (uint32_t r = 0; r < layer->ranks; r++)
                port = larger(port, layer->port[end][level][r]);
    for (uint32_t r = 0; r < layer->ranks; r++)
        rows = larger(rows, layer->rows[r]);
    return port + rows * layer->costs->row_ns;
}
