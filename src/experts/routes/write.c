/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/json/number.h"
#include "io/stream/output.h"

#include <orrery/experts.h>

/* Writer of routes as CSV. Experts are numbers below ORR_EXPERTS_MAX, whose digits are made once:
 * all that a choice costs is a copy of 4 bytes. */
enum { BUFFER_BYTES = 1 << 16, NUMBER_BYTES = 4 };

typedef struct writer {
    const orr_routes *routes;
    orr_output *out;
    bool kinds;
    char digits[ORR_EXPERTS_MAX][NUMBER_BYTES];
    uint8_t n_digits[ORR_EXPERTS_MAX];
    char buffer[BUFFER_BYTES];
    size_t n;
} writer;

static void make_digits(writer *w)
{
    for (uint32_t e = 0; e < w->routes->experts && e < ORR_EXPERTS_MAX; e++) {
        char text[ORR_INT_CHARS];
        w->n_digits[e] = (uint8_t)orr_print_uint64(text, e);
        memcpy(w->digits[e], text, w->n_digits[e]);
    }
}

/* Room for `n` bytes behind the buffer's text. */
static void reserve(writer *w, size_t n)
{
    if (w->n + n <= BUFFER_BYTES)
        return;
    orr_output_write(w->out, w->buffer, w->n);
    w->n = 0;
}

static void put_number(writer *w, uint64_t number)
{
    reserve(w, ORR_INT_CHARS + 1);
    w->n += orr_print_uint64(w->buffer + w->n, number);
    w->buffer[w->n++] = ',';
}

/* A name with quotes where commas or quotes are in it; CSV of routes has no line breaks within
 * fields, so that they become spaces. */
static void put_name(writer *w, const char *name)
{
    const bool quoted = name[strcspn(name, ",\"")] != '\0';
    if (quoted) {
        reserve(w, 1);
        w->buffer[w->n++] = '"';
    }
    for (; *name != '\0'; name++) {
        reserve(w, 4);
        w->buffer[w->n++] = *name == '\n' || *name == '\r' ? ' ' : *name;
        if (*name == '"')
            w->buffer[w->n++] = '"';
    }
    reserve(w, 2);
    if (quoted)
        w->buffer[w->n++] = '"';
    w->buffer[w->n++] = ',';
}

static void put_heading(writer *w)
{
    const orr_routes *r = w->routes;
    orr_output_printf(w->out, "%srequest,phase,token%s", w->kinds ? "subject," : "",
                      r->rank != NULL ? ",rank" : "");
    for (uint32_t l = 0; l < r->layers; l++)
        orr_output_printf(w->out, ",L%u", r->number[l]);
    for (uint32_t l = 0; r->score != NULL && l < r->layers; l++)
        orr_output_printf(w->out, ",S%u", r->number[l]);
    orr_output_text(w->out, "\n");
}

static void put_choices(writer *w, uint32_t layer, uint64_t token)
{
    uint16_t choice[ORR_ROUTE_CHOICES_MAX];
    orr_routes_choices(w->routes, layer, token, 1, choice);
    reserve(w, (size_t)w->routes->top_k * (NUMBER_BYTES + 1));
    char *at = w->buffer + w->n;
    for (uint32_t k = 0; k < w->routes->top_k; k++) {
        memcpy(at, w->digits[choice[k]], NUMBER_BYTES);
        at += w->n_digits[choice[k]];
        *at++ = ';';
    }
    at[-1] = ',';
    w->n = (size_t)(at - w->buffer);
}

static void put_scores(writer *w, uint32_t layer, uint64_t token)
{
    const float *score = w->routes->score[layer] + token * w->routes->top_k;
    for (uint32_t k = 0; k < w->routes->top_k; k++) {
        reserve(w, ORR_DOUBLE_CHARS);
        w->n += (size_t)snprintf(w->buffer + w->n, ORR_DOUBLE_CHARS, "%.9g;", (double)score[k]);
    }
    w->buffer[w->n - 1] = ',';
}

static void put_row(writer *w, uint64_t t)
{
    const orr_routes *r = w->routes;
    const uint32_t request = r->request[t];
    if (w->kinds)
        put_name(w, r->kind_name[r->kind[request]]);
    put_name(w, r->request_name[request]);
    reserve(w, 2);
    w->buffer[w->n++] = r->phase[t] == ORR_ROUTE_PREFILL ? 'p' : 'd';
    w->buffer[w->n++] = ',';
    put_number(w, r->position[t]);
    if (r->rank != NULL)
        put_number(w, r->rank[t]);
    for (uint32_t l = 0; l < r->layers; l++)
        put_choices(w, l, t);
    for (uint32_t l = 0; r->score != NULL && l < r->layers; l++)
        put_scores(w, l, t);
    w->buffer[w->n - 1] = '\n';
}

orr_status orr_routes_write(const orr_routes *routes, const char *path, orr_error *err)
{
    writer *w = orr_malloc(sizeof *w);
    if (w == NULL)
        return orr_fail_memory(err);
    w->routes = routes;
    w->n = 0;
    w->kinds = routes->kinds > 1 || routes->kind_name[0][0] != '\0';
    orr_status status = orr_output_open(path, &w->out, err);
    if (status == ORR_OK) {
        make_digits(w);
        put_heading(w);
        for (uint64_t t = 0; t < routes->tokens; t++)
            put_row(w, t);
        orr_output_write(w->out, w->buffer, w->n);
        status = orr_output_finish(w->out, err);
        orr_output_close(w->out);
    }
    orr_free(w);
    return status;
}
