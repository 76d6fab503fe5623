/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "analysis/common.h"
#include "base/alloc.h"

void *orr_analysis_add_row(orr_analysis_run *frame)
{
    if (frame->n == frame->room) {
        const size_t room = frame->room == 0 ? 16 : 2 * frame->room;
        size_t bytes;
        if (!orr_mul_size(room, frame->row_bytes, &bytes))
            return NULL;
        void *rows = orr_realloc(frame->rows, bytes);
        if (rows == NULL)
            return NULL;
        frame->rows = rows;
        frame->room = room;
    }
    void *row = (char *)frame->rows + frame->n++ * frame->row_bytes;
    memset(row, 0, frame->row_bytes);
    return row;
}

static orr_status run_body(orr_analysis_run *frame, orr_rank_analysis body)
{
    const orr_view *views;
    size_t n;
    ORR_TRY(orr_find_views(frame->job, &frame->options, frame->scratch, &views, &n, frame->err));
    for (size_t i = 0; i < n; i++) {
        const orr_arena_mark mark = orr_arena_get_mark(frame->scratch);
        ORR_TRY(body(frame, &views[i]));
        orr_arena_rewind(frame->scratch, mark);
    }
    return ORR_OK;
}

orr_status orr_analyze_ranks(const orr_analysis_request *request, size_t row_bytes,
                             orr_rank_analysis body, const void **ret_rows, size_t *ret_n)
{
    const orr_arena_mark mark = orr_arena_get_mark(request->arena);
    orr_analysis_run frame = {.job = request->job,
                              .options = orr_options_complete(request->options),
                              .arena = request->arena,
                              .scratch = orr_arena_new(0, 0),
                              .err = request->err,
                              .row_bytes = row_bytes};
    orr_status status = ORR_OK;
    if (frame.scratch == NULL) {
        status = orr_fail_memory(request->err);
        goto out;
    }
    ORR_TRY_OUT(status, run_body(&frame, body));

    /* rows hold pointers and 8-byte numbers */
    char *rows = orr_arena_alloc(request->arena, frame.n, row_bytes, _Alignof(max_align_t));
    if (rows == NULL) {
        status = orr_fail_memory(request->err);
        goto out;
    }
    if (frame.n > 0)
        memcpy(rows, frame.rows, frame.n * row_bytes);
    *ret_rows = rows;
    *ret_n = frame.n;
out:
    if (status != ORR_OK)
        orr_arena_rewind(request->arena, mark);
    orr_free(frame.rows);
    orr_arena_free(frame.scratch);
    return status;
}
