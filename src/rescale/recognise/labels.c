/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/hash_index.h"
#include "rescale/recognise/survey.h"

/* Phase, layer and micro-batch of each piece. Forward work is told by the spans around it
 * (annotations, modules) or, for layers, by repetition; backward work by the number that autograd
 * gave to the forward operator; what has no sign of its own goes with what came before it. */

static const char *text_of(const orr_graph *g, orr_node_id v)
{
    return orr_graph_str(g, g->name[v]);
}

static orr_phase phase_of_text(const char *text)
{
    if (strcasestr(text, "optimizer.step") != NULL)
        return ORR_PHASE_OPTIMIZER;
    if (strcasestr(text, "backward") != NULL)
        return ORR_PHASE_BACKWARD;
    return strcasestr(text, "forward") != NULL ? ORR_PHASE_FORWARD : ORR_PHASE_OTHER;
}

/* The number after a word, with at most one blank, '_', '#', '=' or '.' between; -1. */
static int32_t number_behind(const char *text, const char *word)
{
    const char *at = strcasestr(text, word);
    if (at == NULL)
        return -1;
    at += strlen(word);
    if (*at != '\0' && strchr(" _#=.:", *at) != NULL)
        at++;
    if (!isdigit((unsigned char)*at))
        return -1;
    const long value = strtol(at, NULL, 10);
    return value < 0 || value > 1000000 ? -1 : (int32_t)value;
}

static int32_t micro_batch_of_text(const char *text)
{
    static const char *const words[] = {"micro_batch", "microbatch", "micro-batch", "micro batch"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const int32_t n = number_behind(text, words[i]);
        if (n >= 0)
            return n;
    }
    return -1;
}

/* "nn.Module: TransformerLayer_3", "Block_3", "layers.3", "layer 3"; not LayerNorm_3. */
static int32_t layer_of_text(const char *text)
{
    static const char *const words[] = {"layers", "layer", "block"};
    if (strcasestr(text, "layernorm") != NULL || strcasestr(text, "layer_norm") != NULL)
        return -1;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const int32_t n = number_behind(text, words[i]);
        if (n >= 0)
            return n;
    }
    return -1;
}

/* Reads spans from the inside outwards: the nearest word of each kind counts, except that of layers
 * the outermost does, since layers hold modules that are called layers too. */
static void read_spans(const orr_graph *g, orr_step_piece *p)
{
    enum { MOST_LEVELS = 64 };
    orr_node_id v = g->parent[p->root];
    for (int level = 0; v != ORR_NONE && level < MOST_LEVELS; level++, v = g->parent[v]) {
        const char *text = text_of(g, v);
        if (p->phase == ORR_PHASE_OTHER)
            p->phase = (uint8_t)phase_of_text(text);
        if (p->micro_batch < 0)
            p->micro_batch = micro_batch_of_text(text);
        const int32_t layer = layer_of_text(text);
        if (layer >= 0)
            p->layer = layer;
    }
}

static void read_phases(orr_profiled_step *step)
{
    for (uint32_t i = 0; i < step->n_pieces; i++) {
        orr_step_piece *p = &step->pieces[i];
        read_spans(step->g, p);
        const char *name = text_of(step->g, p->root);
        if (p->of_backward || strncmp(name, "autograd::engine", 16) == 0)
            p->phase = ORR_PHASE_BACKWARD;
        else if (p->phase == ORR_PHASE_OTHER && (p->sequence >= 0 || p->layer >= 0))
            p->phase = ORR_PHASE_FORWARD;
        /* Work that follows the last backward pass and waits for it belongs to no pass. */
        if (p->phase == ORR_PHASE_OTHER && p->syncs)
            p->part = ORR_MODEL_PART_NONE;
    }
}

static uint64_t signature_of(const orr_profiled_step *step, const orr_step_piece *p)
{
    orr_node_id op;
    const char *name = text_of(step->g, p->root), *dims = orr_piece_dims(step, p, &op);
    const uint64_t a = orr_hash_bytes(name, strlen(name));
    return a << 32 | (dims == NULL ? 0 : orr_hash_bytes(dims, strlen(dims)));
}

bool orr_find_repetition(const uint64_t *signature, uint32_t n, uint32_t *ret_first,
                         uint32_t *ret_period, uint32_t *ret_count)
{
    enum { LEAST_PERIOD = 4, MOST = 6000 };
    uint32_t best = 0;
    if (n > MOST)
        n = MOST;
    for (uint32_t period = LEAST_PERIOD; period <= n / 2; period++) {
        uint32_t run = 0;
        for (uint32_t i = 0; i + period < n; i++) {
            run = signature[i] == signature[i + period] ? run + 1 : 0;
            const uint32_t count = run / period + 1;
            if (count < 2 || count * period <= best)
                continue;
            best = count * period;
            *ret_first = i + 1 - run;
            *ret_period = period;
            *ret_count = count;
        }
    }
    return best > 0;
}

/* Numbers layers, where nothing names them, by the longest repetition in the forward work. */
static orr_status layers_by_repetition(orr_profiled_step *step, orr_error *err)
{
    uint64_t *signature = orr_malloc((step->n_pieces + (size_t)1) * sizeof *signature);
    uint32_t *piece = orr_malloc((step->n_pieces + (size_t)1) * sizeof *piece);
    orr_status status = ORR_OK;
    uint32_t n = 0, first, period, count;
    if (signature == NULL || piece == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    for (uint32_t i = 0; i < step->n_pieces; i++)
        if (step->pieces[i].phase == ORR_PHASE_FORWARD) {
            piece[n] = i;
            signature[n++] = signature_of(step, &step->pieces[i]);
        }
    if (orr_find_repetition(signature, n, &first, &period, &count)) {
        step->layers_by = "repetition of the same operators with the same shapes";
        for (uint32_t i = 0; i < period * count; i++)
            step->pieces[piece[first + i]].layer = (int32_t)(i / period);
    }
out:
    orr_free(signature);
    orr_free(piece);
    return status;
}

/* Numbers micro-batches, where nothing names them: a new one begins where the layers begin again.
 */
static void count_forwards(orr_profiled_step *step)
{
    int32_t micro_batch = 0, last = -1;
    bool named = false;
    for (uint32_t i = 0; i < step->n_pieces; i++)
        named |= step->pieces[i].phase == ORR_PHASE_FORWARD && step->pieces[i].micro_batch >= 0;
    step->micro_batches_by = named ? "numbers in annotations" : "how often the layers begin again";
    for (uint32_t i = 0; i < step->n_pieces && !named; i++) {
        orr_step_piece *p = &step->pieces[i];
        if (p->phase != ORR_PHASE_FORWARD)
            continue;
        if (p->layer >= 0 && p->layer < last)
            micro_batch++;
        if (p->layer >= 0)
            last = p->layer;
        p->micro_batch = micro_batch;
    }
}

/* Numbers layers from 0 in order of time, and labels what comes before and after them. */
static void set_parts(orr_profiled_step *step)
{
    int32_t least = INT32_MAX, most = -1;
    for (uint32_t i = 0; i < step->n_pieces; i++) {
        const orr_step_piece *p = &step->pieces[i];
        if (p->phase != ORR_PHASE_FORWARD || p->layer < 0)
            continue;
        least = p->layer < least ? p->layer : least;
        most = p->layer > most ? p->layer : most;
    }
    step->layers = most < 0 ? 0 : (uint32_t)(most - least + 1);
    orr_step_piece *last = NULL;
    for (uint32_t i = 0; i < step->n_pieces; i++) {
        orr_step_piece *p = &step->pieces[i];
        if (p->phase != ORR_PHASE_FORWARD || p->role == ORR_ROLE_SEND_FORWARD ||
            p->role == ORR_ROLE_RECV_FORWARD)
            continue;
        const bool same = last != NULL && last->micro_batch == p->micro_batch;
        if (p->layer >= 0) {
            p->layer -= least;
            p->part = ORR_MODEL_PART_LAYER;
        } else if (!same || last->part == ORR_MODEL_PART_EMBEDDING) {
            p->part = ORR_MODEL_PART_EMBEDDING;
        } else if (last->part == ORR_MODEL_PART_LAYER && last->layer + 1 < (int32_t)step->layers) {
            p->part = ORR_MODEL_PART_LAYER;
            p->layer = last->layer;
        } else {
            p->part = ORR_MODEL_PART_HEAD;
        }
        if (p->micro_batch + 1 > (int32_t)step->micro_batches)
            step->micro_batches = (uint32_t)(p->micro_batch + 1);
        last = p;
    }
}

typedef struct number {
    int64_t sequence;
    uint32_t piece;
} number;

static int by_sequence(const void *a_, const void *b_)
{
    const number *a = a_, *b = b_;
    if (a->sequence != b->sequence)
        return a->sequence < b->sequence ? -1 : 1;
    return (a->piece > b->piece) - (a->piece < b->piece);
}

/* Collects autograd's sequence numbers of all operators; a backward piece names one of them. */
static orr_status gather_numbers(const orr_profiled_step *step, number **ret, size_t *ret_n,
                                 orr_error *err)
{
    orr_array(number) all = {0};
    for (uint32_t i = 0; i < step->n_pieces; i++) {
        const orr_step_piece *p = &step->pieces[i];
        for (uint32_t k = 0; k < p->n_nodes && p->phase == ORR_PHASE_FORWARD; k++) {
            const int64_t n =
                orr_node_number(step->g, step->nodes[p->first_node + k], "Sequence number", -1);
            if (n >= 0 && !orr_array_push(&all, ((number){n, i}))) {
                orr_array_done(&all);
                return orr_fail_memory(err);
            }
        }
    }
    if (all.n > 0)
        qsort(all.at, all.n, sizeof *all.at, by_sequence);
    *ret = all.at;
    *ret_n = all.n;
    return ORR_OK;
}

/* The last forward piece of that number, or NULL. */
static const orr_step_piece *forward_of(const orr_profiled_step *step, const number *all, size_t n,
                                        int64_t sequence)
{
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (all[middle].sequence <= sequence)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && all[low - 1].sequence == sequence ? &step->pieces[all[low - 1].piece] : NULL;
}

static void follow(orr_step_piece *p, const orr_step_piece *forward)
{
    p->part = forward->part;
    p->layer = forward->layer;
    if (p->micro_batch < 0)
        p->micro_batch = forward->micro_batch;
}

static orr_status label_backward(orr_profiled_step *step, orr_error *err)
{
    number *all = NULL;
    size_t n = 0;
    const orr_step_piece *last = NULL;
    ORR_TRY(gather_numbers(step, &all, &n, err));
    for (uint32_t i = 0; i < step->n_pieces; i++) {
        orr_step_piece *p = &step->pieces[i];
        if (p->phase != ORR_PHASE_BACKWARD)
            continue;
        step->trains = true;
        const orr_step_piece *forward =
            p->sequence >= 0 ? forward_of(step, all, n, p->sequence) : NULL;
        if (forward != NULL) {
            follow(p, forward);
            p->forward = (uint32_t)(forward - step->pieces);
        }
        if (forward == NULL && last != NULL &&
            (p->micro_batch < 0 || p->micro_batch == last->micro_batch) &&
            p->role != ORR_ROLE_SEND_BACKWARD && p->role != ORR_ROLE_RECV_BACKWARD)
            follow(p, last);
        if (p->part != ORR_MODEL_PART_NONE)
            last = p;
    }
    orr_free(all);
    return ORR_OK;
}

orr_status orr_survey_labels(orr_survey *s, orr_error *err)
{
    for (uint32_t d = 0; d < s->job->n_graphs; d++) {
        orr_profiled_step *step = &s->steps[d];
        read_phases(step);
        for (uint32_t i = 0; i < step->n_pieces; i++)
            if (step->pieces[i].phase == ORR_PHASE_FORWARD && step->pieces[i].layer >= 0)
                step->layers_named = true;
        if (step->layers_named)
            step->layers_by = "numbered modules or annotations";
        else
            ORR_TRY(layers_by_repetition(step, err));
        count_forwards(step);
        set_parts(step);
        ORR_TRY(label_backward(step, err));
    }
    return ORR_OK;
}
