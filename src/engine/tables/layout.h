/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_TABLES_LAYOUT_H
#define ORR_ENGINE_TABLES_LAYOUT_H

#include "engine/tables/tables.h"

/* What follows from a sharding plan for messages: which vectors go from which rank to which, and
 * how many bytes they have. Ranks are those of one group. Letters: R ranks, S samples of a rank, C
 * columns of all tables. */

/* A shard with at least one row and one column, on one rank. */
typedef struct orr_tables_entry {
    const orr_embedding_shard *shard;
    uint32_t table, part; /* number of its rows among the row parts of the table */
    uint32_t columns;
    uint32_t first_bag, n_bags; /* vectors: one a subtree; DATA: none */
    uint32_t counted;           /* number among the counted shards of its rank */
    int64_t first_row, rows;
    int64_t bag_at;       /* where its bags begin among the numbers of a sample on its rank; */
    int64_t gradient_at;  /* its gradient, likewise */
    int64_t mean_lookups; /* of one rank's samples; exact where !is_counted */
    bool is_counted;      /* lookups and lengths of bags vary, so that messages have them */
    bool is_wide;         /* ids of 64 bits */
} orr_tables_entry;

/* A vector of each sample that travels: where it begins among the numbers of a sample, on the rank
 * that sends it and on the rank that receives it. */
typedef struct orr_tables_vector {
    int64_t from, to;
    int64_t bytes_at; /* where it begins among its rank's bytes of a sample, encoded */
    uint32_t columns;
    orr_range_subtree subtree; /* of bags */
} orr_tables_vector;

/* Row parts of a table: part p has rows bound[p] .. bound[p + 1] - 1. DATA: one part. */
typedef struct orr_tables_parts {
    uint32_t n, first_entry, n_entries;
    int64_t first_column; /* of C */
    const int64_t *bound; /* shape (n + 1) */
} orr_tables_parts;

/* What a rank has, for each sample. */
typedef struct orr_tables_rank {
    uint32_t first_entry, first_bag;       /* into arrays of the layout */
    uint32_t n_counted;                    /* entries */
    int64_t bag_numbers, gradient_numbers; /* fp32 numbers that it sums, that it receives */
    int64_t bag_bytes, gradient_bytes;     /* of them as they travel */
} orr_tables_rank;

typedef struct orr_tables_layout {
    const orr_embedding_plan *plan;
    uint32_t ranks, me, group, groups;
    int64_t samples, columns;
    uint32_t n_entries, n_bags, most_parts;
    const orr_tables_rank *rank;        /* shape (R + 1): the last has only where others end */
    const orr_tables_entry *entries;    /* shape (n_entries): by rank, then in the plan's order */
    const uint32_t *of_table;           /* shape (n_entries): by table, then in the plan's order */
    const orr_tables_parts *parts;      /* shape (n_tables) */
    const orr_tables_vector *bags;      /* shape (n_bags), by owner: a vector a subtree */
    const orr_tables_vector *gradients; /* shape (n_entries), by owner */
} orr_tables_layout;
/* Errors: INVALID: the transport has other ranks than the plan; NO_MEMORY. */
orr_status orr_tables_layout_make(const orr_tables_source *source, orr_arena *arena,
                                  orr_tables_layout *ret, orr_error *err) ORR_MUST_CHECK;

/* Bytes of a bag's length, of lengths and of ids in a message to a shard. Sections of a message
 * begin at multiples of 8. */
enum { ORR_TABLES_BAG_MAX = UINT16_MAX };
size_t orr_tables_lengths_bytes(const orr_tables_layout *l, const orr_tables_entry *entry);
size_t orr_tables_ids_bytes(const orr_tables_entry *entry, int64_t lookups);
/* Column shards of the same rows by column, whose sums of squares make those of the whole rows: as
 * many as columns are parted in; 0: the update of these rows needs none. `ret`: room for all
 * entries of the table, NULL: to count only. */
uint32_t orr_tables_square_peers(const orr_tables_layout *l, const orr_tables_entry *entry,
                                 const orr_tables_entry **ret);
/* Subtrees of a table's blocks of columns that a shard of its columns sums: the fewest aligned
 * ones, ascending; the last block of the table stands for all that would follow it. */
enum { ORR_TABLES_BLOCK_SUBTREES = 64 }; /* at most */
uint32_t orr_tables_block_subtrees(const orr_tables_layout *l, const orr_tables_entry *entry,
                                   orr_range_subtree ret[ORR_TABLES_BLOCK_SUBTREES]);
/* Whether a rank gets the gradients of all columns as they are, so that nothing is packed. */
bool orr_tables_gradients_in_place(const orr_tables_layout *l, uint32_t rank);
/* How rows of a shard are kept: states apart; without addresses. */
orr_row_store orr_tables_store_of(const orr_tables_layout *l, const orr_tables_entry *entry,
                                  bool trained);

/* Bytes of the buffers of this rank, for lookups of the mean length. */
typedef struct orr_tables_sizes {
    size_t vectors;            /* bags as summed, then as received; later gradients */
    size_t out, in;            /* a message of bags or gradients, where it is not sent in place */
    size_t ids_out, ids_in;    /* all messages of ids; one */
    size_t lengths, ids;       /* of lookups in this rank's shards, for each step at once: */
    size_t slots;              /* of their rows in row caches */
    uint32_t sets;             /* a power of two */
    size_t workspace, squares; /* of sums and updates; of updates */
    size_t average;            /* rows that groups average at once */
} orr_tables_sizes;
enum { ORR_TABLES_AVERAGE_NUMBERS = 1 << 16 };
orr_tables_sizes orr_tables_sizes_of(const orr_tables_layout *l, const orr_tables_source *source);

#endif /* ORR_ENGINE_TABLES_LAYOUT_H */
