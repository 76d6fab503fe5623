/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/checkpoint/shard_text.h"
#include "engine/step/shard_runs.h"
#include "fuzz.h"

/* The text of a shard in a checkpoint. What is read has runs within the shard and the whole tensor,
 * and is written and read back as the same shard. */

typedef struct held {
    int64_t begin, end, whole, seen;
} held;

static void check_run(void *ctx, int64_t own, int64_t whole, int64_t n)
{
    held *h = ctx;
    FUZZ_CHECK(n > 0 && own >= h->begin && own <= h->end - n);
    FUZZ_CHECK(whole >= 0 && whole <= h->whole - n);
    h->seen += n;
}

static void check_runs(const orr_shard_part *p)
{
    enum { FEW = 1 << 16 };
    held h = {p->begin, p->begin + p->n, orr_type_elements(&p->own.whole), 0};
    if (p->n > 0 && p->n <= FEW && h.whole >= 0)
        orr_shard_runs(&p->own, &p->type, p->begin, p->n, check_run, &h);
}

static void check_again(const orr_shard_part *p, orr_arena *arena)
{
    const orr_parameter as = {
        .own = p->own, .type = p->type, .shard_begin = p->begin, .shard_n = p->n};
    orr_shard_part again;
    const char *text = orr_shard_text(&as, arena);
    FUZZ_CHECK(text != NULL);
    FUZZ_CHECK(orr_shard_text_read(text, "again", arena, &again, NULL) == ORR_OK);
    FUZZ_CHECK((again.own.rows != NULL) == (p->own.rows != NULL));
    FUZZ_CHECK(again.begin == p->begin && again.n == p->n);
    for (int64_t i = 0; p->own.rows != NULL && i < p->type.dim[0]; i++)
        FUZZ_CHECK(again.own.rows[i] == p->own.rows[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_shard_part part;
    orr_error err = {.text = ""};
    FUZZ_CHECK(arena != NULL);
    const char *text = orr_arena_strndup(arena, (const char *)bytes, len);
    FUZZ_CHECK(text != NULL);
    if (orr_shard_text_read(text, "input", arena, &part, &err) == ORR_OK) {
        check_runs(&part);
        check_again(&part, arena);
    } else {
        FUZZ_CHECK(err.status == ORR_INVALID && strncmp(err.text, "input", 5) == 0);
    }
    orr_arena_free(arena);
    return 0;
}
