/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MACHINE_CATALOG_SCHEMA_H
#define ORR_MACHINE_CATALOG_SCHEMA_H

#include <orrery/machine.h>

#include "io/yaml/yaml.h"

/* Table-driven reader of catalogue entries: a row for each key with the kind of its value and
 * the field that it sets. Unknown keys, wrong units and missing facts are errors with their
 * position. */
typedef enum orr_quantity {
    ORR_QUANTITY_COUNT,     /* "132", "16k"       */
    ORR_QUANTITY_BYTES,     /* "80GiB"            */
    ORR_QUANTITY_BANDWIDTH, /* "400Gbps"          */
    ORR_QUANTITY_NS,        /* "5us"              */
    ORR_QUANTITY_NS_PER_KM, /* "5us/km"           */
    ORR_QUANTITY_FLOPS,     /* "989TFLOPS"        */
    ORR_QUANTITY_HZ,        /* "1410MHz"          */
    ORR_QUANTITY_WATT,      /* "700W"             */
    ORR_QUANTITY_IOPS,      /* "550kIOPS"         */
    ORR_QUANTITY_NUMBER,    /* "0.58"             */
    ORR_QUANTITY_RATIO,     /* "1:7", or "7"      */
    ORR_QUANTITY_KM,        /* "3km", "500m"      */
    ORR_QUANTITY_USD,       /* "2.5", in dollars  */
} orr_quantity;

typedef enum orr_field_kind {
    ORR_FIELD_FACT,   /* orr_fact                                              */
    ORR_FIELD_DTYPES, /* orr_fact[ORR_DTYPES], a map by name of the dtype       */
    ORR_FIELD_TEXT,   /* const char *, "" if absent */
    ORR_FIELD_TEXTS,  /* const char *const *, its count a uint32_t at `count`  */
    ORR_FIELD_OTHER,  /* read by code of its own */
} orr_field_kind;

typedef struct orr_field {
    const char *key;
    uint8_t kind, quantity;
    bool required;
    size_t offset, count;
} orr_field;

/* Scope of facts: the basis and source that a fact has unless it says otherwise, and the
 * abbreviations of sources of its file. */
typedef struct orr_scope {
    uint8_t basis;                 /* UNKNOWN: each fact has to say it */
    const char *source;            /* NULL: likewise */
    const orr_yaml *abbreviations; /* may be NULL */
    orr_arena *arena;
} orr_scope;

/* Reads `map` into *ret, an object that starts zeroed; absent facts become unknown. `what` names
 * the entry in messages: "device 'h100'". *scope becomes that of the entry, whose keys "basis"
 * and "source" every entry may have, and "notes" if the table has it. */
orr_status orr_schema_read(const orr_yaml *map, const char *what, const orr_field *fields,
                           size_t n_fields, orr_scope *scope, void *ret,
                           orr_error *err) ORR_MUST_CHECK;

/* Reads a fact: a scalar, or a map {value, basis, source, note, conflicts}. */
orr_status orr_fact_read(const orr_yaml *value, const char *key, orr_quantity quantity,
                         const orr_scope *scope, orr_fact *ret, orr_error *err) ORR_MUST_CHECK;
orr_fact orr_fact_unknown(void);
/* Takes "basis" and "source" of a map, if present, into the scope. */
orr_status orr_scope_enter(const orr_yaml *map, orr_scope *scope, orr_error *err) ORR_MUST_CHECK;

/* Reads a scalar with its unit. Errors: INVALID with the position and the key. */
orr_status orr_quantity_read(const orr_yaml *value, const char *key, orr_quantity quantity,
                             double *ret, orr_error *err) ORR_MUST_CHECK;
/* Reads a scalar that is not empty as text. */
orr_status orr_text_read(const orr_yaml *value, const char *key, const char **ret,
                         orr_error *err) ORR_MUST_CHECK;
/* Fails with "...: 'wrod' is no KIND; did you mean 'word'?" */
orr_status orr_fail_unknown(const orr_yaml *at, const char *what, const char *word,
                            const char *const *candidates, size_t n, orr_error *err);

#endif /* ORR_MACHINE_CATALOG_SCHEMA_H */
