/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_TABLES_TABLES_STATE_H
#define ORR_ENGINE_TABLES_TABLES_STATE_H

#include "engine/tables/layout.h"

/* What the stages of a step share. */

/* Memory that grows and is used again; its content is lost when it grows. */
typedef struct orr_tables_buffer {
    void *at;
    size_t bytes;
} orr_tables_buffer;

/* The lookups of a step in this rank's shards: of one slot, or of several where fewer steps are
 * under way at once. */
typedef struct orr_tables_set {
    orr_tables_buffer lengths, ids, slots;
    orr_shard_lookups *lookups; /* shape (shards of this rank) */
    int64_t *before_own;        /* shape as lookups: ids of ranks before this one */
    int64_t *own;               /* shape as lookups: ids of this rank's samples */
    const float *gradient;      /* of a rank that is alone */
    orr_tables_traffic traffic;
    uint64_t batch; /* number in row caches; of announced sets */
    uint8_t state;  /* orr_tables_set_state */
    orr_error error;
} orr_tables_set;

typedef struct orr_tables_ahead orr_tables_ahead; /* ahead.c */

/* Shards of this rank whose rows do not live in memory, of one tier. */
typedef struct orr_tables_shelf {
    orr_store *store;   /* NULL: there are none */
    const char *remark; /* of its device */
    uint32_t n;
    uint32_t *shards;             /* shape (n): numbers among this rank's shards */
    orr_tables_drawing *drawings; /* shape (n): initial values */
    bool *resident;               /* shape (n): rows live in memory, too */
} orr_tables_shelf;

/* The vector of a bag's subtree, of the first of this rank's samples. */
typedef struct orr_tables_part {
    const float *at;
    int64_t stride; /* to the next sample */
} orr_tables_part;

/* Columns of a bag of one table, joined from n parts. */
typedef struct orr_tables_join {
    int64_t column; /* of all tables' */
    uint32_t columns, first_part, n;
} orr_tables_join;

/* Where the next lookups of a part of a table's rows go in messages to one shard. */
typedef struct orr_tables_next {
    void *ids;
    uint16_t *lengths; /* NULL: they are known */
    uint32_t entry;    /* the shard's number */
    int64_t first_row;
    int64_t n, before; /* ids so far; before this bag */
    bool is_wide;
} orr_tables_next;

struct orr_tables {
    orr_tables_source source;
    orr_backend *backend;
    orr_arena *arena;
    orr_tables_layout layout;
    uint32_t n_shards;
    const orr_tables_entry *entries;  /* shape (n_shards): of this rank */
    orr_row_store *stores;            /* shape (n_shards) */
    orr_tables_tier tiers[ORR_TIERS]; /* the source's */
    orr_tables_shelf shelves[ORR_TIERS];
    orr_tables_ahead *ahead; /* NULL: all rows live in memory */
    uint32_t n_sets;
    orr_tables_set sets[ORR_TABLES_AHEAD];
    orr_tables_traffic last; /* of the last step that ended */

    /* Of the stage that exchanges ids. Messages stand by rank, sections by entry. */
    orr_tables_buffer ids_out, ids_in;
    int64_t *part_lookups;   /* shape (row parts of all tables): this rank's lookups */
    uint32_t *first_part;    /* shape (n_tables), into it */
    orr_tables_next *next;   /* room for the parts of a table */
    uint32_t *counts_out;    /* by rank, then counted entry; */
    uint32_t *counts_in;     /* shape (R, counted entries of this rank) */
    uint32_t *first_counted; /* shape (R + 1), into counts_out */
    size_t *message;         /* shape (R + 1): where messages begin in ids_out */
    size_t *section;         /* shape (n_entries): where sections do */

    /* Of the other stages. */
    orr_tables_buffer vectors, out, in, workspace, squares, average;
    float **bags_from; /* shape (R): bags of this rank's samples from each rank, in `vectors` */
    orr_tables_join *joins;
    orr_tables_part *parts;
    orr_range_subtree *subtrees; /* of parts */
    uint32_t n_joins;
    const orr_tables_entry **peers;    /* shape (R): column shards of one shard's rows */
    uint32_t *first_subtree;           /* shape (R + 1): of each peer, in */
    orr_range_subtree *block_subtrees; /* room for those of R peers */
    orr_communicator *groups;          /* this rank's peers in other groups; one group: NULL */
};

/* Makes room for so many bytes: as many at first, then half as many more each time it grows. */
orr_status orr_tables_reserve(orr_tables *t, orr_tables_buffer *buffer, size_t bytes,
                              orr_error *err) ORR_MUST_CHECK;

/* Bytes of all buffers. */
int64_t orr_tables_held_bytes(const orr_tables *t);

/* Sends to one rank of the group what another sends here, and adds to what was sent. `lane`: 0 for
 * ids, 1 for all else. */
typedef struct orr_tables_message {
    uint32_t to, from;
    const void *out;
    void *in;
    size_t out_bytes, in_bytes;
} orr_tables_message;
orr_status orr_tables_send_receive(orr_tables *t, uint32_t lane, const orr_tables_message *message,
                                   int64_t *sent, orr_error *err) ORR_MUST_CHECK;
/* The rank that is k places after, or before, this one in its group. */
uint32_t orr_tables_after(const orr_tables *t, uint32_t k);
uint32_t orr_tables_before(const orr_tables *t, uint32_t k);

orr_tables_set *orr_tables_set_of(orr_tables *t, uint32_t slot);

orr_tables_drawing orr_tables_drawing_of_shard(const orr_tables *t, uint32_t shard);
/* Allocates the rows of this rank that live in memory and draws their initial values; frees them.
 */
orr_status orr_tables_make_rows(orr_tables *t, orr_error *err) ORR_MUST_CHECK;
void orr_tables_free_rows(orr_tables *t);

/* Opens the stores of rows that do not live in memory; closes them. */
orr_status orr_tables_open_tiers(orr_tables *t, orr_error *err) ORR_MUST_CHECK;
void orr_tables_close_tiers(orr_tables *t);
/* The tier that has the rows of a shard, in the sense of commits too; DRAM: none. */
orr_tier orr_tables_tier_of(const orr_tables_source *source, uint32_t table);

/* Announcing lookups to row caches (ahead.c), which has a thread where steps are prepared ahead. */
typedef enum orr_tables_set_state {
    ORR_TABLES_SET_IDLE,   /* ended, or not yet fetched */
    ORR_TABLES_SET_QUEUED, /* announced in turn */
    ORR_TABLES_SET_ANNOUNCING,
    ORR_TABLES_SET_ANNOUNCED,
    ORR_TABLES_SET_FAILED
} orr_tables_set_state;
orr_status orr_tables_ahead_open(orr_tables *t, orr_error *err) ORR_MUST_CHECK;
void orr_tables_ahead_close(orr_tables *t);
/* Waits until the rows of a set are in memory. */
orr_status orr_tables_wait(orr_tables *t, orr_tables_set *set, orr_error *err) ORR_MUST_CHECK;
/* Rows of a set are about to change; */
orr_status orr_tables_change(orr_tables *t, const orr_tables_set *set,
                             orr_error *err) ORR_MUST_CHECK;
/* and are not needed any more. */
void orr_tables_end(orr_tables *t, orr_tables_set *set, bool changed);
/* Gives up what was announced, so that all rows can be visited, until the next stage of a step; */
void orr_tables_pause(orr_tables *t);
/* until it is let go. */
void orr_tables_hold(orr_tables *t, bool hold);
/* Vectors of each sample, out of rows of `from_stride` numbers into rows of `to_stride`. */
void orr_tables_copy_vectors(const orr_tables *t, const orr_tables_vector *vectors, uint32_t n,
                             const float *from, int64_t from_stride, float *to, int64_t to_stride);
/* The same to and from a message: vector by vector, each of all samples, encoded. */
void orr_tables_encode(const orr_tables *t, const orr_tables_vector *vectors, uint32_t n,
                       orr_embedding_codec codec, const float *from, int64_t from_stride, void *to);
void orr_tables_decode(const orr_tables *t, const orr_tables_vector *vectors, uint32_t n,
                       orr_embedding_codec codec, const void *from, float *to, int64_t to_stride);
/* The sum_squares of a shard's update, where `peers` are its n_peers column shards. */
typedef struct orr_tables_square_sum {
    orr_tables *t;
    const orr_tables_entry *entry;
    uint32_t n_peers;
    int64_t *sent; /* bytes */
} orr_tables_square_sum;
orr_status orr_tables_sum_squares(void *ctx, const float *squares, int64_t rows, uint32_t blocks,
                                  float *ret, orr_error *err) ORR_MUST_CHECK;
/* Averages rows and state over groups. */
orr_status orr_tables_average_groups(orr_tables *t, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_TABLES_TABLES_STATE_H */
