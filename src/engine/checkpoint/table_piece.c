/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/checkpoint/table_piece.h"

orr_status orr_piece_reader_open(const orr_found_piece *piece, orr_piece_reader *ret,
                                 orr_error *err)
{
    orr_piece_reader r = {.from = piece};
    orr_status status = ORR_OK;
    if (piece->stored != NULL)
        goto out;
    ORR_TRY_OUT(status, orr_table_reader_open(piece->file, piece->piece, &r.rows, err));
    ORR_TRY_OUT(status, orr_table_reader_open(piece->file, piece->piece, &r.column_state, err));
    ORR_TRY_OUT(status, orr_table_reader_open(piece->file, piece->piece, &r.row_state, err));
out:
    if (status == ORR_OK)
        *ret = r;
    else
        orr_piece_reader_close(&r);
    return status;
}

void orr_piece_reader_close(orr_piece_reader *r)
{
    orr_table_reader_close(&r->rows);
    orr_table_reader_close(&r->column_state);
    orr_table_reader_close(&r->row_state);
}

int64_t orr_piece_record_bytes(const orr_found_piece *piece)
{
    const orr_table_layout *l = piece->layout;
    return l->row_bytes + l->column_state_bytes + l->row_state_bytes;
}

orr_status orr_piece_read(orr_piece_reader *r, int64_t first, int64_t n, char *records,
                          orr_error *err)
{
    const orr_table_layout *l = r->from->layout;
    const int64_t row = l->row_bytes, column_state = l->column_state_bytes,
                  row_state = l->row_state_bytes;
    if (r->from->stored != NULL)
        return orr_stored_rows_read(r->from->stored, r->from->shard, first, n, records, err);
    for (int64_t i = first; i < first + n; i++, records += row + column_state + row_state) {
        ORR_TRY(orr_table_read(&r->rows, i * row, row, records, err));
        ORR_TRY(orr_table_read(&r->column_state, l->column_state_at + i * column_state,
                               column_state, records + row, err));
        ORR_TRY(orr_table_read(&r->row_state, l->row_state_at + i * row_state, row_state,
                               records + row + column_state, err));
    }
    return ORR_OK;
}
