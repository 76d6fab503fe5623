/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "trace/torch_memory/snapshot.h"

/* Python's pickle format is a program for a stack machine (docs.python.org/3/library/pickletools);
 * here it is one that knows no classes and calls nothing. Snapshots are large, so that nothing of
 * them is kept: a dictionary of a segment or of an entry is a snapshot_record, which is used and
 * freed when it is appended to its list; of texts only the word is kept; stack frames, and lists
 * and dictionaries that are shared, are not looked at.
 *
 * What a container is for is known when it is pushed, from what lies below it on the stack: the
 * value of a key, or an element of a list. */

typedef enum value_kind { VALUE_OTHER, VALUE_INT, VALUE_TEXT, VALUE_DICT, VALUE_LIST } value_kind;

typedef enum value_role {
    ROLE_NONE,
    ROLE_ROOT,
    ROLE_SEGMENTS, /* list of ROLE_SEGMENT */
    ROLE_SEGMENT,
    ROLE_TRACES, /* list of ROLE_TRACE, one a device */
    ROLE_TRACE,  /* list of ROLE_ENTRY */
    ROLE_ENTRY
} value_role;

typedef struct value {
    uint8_t kind, role;
    uint32_t record; /* of a ROLE_SEGMENT or ROLE_ENTRY: its number in machine.records */
    int64_t number;  /* INT; TEXT: snapshot_word; LIST: elements so far; ROLE_TRACE: the device */
} value;

typedef struct machine {
    snapshot *s;
    orr_stream *stream;
    orr_array(value) stack;
    orr_array(size_t) marks; /* places in the stack */
    orr_array(value) memo;
    orr_array(snapshot_record) records;
    unsigned long long opcode_byte;
} machine;

static orr_status broken(const machine *m, const char *what, orr_error *err)
{
    return orr_fail_byte(err, ORR_PARSE, m->opcode_byte, "at byte %llu: %s", m->opcode_byte, what);
}

/* --- bytes ----------------------------------------------------------------------------------- */

/* At least n bytes in the window, not consumed; n is small. */
static orr_status need(const machine *m, size_t n, const uint8_t **ret, orr_error *err)
{
    for (bool end = false; orr_stream_window(m->stream).n < n;) {
        ORR_TRY(orr_stream_fill(m->stream, &end, err));
        if (end && orr_stream_window(m->stream).n < n)
            return broken(m, "the pickle ends too early", err);
    }
    *ret = orr_stream_window(m->stream).bytes;
    return ORR_OK;
}

static orr_status take_number(const machine *m, size_t n, uint64_t *ret, orr_error *err)
{
    const uint8_t *at = NULL;
    ORR_TRY(need(m, n, &at, err));
    *ret = 0;
    for (size_t i = n; i > 0; i--)
        *ret = *ret << 8 | at[i - 1];
    orr_stream_consume(m->stream, n);
    return ORR_OK;
}

static orr_status skip(const machine *m, uint64_t n, orr_error *err)
{
    while (n > 0) {
        const uint8_t *at = NULL;
        ORR_TRY(need(m, 1, &at, err));
        const size_t there = orr_stream_window(m->stream).n;
        const size_t step = n < there ? (size_t)n : there;
        orr_stream_consume(m->stream, step);
        n -= step;
    }
    return ORR_OK;
}

/* --- the stack ------------------------------------------------------------------------------- */

static orr_status push(machine *m, value v, orr_error *err)
{
    return orr_array_push(&m->stack, v) ? ORR_OK : orr_fail_memory(err);
}

/* Where the elements of the innermost open container begin: behind the last mark. */
static size_t floor_of(const machine *m)
{
    return m->marks.n > 0 ? m->marks.at[m->marks.n - 1] : 0;
}

static value_role element_of(const value *list, value_kind kind)
{
    if (kind == VALUE_LIST)
        return list->role == ROLE_TRACES ? ROLE_TRACE : ROLE_NONE;
    return list->role == ROLE_SEGMENTS ? ROLE_SEGMENT
           : list->role == ROLE_TRACE  ? ROLE_ENTRY
                                       : ROLE_NONE;
}

/* What a container that is pushed now will belong to: the value of the key on top, an element of
 * the list below the last mark (APPENDS), or the only one of the list on top (APPEND). */
static value_role role_of(const machine *m, value_kind kind, int64_t *ret_device)
{
    const size_t n = m->stack.n, floor = floor_of(m);
    if (n == 0)
        return kind == VALUE_DICT ? ROLE_ROOT : ROLE_NONE;
    const value *top = &m->stack.at[n - 1];
    const value *open = &m->stack.at[floor > 0 ? floor - 1 : 0];
    if (n > floor && top->kind == VALUE_TEXT) {
        if (open->role != ROLE_ROOT || kind != VALUE_LIST)
            return ROLE_NONE;
        return top->number == WORD_SEGMENTS        ? ROLE_SEGMENTS
               : top->number == WORD_DEVICE_TRACES ? ROLE_TRACES
                                                   : ROLE_NONE;
    }
    value_role role = open->kind == VALUE_LIST && floor > 0 ? element_of(open, kind) : ROLE_NONE;
    *ret_device = open->number + (int64_t)(n - floor);
    if (role == ROLE_NONE && n > floor && top->kind == VALUE_LIST) {
        role = element_of(top, kind);
        *ret_device = top->number;
    }
    return role;
}

static orr_status push_container(machine *m, value_kind kind, orr_error *err)
{
    int64_t device = 0;
    value v = {.kind = (uint8_t)kind};
    v.role = (uint8_t)role_of(m, kind, &device);
    m->s->has_traces |= v.role == ROLE_TRACES;
    if (v.role == ROLE_TRACE)
        v.number = device;
    if (v.role == ROLE_SEGMENT || v.role == ROLE_ENTRY) {
        v.record = (uint32_t)m->records.n;
        if (m->records.n >= UINT32_MAX)
            return broken(m, "more entries than 2^32", err);
        if (!orr_array_push(&m->records, ((snapshot_record){.has = 0})))
            return orr_fail_memory(err);
    }
    return push(m, v, err);
}

/* Values from `first` on are gone, and with them the records made since. */
static void pop_to(machine *m, size_t first)
{
    for (size_t i = first; i < m->stack.n; i++) {
        const value *v = &m->stack.at[i];
        if ((v->role == ROLE_SEGMENT || v->role == ROLE_ENTRY) && v->record < m->records.n)
            m->records.n = v->record;
    }
    m->stack.n = first;
}

/* Of SETITEM and SETITEMS: keys and values from `first` on, into the dictionary before them. */
static orr_status set_items(machine *m, size_t first, orr_error *err)
{
    if (first == 0 || m->stack.at[first - 1].kind != VALUE_DICT || (m->stack.n - first) % 2 != 0)
        return broken(m, "items of what is no dictionary", err);
    const value *dict = &m->stack.at[first - 1];
    const bool is_record = dict->role == ROLE_SEGMENT || dict->role == ROLE_ENTRY;
    for (size_t i = first; is_record && i < m->stack.n; i += 2) {
        const value *key = &m->stack.at[i], *v = key + 1;
        if (key->kind != VALUE_TEXT || key->number >= WORD_FIELDS)
            continue;
        if (v->kind == (key->number == WORD_ACTION ? VALUE_TEXT : VALUE_INT))
            snapshot_set(&m->records.at[dict->record], (snapshot_word)key->number, v->number);
    }
    pop_to(m, first);
    return ORR_OK;
}

/* Of APPEND and APPENDS. */
static orr_status append(machine *m, size_t first, orr_error *err)
{
    if (first == 0 || m->stack.at[first - 1].kind != VALUE_LIST)
        return broken(m, "elements of what is no list", err);
    value *list = &m->stack.at[first - 1];
    for (size_t i = first; i < m->stack.n; i++) {
        const value *v = &m->stack.at[i];
        if (list->role == ROLE_SEGMENTS && v->role == ROLE_SEGMENT)
            ORR_TRY(snapshot_add_segment(m->s, &m->records.at[v->record], err));
        else if (list->role == ROLE_TRACE && v->role == ROLE_ENTRY)
            ORR_TRY(
                snapshot_add_entry(m->s, (uint64_t)list->number, &m->records.at[v->record], err));
        else if (list->role == ROLE_SEGMENTS || list->role == ROLE_TRACE)
            return broken(m, "an entry that is no dictionary of its own", err);
    }
    if (list->role != ROLE_TRACE)
        list->number += (int64_t)(m->stack.n - first);
    pop_to(m, first);
    return ORR_OK;
}

static orr_status pop_mark(machine *m, size_t *ret_first, orr_error *err)
{
    if (m->marks.n == 0)
        return broken(m, "a mark is missing", err);
    *ret_first = m->marks.at[--m->marks.n];
    return ORR_OK;
}

/* The last n values. */
static orr_status last(const machine *m, size_t n, size_t *ret_first, orr_error *err)
{
    if (m->stack.n - floor_of(m) < n)
        return broken(m, "the stack has too few values", err);
    *ret_first = m->stack.n - n;
    return ORR_OK;
}

static orr_status make_tuple(machine *m, size_t first, orr_error *err)
{
    pop_to(m, first);
    return push(m, (value){.kind = VALUE_OTHER}, err);
}

/* --- values ---------------------------------------------------------------------------------- */

static orr_status push_text(machine *m, uint64_t len, orr_error *err)
{
    enum { LONGEST_WORD = 32 };
    value v = {.kind = VALUE_TEXT, .number = WORD_OTHER};
    if (len <= LONGEST_WORD) {
        const uint8_t *at = NULL;
        ORR_TRY(need(m, (size_t)len, &at, err));
        if (len > 0)
            v.number = snapshot_word_of((orr_text){(const char *)at, (size_t)len});
    }
    ORR_TRY(skip(m, len, err));
    return push(m, v, err);
}

/* Two's complement, little-endian, of any length; what needs more than 64 bits is of no use here.
 */
static orr_status push_long(machine *m, uint64_t len, orr_error *err)
{
    value v = {.kind = VALUE_INT};
    if (len <= 9) {
        const uint8_t *at = NULL;
        uint64_t bits = 0;
        ORR_TRY(need(m, (size_t)len, &at, err));
        if (len > 0 && len < 8 && at[len - 1] >= 0x80)
            bits = UINT64_MAX;
        for (size_t i = len < 8 ? (size_t)len : 8; i > 0; i--)
            bits = bits << 8 | at[i - 1];
        v.number = (int64_t)bits;
        if (len == 9 && at[8] != 0)
            v.kind = VALUE_OTHER;
    } else {
        v.kind = VALUE_OTHER;
    }
    ORR_TRY(skip(m, len, err));
    return push(m, v, err);
}

/* A container may not be used twice: it is gone once it is in its list. */
static orr_status put_memo(machine *m, uint64_t at, orr_error *err)
{
    size_t top;
    ORR_TRY(last(m, 1, &top, err));
    value v = m->stack.at[top];
    if (v.kind == VALUE_DICT || v.kind == VALUE_LIST)
        v = (value){.kind = VALUE_OTHER};
    if (at > m->memo.n)
        return broken(m, "numbers of the memo that leave some out", err);
    if (at < m->memo.n)
        m->memo.at[at] = v;
    else if (!orr_array_push(&m->memo, v))
        return orr_fail_memory(err);
    return ORR_OK;
}

static orr_status get_memo(machine *m, uint64_t at, orr_error *err)
{
    if (at >= m->memo.n)
        return broken(m, "a number of the memo that is not there", err);
    return push(m, m->memo.at[at], err);
}

/* --- opcodes --------------------------------------------------------------------------------- */

typedef enum action {
    DO_REFUSE,
    DO_NOTHING, /* its argument is skipped */
    DO_INT,
    DO_SIGNED_INT,
    DO_OTHER,
    DO_TEXT, /* the argument is the length ... */
    DO_BYTES,
    DO_LONG,
    DO_DICT,
    DO_LIST,
    DO_TUPLE,
    DO_TUPLE_OF, /* `n` values */
    DO_MARK,
    DO_SET_ITEM,
    DO_SET_ITEMS,
    DO_APPEND,
    DO_APPENDS,
    DO_GET,
    DO_PUT,
    DO_MEMOIZE
} action;

static const struct opcode {
    uint8_t action, argument_bytes, n;
    const char *name; /* of those that are refused by name */
} opcodes[256] = {
    [0x80] = {DO_NOTHING, 1, 0, NULL},   /* PROTO */
    [0x95] = {DO_NOTHING, 8, 0, NULL},   /* FRAME */
    ['K'] = {DO_INT, 1, 0, NULL},        /* BININT1 */
    ['M'] = {DO_INT, 2, 0, NULL},        /* BININT2 */
    ['J'] = {DO_SIGNED_INT, 4, 0, NULL}, /* BININT */
    [0x8a] = {DO_LONG, 1, 0, NULL},      /* LONG1 */
    [0x8b] = {DO_LONG, 4, 0, NULL},      /* LONG4 */
    ['G'] = {DO_OTHER, 8, 0, NULL},      /* BINFLOAT */
    ['N'] = {DO_OTHER, 0, 0, NULL},      /* NONE */
    [0x88] = {DO_OTHER, 0, 0, NULL},     /* NEWTRUE */
    [0x89] = {DO_OTHER, 0, 0, NULL},     /* NEWFALSE */
    [0x8c] = {DO_TEXT, 1, 0, NULL},      /* SHORT_BINUNICODE */
    ['X'] = {DO_TEXT, 4, 0, NULL},       /* BINUNICODE */
    [0x8d] = {DO_TEXT, 8, 0, NULL},      /* BINUNICODE8 */
    ['C'] = {DO_BYTES, 1, 0, NULL},      /* SHORT_BINBYTES */
    ['B'] = {DO_BYTES, 4, 0, NULL},      /* BINBYTES */
    [0x8e] = {DO_BYTES, 8, 0, NULL},     /* BINBYTES8 */
    ['}'] = {DO_DICT, 0, 0, NULL},       /* EMPTY_DICT */
    [']'] = {DO_LIST, 0, 0, NULL},       /* EMPTY_LIST */
    [')'] = {DO_TUPLE_OF, 0, 0, NULL},   /* EMPTY_TUPLE */
    [0x85] = {DO_TUPLE_OF, 0, 1, NULL},  /* TUPLE1 */
    [0x86] = {DO_TUPLE_OF, 0, 2, NULL},  /* TUPLE2 */
    [0x87] = {DO_TUPLE_OF, 0, 3, NULL},  /* TUPLE3 */
    ['t'] = {DO_TUPLE, 0, 0, NULL},         ['('] = {DO_MARK, 0, 0, NULL},
    ['s'] = {DO_SET_ITEM, 0, 0, NULL},      ['u'] = {DO_SET_ITEMS, 0, 0, NULL},
    ['a'] = {DO_APPEND, 0, 0, NULL},        ['e'] = {DO_APPENDS, 0, 0, NULL},
    ['h'] = {DO_GET, 1, 0, NULL},      /* BINGET */
    ['j'] = {DO_GET, 4, 0, NULL},      /* LONG_BINGET */
    ['q'] = {DO_PUT, 1, 0, NULL},      /* BINPUT */
    ['r'] = {DO_PUT, 4, 0, NULL},      /* LONG_BINPUT */
    [0x94] = {DO_MEMOIZE, 0, 0, NULL}, /* MEMOIZE */
    ['c'] = {DO_REFUSE, 0, 0, "GLOBAL"},    [0x93] = {DO_REFUSE, 0, 0, "STACK_GLOBAL"},
    ['R'] = {DO_REFUSE, 0, 0, "REDUCE"},    ['b'] = {DO_REFUSE, 0, 0, "BUILD"},
    ['i'] = {DO_REFUSE, 0, 0, "INST"},      ['o'] = {DO_REFUSE, 0, 0, "OBJ"},
    [0x81] = {DO_REFUSE, 0, 0, "NEWOBJ"},   [0x92] = {DO_REFUSE, 0, 0, "NEWOBJ_EX"},
    [0x82] = {DO_REFUSE, 0, 0, "EXT1"},     [0x83] = {DO_REFUSE, 0, 0, "EXT2"},
    [0x84] = {DO_REFUSE, 0, 0, "EXT4"},     ['P'] = {DO_REFUSE, 0, 0, "PERSID"},
    ['Q'] = {DO_REFUSE, 0, 0, "BINPERSID"},
};

static orr_status refuse(const machine *m, uint8_t byte, orr_error *err)
{
    const char *name = opcodes[byte].name;
    if (name == NULL)
        return orr_fail_byte(err, ORR_PARSE, m->opcode_byte,
                             "at byte %llu: 0x%02x is no opcode of a snapshot's pickle",
                             m->opcode_byte, byte);
    return orr_fail_byte(err, ORR_PARSE, m->opcode_byte,
                         "at byte %llu: the opcode %s, which can run code: a snapshot of "
                         "torch.cuda.memory has none, and it is not executed",
                         m->opcode_byte, name);
}

static orr_status execute(machine *m, uint8_t byte, uint64_t argument, orr_error *err)
{
    const struct opcode *op = &opcodes[byte];
    size_t first = 0;
    switch ((action)op->action) {
    case DO_NOTHING:
        return ORR_OK;
    case DO_INT:
        return push(m, (value){.kind = VALUE_INT, .number = (int64_t)argument}, err);
    case DO_SIGNED_INT:
        return push(m, (value){.kind = VALUE_INT, .number = (int32_t)(uint32_t)argument}, err);
    case DO_OTHER:
        return push(m, (value){.kind = VALUE_OTHER}, err);
    case DO_TEXT:
        return push_text(m, argument, err);
    case DO_BYTES:
        ORR_TRY(skip(m, argument, err));
        return push(m, (value){.kind = VALUE_OTHER}, err);
    case DO_LONG:
        return push_long(m, argument, err);
    case DO_DICT:
        return push_container(m, VALUE_DICT, err);
    case DO_LIST:
        return push_container(m, VALUE_LIST, err);
    case DO_TUPLE:
        ORR_TRY(pop_mark(m, &first, err));
        return make_tuple(m, first, err);
    case DO_TUPLE_OF:
        ORR_TRY(last(m, op->n, &first, err));
        return make_tuple(m, first, err);
    case DO_MARK:
        return orr_array_push(&m->marks, m->stack.n) ? ORR_OK : orr_fail_memory(err);
    case DO_SET_ITEM:
        ORR_TRY(last(m, 2, &first, err));
        return set_items(m, first, err);
    case DO_SET_ITEMS:
        ORR_TRY(pop_mark(m, &first, err));
        return set_items(m, first, err);
    case DO_APPEND:
        ORR_TRY(last(m, 1, &first, err));
        return append(m, first, err);
    case DO_APPENDS:
        ORR_TRY(pop_mark(m, &first, err));
        return append(m, first, err);
    case DO_GET:
        return get_memo(m, argument, err);
    case DO_PUT:
        return put_memo(m, argument, err);
    case DO_MEMOIZE:
        return put_memo(m, m->memo.n, err);
    case DO_REFUSE:
        break;
    }
    return refuse(m, byte, err);
}

static orr_status run(machine *m, orr_error *err)
{
    for (;;) {
        uint64_t byte = 0, argument = 0;
        m->opcode_byte = orr_stream_offset(m->stream);
        ORR_TRY(take_number(m, 1, &byte, err));
        if (byte == '.')
            break;
        if (opcodes[byte].argument_bytes > 0)
            ORR_TRY(take_number(m, opcodes[byte].argument_bytes, &argument, err));
        ORR_TRY(execute(m, (uint8_t)byte, argument, err));
    }
    if (m->stack.n != 1 || m->stack.at[0].role != ROLE_ROOT)
        return broken(m, "the pickle is not of one dictionary", err);
    return ORR_OK;
}

orr_status snapshot_read_pickle(snapshot *s, orr_error *err)
{
    machine m = {.s = s, .stream = s->stream};
    orr_status status = run(&m, err);
    orr_array_done(&m.stack);
    orr_array_done(&m.marks);
    orr_array_done(&m.memo);
    orr_array_done(&m.records);
    return status;
}
