/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/array.h"
#include "io/protobuf/wire.h"
#include "text/tokenizer.h"

/* Field numbers of sentencepiece_model.proto (google/sentencepiece). */
enum { MODEL_PIECES = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3 };
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };
enum {
    TRAINER_TYPE = 3,
    TRAINER_SPACE_AS_SUFFIX = 24,
    TRAINER_BYTE_FALLBACK = 35,
    TRAINER_UNKNOWN = 40,
    TRAINER_BOS = 41,
    TRAINER_EOS = 42,
    TRAINER_PAD = 43
};
enum {
    NORMALIZER_NAME = 1,
    NORMALIZER_MAP = 2,
    NORMALIZER_PREFIX = 3,
    NORMALIZER_FOLD = 4,
    NORMALIZER_ESCAPE = 5
};
enum { TYPE_UNIGRAM = 1, TYPE_BPE = 2, TYPES = 5 };

typedef struct model {
    orr_array(orr_piece) pieces;
    orr_tokenizer_spec parts;
    uint64_t type;
    bool space_as_suffix, has_map;
    orr_text normalizer;
} model;

static orr_status broken(const orr_proto *p, const char *what, orr_error *err)
{
    return orr_fail_byte(err, ORR_PARSE, (uint64_t)(p->at - p->begin),
                         "not a SentencePiece model: %s", what);
}

static orr_status read_piece(model *m, const orr_proto_field *field, orr_error *err)
{
    orr_proto p = orr_proto_of(field->bytes, field->len);
    orr_proto_field f;
    orr_piece piece = {.kind = ORR_PIECE_NORMAL};
    while (orr_proto_next(&p, &f)) {
        const uint32_t bits = (uint32_t)f.value;
        if (f.number == PIECE_TEXT && f.wire == ORR_PROTO_BYTES)
            piece.text = (orr_text){(const char *)f.bytes, f.len};
        else if (f.number == PIECE_SCORE && f.wire == ORR_PROTO_FIXED32)
            memcpy(&piece.score, &bits, sizeof bits);
        else if (f.number == PIECE_TYPE && f.wire == ORR_PROTO_VARINT)
            piece.kind =
                f.value >= ORR_PIECE_NORMAL && f.value <= ORR_PIECE_BYTE ? (uint8_t)f.value : 0;
    }
    if (p.failed || piece.kind == 0 || piece.text.n == 0)
        return broken(&p, "a piece is broken", err);
    if (piece.kind == ORR_PIECE_UNUSED)
        return orr_fail(err, ORR_UNSUPPORTED, "a SentencePiece model with UNUSED pieces");
    if (piece.score != piece.score)
        return broken(&p, "the score of a piece is not a number", err);
    return orr_array_push(&m->pieces, piece) ? ORR_OK : orr_fail_memory(err);
}

/* Ids are int32; negative ones mean absent. */
static int32_t id_of(uint64_t value)
{
    return (int32_t)(uint32_t)value < 0 ? -1 : (int32_t)(uint32_t)value;
}

static orr_status read_trainer(model *m, const orr_proto_field *field, orr_error *err)
{
    orr_proto p = orr_proto_of(field->bytes, field->len);
    orr_proto_field f;
    while (orr_proto_next(&p, &f)) {
        if (f.wire != ORR_PROTO_VARINT)
            continue;
        switch (f.number) {
        case TRAINER_TYPE:
            m->type = f.value;
            break;
        case TRAINER_SPACE_AS_SUFFIX:
            m->space_as_suffix = f.value != 0;
            break;
        case TRAINER_BYTE_FALLBACK:
            m->parts.byte_fallback = f.value != 0;
            break;
        case TRAINER_UNKNOWN:
            m->parts.unknown = id_of(f.value);
            break;
        case TRAINER_BOS:
            m->parts.bos = id_of(f.value);
            break;
        case TRAINER_EOS:
            m->parts.eos = id_of(f.value);
            break;
        case TRAINER_PAD:
            m->parts.pad = id_of(f.value);
            break;
        default:
            break;
        }
    }
    return p.failed ? broken(&p, "its trainer_spec is broken", err) : ORR_OK;
}

static orr_status read_normalizer(model *m, const orr_proto_field *field, orr_error *err)
{
    orr_proto p = orr_proto_of(field->bytes, field->len);
    orr_proto_field f;
    while (orr_proto_next(&p, &f)) {
        if (f.number == NORMALIZER_NAME && f.wire == ORR_PROTO_BYTES)
            m->normalizer = (orr_text){(const char *)f.bytes, f.len};
        else if (f.number == NORMALIZER_MAP && f.wire == ORR_PROTO_BYTES)
            m->has_map = f.len > 0;
        else if (f.number == NORMALIZER_PREFIX && f.wire == ORR_PROTO_VARINT)
            m->parts.prefix = f.value != 0 ? ORR_PREPEND_FIRST : ORR_PREPEND_NEVER;
        else if (f.number == NORMALIZER_FOLD && f.wire == ORR_PROTO_VARINT)
            m->parts.fold_spaces = f.value != 0;
        else if (f.number == NORMALIZER_ESCAPE && f.wire == ORR_PROTO_VARINT)
            m->parts.spaces = f.value != 0;
    }
    return p.failed ? broken(&p, "its normalizer_spec is broken", err) : ORR_OK;
}

static orr_status read_model(model *m, const void *bytes, size_t len, orr_error *err)
{
    orr_proto p = orr_proto_of(bytes, len);
    orr_proto_field f;
    while (orr_proto_next(&p, &f)) {
        if (f.wire != ORR_PROTO_BYTES)
            continue;
        if (f.number == MODEL_PIECES)
            ORR_TRY(read_piece(m, &f, err));
        else if (f.number == MODEL_TRAINER)
            ORR_TRY(read_trainer(m, &f, err));
        else if (f.number == MODEL_NORMALIZER)
            ORR_TRY(read_normalizer(m, &f, err));
    }
    if (p.failed)
        return broken(&p, "it is truncated or broken", err);
    return m->pieces.n == 0 ? broken(&p, "it has no pieces", err) : ORR_OK;
}

static orr_status check_model(const model *m, orr_error *err)
{
    static const char *const types[TYPES] = {"none", "unigram", "BPE", "word", "character"};
    if (m->type != TYPE_BPE)
        return orr_fail(err, ORR_UNSUPPORTED, "a SentencePiece model of type %s; only BPE is known",
                        m->type < TYPES ? types[m->type] : "unknown");
    if (m->has_map)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "a SentencePiece model with normalizer %.*s; only identity is known",
                        (int)(m->normalizer.n < 40 ? m->normalizer.n : 40), m->normalizer.at);
    if (m->space_as_suffix)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "a SentencePiece model with treat_whitespace_as_suffix");
    return ORR_OK;
}

/* An id from the trainer settings counts only if the piece has that kind. */
static int32_t id_of_kind(const model *m, int32_t id, orr_piece_kind kind)
{
    return id >= 0 && (size_t)id < m->pieces.n && m->pieces.at[id].kind == kind ? id : -1;
}

orr_status orr_sentencepiece_read(const void *bytes, size_t len, orr_tokenizer **ret,
                                  orr_error *err)
{
    /* defaults of the .proto file */
    model m = {.type = TYPE_UNIGRAM,
               .normalizer = {"", 0},
               .parts = {.kind = ORR_TOKENIZER_SENTENCEPIECE,
                         .algorithm = ORR_BPE_SCORES,
                         .prefix = ORR_PREPEND_FIRST,
                         .spaces = true,
                         .fold_spaces = true,
                         .fuse_unknown = true,
                         .unknown = 0,
                         .bos = 1,
                         .eos = 2,
                         .pad = -1,
                         .adds_bos = true}};
    orr_status status;
    ORR_TRY_OUT(status, read_model(&m, bytes, len, err));
    ORR_TRY_OUT(status, check_model(&m, err));
    m.parts.unknown = id_of_kind(&m, m.parts.unknown, ORR_PIECE_UNKNOWN);
    m.parts.bos = id_of_kind(&m, m.parts.bos, ORR_PIECE_CONTROL);
    m.parts.eos = id_of_kind(&m, m.parts.eos, ORR_PIECE_CONTROL);
    m.parts.pad = id_of_kind(&m, m.parts.pad, ORR_PIECE_CONTROL);
    m.parts.pieces = m.pieces.at;
    m.parts.n = (uint32_t)m.pieces.n;
    status = orr_tokenizer_build(&m.parts, ret, err);
out:
    orr_array_done(&m.pieces);
    return status;
}
