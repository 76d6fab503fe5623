/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_H
#define ORR_EXPERTS_H

#include <orrery/machine.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Experts of a mixture: which tokens went where, and where experts and their copies should stand.
 *
 * Letters: T tokens, L layers with experts, E experts of a layer, K experts of a token in a layer,
 * R ranks, P slots of a layer over all ranks (P >= E; the P - E beyond are copies).
 *
 * Everything here is deterministic: equal input gives equal output, ties go to the lowest index.
 * Threads: any, on frozen objects. Errors beside those named: NO_MEMORY. */

/* --- routes ----------------------------------------------------------------------------------- */

enum { ORR_EXPERTS_MAX = 4096, ORR_ROUTE_CHOICES_MAX = 64 };
typedef enum orr_route_phase { ORR_ROUTE_PREFILL, ORR_ROUTE_DECODE } orr_route_phase;

/* Routes: of each token and layer the K experts that the router chose, in its order. Rows are
 * tokens, in the order of the file: the tokens of a request need not stand together. Frozen. A
 * choice takes K bytes a token and layer where experts are below 256, else at most K + 4. */
typedef struct orr_routes {
    uint64_t tokens;
    uint32_t layers, top_k;
    uint32_t experts;           /* of a layer: as asked for, else up to the last that was chosen */
    const uint32_t *number;     /* shape (L): the layer's number in the model, ascending */
    const uint8_t *const *low;  /* shape (L) of (T, K): the low 8 bits of an expert */
    const uint8_t *const *high; /* shape (L) of (T, ceil(K / 2)): 4 bits each above them, the even
                                 * choice in the low half; NULL: all 0 */
    const float *const *score;  /* shape (L) of (T, K); NULL: none are known */
    const uint32_t *request;    /* shape (T): 0 .. requests - 1, by first appearance */
    const uint32_t *position;   /* shape (T): of the token in its request */
    const uint8_t *phase;       /* shape (T): orr_route_phase */
    const uint16_t *rank;       /* shape (T): the rank that had the token; NULL: not known */
    uint32_t requests, kinds;
    const char *const *request_name; /* shape (requests): as in the file */
    const uint32_t *kind;            /* shape (requests): 0 .. kinds - 1 */
    const char *const *kind_name;    /* shape (kinds): "abstract_algebra"; one, "", where a file
                                      * tells none */
    uint64_t warm_up;   /* rows left out: runs of at least ORR_ROUTES_WARM_UP tokens of a request
                         * that all chose the same experts in every layer */
    const char *source; /* the path */
} orr_routes;
enum { ORR_ROUTES_WARM_UP = 16 };

/* The experts of `n` tokens from `first` on in a layer (an index, not its number): shape (n, K). */
ORR_API void orr_routes_choices(const orr_routes *routes, uint32_t layer, uint64_t first,
                                uint64_t n, uint16_t *ret);

typedef struct orr_routes_options {
    size_t struct_bytes; /* set by orr_routes_options_init() */
    uint32_t experts;    /* of a layer in the model; 0: up to the last that was chosen */
    bool keep_warm_up;
    int phase;                                                   /* orr_route_phase; -1: both */
    bool (*progress)(void *ctx, uint64_t bytes, uint64_t total); /* NULL: nobody looks; false ends
                                                                  * with CANCELED */
    void *ctx;
} orr_routes_options;
ORR_API void orr_routes_options_init(orr_routes_options *options);
/* Reads routes, also .gz and .zst, into the arena, by what stands in the file:
 *
 *   CSV: a row for each token; columns request, phase (p or d), token, rank, subject (or kind) as
 *   far as they are there, and a layer's by its number (13, L13, layer_13) with the experts of the
 *   token, split by ';', '-' or ' '; a column S13 has their scores, split by ';' or ' '.
 *   JSON lines: objects as vLLM logs routed experts: see docs/experts.md for the keys.
 *
 * Errors: IO; PARSE with line and column: a cell that is no expert, rows of other lengths,
 * different K within a layer, an expert twice in a cell; INVALID: an expert beyond
 * options->experts, K larger than it; UNSUPPORTED: pickle, .npy, and other files by their first
 * bytes; LIMIT. */
ORR_API ORR_MUST_CHECK orr_status orr_routes_read(const char *path,
                                                  const orr_routes_options *options,
                                                  orr_arena *arena, const orr_routes **ret,
                                                  orr_error *err);
/* Writes routes as the CSV above, by the ending of the path compressed. */
ORR_API ORR_MUST_CHECK orr_status orr_routes_write(const orr_routes *routes, const char *path,
                                                   orr_error *err);
/* The part of routes whose requests are in `keep`, shape (requests), NULL: all, and of `phase`
 * (-1: both). Requests and kinds keep their numbers. INVALID: nothing is left. */
ORR_API ORR_MUST_CHECK orr_status orr_routes_select(const orr_routes *routes, const bool *keep,
                                                    int phase, orr_arena *arena,
                                                    const orr_routes **ret, orr_error *err);

/* Loads by window: how many choices fell on each expert. What vLLM and SGLang keep of their
 * balancers, and what routes come to. */
typedef struct orr_expert_windows {
    uint32_t windows, layers, experts;
    const uint32_t *number; /* shape (L) */
    const double *load;     /* shape (windows, L, E): not negative */
    const char *source;
} orr_expert_windows;
/* JSON (nested lists (L, E) or (windows, L, E), alone or under one of the keys that
 * docs/experts.md names) or CSV (window, layer, then a column an expert). Errors as above; INVALID:
 * a load that is negative or no number, a layer without any. */
ORR_API ORR_MUST_CHECK orr_status orr_expert_windows_read(const char *path, orr_arena *arena,
                                                          orr_expert_windows *ret, orr_error *err);
/* Routes as `windows` windows of equally many tokens, 1: all. */
ORR_API ORR_MUST_CHECK orr_status orr_expert_windows_of_routes(const orr_routes *routes,
                                                               uint32_t windows, orr_arena *arena,
                                                               orr_expert_windows *ret,
                                                               orr_error *err);

/* Expert load: the share of a layer's tokens that each expert receives. */
typedef struct orr_expert_load {
    uint32_t layers, experts; /* of the trace: the experts up to the last that was chosen */
    const double *share;      /* shape (layers, experts): of a layer's tokens, sums to 1     */
    uint64_t tokens; /* number of tokens in the trace; of windows: the first layer's load */
    const char *source;
    const uint32_t *number; /* shape (layers): which layer of the model; may be NULL       */
} orr_expert_load;
/* The shares of routes or of windows, whichever the file has; `phase` "p" or "d" selects tokens,
 * NULL: all. Errors as above. */
ORR_API ORR_MUST_CHECK orr_status orr_expert_load_read(const char *path, const char *phase,
                                                       orr_arena *arena, orr_expert_load *ret,
                                                       orr_error *err);
/* Load imbalance: the most loaded of `ranks` ranks that hold consecutive experts, over the mean;
 * 1 is even. Of a layer of the trace (a row of `share`), or the mean of all (layer ORR_NONE). */
ORR_API double orr_expert_imbalance(const orr_expert_load *load, uint32_t layer, uint32_t ranks);

/* Routes drawn from planted structure, for tests and benchmarks: kinds of requests that prefer
 * their own groups of experts, skewed loads, drift from one load to another, dead experts. */
typedef struct orr_routes_drawn {
    uint32_t layers, experts, top_k;
    uint32_t requests, prompt, decoded; /* tokens of a request */
    uint32_t kinds;
    double affinity; /* 0 .. 1: share of choices from the experts of the request's kind */
    double chain;    /* 0 .. 1: share of choices that follow from the one in the layer before */
    double skew;     /* exponent of the load over experts (Zipf) */
    double drift;    /* 0 .. 1: share of the load that has moved to other experts at the end */
    uint32_t dead;   /* experts of a layer that nobody chooses */
    bool scores;
    uint64_t seed;
} orr_routes_drawn;
ORR_API ORR_MUST_CHECK orr_status orr_routes_draw(const orr_routes_drawn *how, orr_arena *arena,
                                                  const orr_routes **ret, orr_error *err);

/* --- placements ------------------------------------------------------------------------------- */

/* For each layer and slot an expert, for each copy its share of the expert's tokens. Ranks may have
 * different numbers of slots, and so may layers. Valid: every expert of a layer has a slot unless
 * it is named as missing, shares of an expert sum to 1. Two slots of a rank with one expert are
 * valid too, since other balancers make such placements, but the second one brings nothing. */
typedef struct orr_expert_placement {
    uint32_t layers, experts, ranks;
    uint32_t host_ranks;        /* ranks of a host; ranks r and s share one iff r / host_ranks = s /
                                 * host_ranks */
    const uint32_t *number;     /* shape (L): the layer's number in the model */
    const uint32_t *first_slot; /* shape (L, R + 1): slots of a rank, as indices of the arrays
                                 * below; the last of a layer is the first of the next */
    const uint16_t *expert;     /* shape (slots) */
    const float *share;         /* shape (slots) */
    bool nearest;               /* tokens take the nearest copy, whatever its share: see
                                 * orr_experts_slots() */
    const char *policy;         /* that made it; "" */
    const char *source;
} orr_expert_placement;
ORR_API uint32_t orr_expert_placement_slots(const orr_expert_placement *placement);
/* INVALID, naming layer and expert or rank; `n_missing` experts may be without a slot (dead ranks
 * took them): shape (n_missing, 2), index of layer and expert. */
ORR_API ORR_MUST_CHECK orr_status orr_expert_placement_check(const orr_expert_placement *placement,
                                                             const uint32_t (*missing)[2],
                                                             uint32_t n_missing, orr_error *err);

/* placement.yaml, Orrery's own, and what servers take as it is. */
#define ORR_PLACEMENT_FORMAT_MAP(X)                                                                \
    X(YAML, "yaml")     /* all that a placement is */                                              \
    X(SGLANG, "sglang") /* JSON of --init-expert-location: physical_to_logical_map, a row for each \
                         * hidden layer, those without experts too */                              \
    X(VLLM, "vllm")     /* JSON of physical_to_logical_map, logical_to_physical_map (-1: none) and \
                         * logical_replica_count; layers, ranks and host_ranks are Orrery's */
typedef enum orr_placement_format {
#define ORR_PLACEMENT_FORMAT_ENUM_(name, text) ORR_PLACEMENT_FORMAT_##name,
    ORR_PLACEMENT_FORMAT_MAP(ORR_PLACEMENT_FORMAT_ENUM_)
#undef ORR_PLACEMENT_FORMAT_ENUM_
        ORR_PLACEMENT_FORMATS
} orr_placement_format;
ORR_API const char *orr_placement_format_name(orr_placement_format format);
/* False: no such format. */
ORR_API bool orr_placement_format_parse(const char *name, orr_placement_format *ret);
/* All three, told apart by their keys, and checked. SGLang's files do not say over how many ranks
 * their slots lie, nor does vLLM's state: `ranks` does, 0 where the file tells; host_ranks 0: as
 * the file tells, else all are one host. Rows of files without numbers of layers are 0, 1, ..:
 * see orr_expert_placement_layers(). Errors: IO, PARSE and INVALID with the position, LIMIT. */
ORR_API ORR_MUST_CHECK orr_status orr_expert_placement_read(const char *path, uint32_t ranks,
                                                            uint32_t host_ranks, orr_arena *arena,
                                                            orr_expert_placement *ret,
                                                            orr_error *err);
/* The layers of these numbers, shape (n), ascending. Where a placement has n layers numbered 0, 1,
 * .., and those are not the numbers, they are taken as they come: vLLM counts layers with experts
 * alone. INVALID: a layer that is not there. */
ORR_API ORR_MUST_CHECK orr_status orr_expert_placement_layers(const orr_expert_placement *placement,
                                                              const uint32_t *number, uint32_t n,
                                                              orr_arena *arena,
                                                              orr_expert_placement *ret,
                                                              orr_error *err);
/* SGLANG and VLLM have equally many slots on all ranks and layers, and no shares: where this one
 * does not, further copies fill them up. UNSUPPORTED for them: that would put an expert twice on a
 * rank; ranks or experts without a slot. */
ORR_API ORR_MUST_CHECK orr_status orr_expert_placement_write(const orr_expert_placement *placement,
                                                             orr_placement_format format,
                                                             const char *path, orr_error *err);

#define ORR_EXPERT_POLICY_MAP(X)                                                                   \
    X(BEST, "best")     /* least seconds of links, load and moves: see below */                    \
    X(LINEAR, "linear") /* neighbouring experts; spare slots repeat the first ones of the rank's   \
                         * right neighbour */                                                      \
    X(EPLB, "eplb")     /* DeepSeek's load balancer, to the letter */                              \
    X(AFFINITY, "affinity")         /* arXiv 2604.23150: by group_of_request */                    \
    X(COACTIVATION, "coactivation") /* TACG, arXiv 2606.01007 */                                   \
    X(ILP, "ilp") /* proven least imbalance of small cases, by an external solver */
typedef enum orr_expert_policy {
#define ORR_EXPERT_POLICY_ENUM_(name, text) ORR_EXPERT_POLICY_##name,
    ORR_EXPERT_POLICY_MAP(ORR_EXPERT_POLICY_ENUM_)
#undef ORR_EXPERT_POLICY_ENUM_
        ORR_EXPERT_POLICIES
} orr_expert_policy;
ORR_API const char *orr_expert_policy_name(orr_expert_policy policy);
/* False: no such policy. */
ORR_API bool orr_expert_policy_parse(const char *name, orr_expert_policy *ret);

/* What a placement is weighed by, in seconds: bytes over links, rows of experts, moved weights. */
typedef struct orr_expert_costs {
    double host_bytes_per_s, network_bytes_per_s; /* of a rank, within its host and beyond */
    double row_ns;                                /* of a rank, a row through an expert */
    double dispatch_bytes, combine_bytes;         /* of a row on its way to experts and back */
    double expert_bytes;                          /* weights of an expert of one layer */
    double tokens;                                /* of all ranks in a step */
    double top_k; /* rows of a token in a layer, where no routes tell; 0: 1 */
    const char *source;
} orr_expert_costs;

/* most_choices of the command and of simulations. */
enum { ORR_EXPERT_USUAL_CHOICES = 1 << 22 };

typedef struct orr_expert_options {
    size_t struct_bytes;               /* set by orr_expert_options_init() */
    uint8_t policy;                    /* orr_expert_policy */
    const orr_routes *routes;          /* NULL: loads alone are known (no AFFINITY, COACTIVATION) */
    const orr_expert_windows *windows; /* NULL: those of the routes, as one window */
    uint32_t ranks, host_ranks;        /* host_ranks 0: all are one host */
    uint32_t slots;         /* of a layer over all ranks; 0: E. Where ranks do not divide them the
                             * first ranks have one more */
    uint32_t expert_groups; /* EPLB, BEST: groups of consecutive experts that are kept on one host
                             * each (node-limited routing); 0 or 1: none */
    bool even_layers;       /* BEST: as many copies in every layer; else they go to the layers where
                             * they bring most, as many in all */
    const orr_expert_costs *costs; /* NULL: BEST looks at load alone, but with group_of_request at
                                    * links too, by what decode on hosts of 8 H100 is assumed to
                                    * cost: few rows to other ranks, which are about level */
    const uint32_t *group_of_request;    /* shape (requests): the group of ranks that a request is
                                          * dealt to, as orr_experts_group() gives; NULL: requests
                                          * are dealt to ranks evenly */
    uint32_t request_groups;             /* 0: as many as ranks; else a divisor of the ranks */
    const orr_expert_placement *running; /* the placement that runs; NULL: none */
    double horizon_steps;                /* BEST: steps that a move has to pay within; 0: moves cost
                                          * nothing */
    const bool *dead;                    /* shape (ranks): take no experts; NULL: all live */
    bool by_share;                       /* copies are taken by their shares alone, wherever the
                                          * token is: see orr_experts_slots() */
    uint64_t most_choices; /* figures of more choices are of about so many, those of evenly
                            * spread tokens; 0: all are counted */
    uint64_t seed;
    const volatile bool *stop; /* once true, BEST ends with the best placement so far */
} orr_expert_options;
ORR_API void orr_expert_options_init(orr_expert_options *options);

/* How a placement does with routes or loads. Dead ranks, those without a slot in any layer, do not
 * count in means. Requests are dealt to the ranks of their group, each to the one with the fewest
 * tokens so far. */
typedef struct orr_expert_quality {
    double imbalance_mean, imbalance_p95, imbalance_worst; /* max/mean of ranks, over layers, with
                                                            * the shares of the placement */
    uint32_t worst_layer;                                  /* index */
    uint32_t doubled_slots;           /* that repeat an expert of their rank: they bring nothing */
    double served_mean, served_worst; /* the same of rows as orr_experts_slots() sends them; NAN: no
                                       * routes */
    double remote_frac;  /* of (token, distinct rank that it is sent to): on another rank than the
                          * token's own; NAN: no routes */
    double dispatches;   /* distinct remote ranks of a token and layer, mean; NAN: no routes */
    double network_frac; /* remote choices that leave the host, of all choices; NAN: no routes */
    double dispatch_bytes[2], combine_bytes[2]; /* of all tokens and layers: within hosts, beyond;
                                                 * where costs were given, else rows */
    double step_ns; /* by the costs, for costs->tokens: of each layer the dispatch through the
                     * fullest port, the rows of the fullest rank, the combine through the fullest
                     * port, one after the other. A rank has a port out and one in, at either level,
                     * which work side by side. Without routes: rows alone; without costs: 0 */
} orr_expert_quality;
/* INVALID: neither routes nor windows, or such as the placement does not fit; options->ranks other
 * than its own (0: as it has). */
ORR_API ORR_MUST_CHECK orr_status orr_experts_evaluate(const orr_expert_placement *placement,
                                                       const orr_expert_options *options,
                                                       orr_arena *arena, orr_expert_quality *ret,
                                                       orr_error *err);

typedef struct orr_expert_result {
    orr_expert_placement placement;
    orr_expert_quality quality;   /* on what it was made from */
    double bound_ns, gap_frac;    /* BEST, ILP: no placement is faster; NAN: no bound */
    double bound_imbalance;       /* no placement has a lower worst imbalance; NAN: no bound */
    const uint32_t (*missing)[2]; /* shape (n_missing, 2): index of layer and expert; experts that
                                   * have no slot, since fewer are alive than there are experts */
    uint32_t n_missing;
} orr_expert_result;
/* Places experts. INVALID: fewer slots than experts, groups that hosts do not divide, routes of
 * other layers than the placement that runs, loads that are no numbers; UNSUPPORTED: AFFINITY and
 * COACTIVATION without routes, ILP without a solver on the PATH or for more than small cases. */
ORR_API ORR_MUST_CHECK orr_status orr_experts_place(const orr_expert_options *options,
                                                    orr_arena *arena, orr_expert_result *ret,
                                                    orr_error *err);

/* --- shares of copies ------------------------------------------------------------------------- */

/* Shares of the copies in a layer that make the fullest rank as little full as can be, for the
 * loads of this batch: a maximum flow from experts to ranks. Allocates nothing but in `room`, of
 * orr_experts_split_room() bytes. ret_share: shape (slots of the layer); returns the load of the
 * fullest rank over the mean. Loads: shape (E), finite, not negative. */
ORR_API size_t orr_experts_split_room(const orr_expert_placement *placement);
ORR_API double orr_experts_split(const orr_expert_placement *placement, uint32_t layer,
                                 const double *load, void *room, float *ret_share);

/* The slot of each choice of a token. Copies get the shares that the placement says, and rows go no
 * farther than these ask for: the copy on the token's own rank keeps what its share is over the
 * rank's part of all tokens (that of one of the live ranks, which have equally many); what is left
 * of a host's tokens goes to what its copies have left of their shares, and the rest to what is
 * left on other hosts. Where the placement says `nearest`: the copy on the own rank, else one on
 * the own host, else among all, by their shares where there are several. With `by_share`: by shares
 * among all copies, wherever the token is.
 *
 * Which of them is drawn by a hash of (request, position, layer, expert), so that the answer
 * depends on nothing else. choice: shape (K); ret: shape (K), indices of the placement's arrays,
 * UINT32_MAX for an expert that has no slot. */
typedef struct orr_expert_token {
    uint32_t request, position, rank;
} orr_expert_token;
ORR_API void orr_experts_slots(const orr_expert_placement *placement, uint32_t layer,
                               const orr_expert_token *token, const uint16_t *choice,
                               uint32_t top_k, bool by_share, uint32_t *ret);

/* Rows that ranks exchange in a layer, as Orrery's engine does: a token is sent once to each
 * distinct remote rank, and the result of each choice comes back on its own (so that sums have one
 * order wherever experts stand). sent: shape (R, R), rows of dispatch from a rank to another;
 * returned: shape (R, R), rows of results from a rank to another; `rows`: shape (R), rows through
 * the experts of a rank. Any may be NULL. rank_of_request: shape (requests); NULL: routes->rank.
 * INVALID: neither is known. */
typedef struct orr_expert_traffic {
    uint64_t *sent, *returned, *rows;
} orr_expert_traffic;
ORR_API ORR_MUST_CHECK orr_status orr_experts_count_traffic(
    const orr_expert_placement *placement, const orr_routes *routes, uint32_t layer,
    const uint32_t *rank_of_request, bool by_share, orr_expert_traffic *ret, orr_error *err);

/* --- groups of requests ----------------------------------------------------------------------- */

/* Groups of requests that choose alike: fitted on recorded requests, then asked for each new one
 * with what its prefill chose. */
typedef struct orr_expert_groups orr_expert_groups;
typedef struct orr_expert_groups_options {
    size_t struct_bytes; /* set by orr_expert_groups_options_init() */
    uint32_t groups;
    uint32_t neighbours; /* 0: the nearest group's centre; else by vote of the closest k recorded
                          * requests, at most 64 */
    double capacity;     /* most requests of a group over an even share, and most load with which a
                          * group takes a new one, beyond what chance makes of few; default 1.1 */
    double load_band;    /* of groups whose similarity (scalar product) is within this of the
                          * nearest, the emptiest is taken; default 0.02 */
    uint64_t seed;
} orr_expert_groups_options;
ORR_API void orr_expert_groups_options_init(orr_expert_groups_options *options);
/* Balanced k-means over unit vectors of the activations of each request in prefill (roots of the
 * experts' shares, layer by layer); of more than 2,048 requests, over evenly spaced ones.
 * ret_group: shape (requests), of the recorded requests, for orr_expert_options.group_of_request;
 * may be NULL. Requests without any tokens, as orr_routes_select() leaves them, get UINT32_MAX.
 * INVALID: fewer requests than groups, a request without prefill. */
ORR_API ORR_MUST_CHECK orr_status orr_expert_groups_fit(const orr_routes *routes,
                                                        const orr_expert_groups_options *options,
                                                        orr_arena *arena, orr_expert_groups **ret,
                                                        uint32_t *ret_group, orr_error *err);
/* The group of a new request, by the counts of its prefill, shape (L, E), given the load (tokens in
 * flight) of each group; `outstanding`: shape (groups), NULL: even. */
ORR_API uint32_t orr_experts_group(const orr_expert_groups *groups, const uint32_t *counts,
                                   const double *outstanding);

/* --- moves ------------------------------------------------------------------------------------ */

/* A copy of an expert made on a rank, or given up. */
typedef struct orr_expert_move {
    uint32_t layer; /* index */
    uint16_t expert;
    uint16_t from, to; /* ranks; `from` the nearest that has it. to == from: given up there */
    uint32_t step;     /* in which it is made: 0 .. steps - 1 */
} orr_expert_move;
typedef struct orr_expert_moves_options {
    size_t struct_bytes;           /* set by orr_expert_moves_options_init() */
    const orr_expert_costs *costs; /* expert_bytes; NULL: an expert is a byte */
    double step_bytes;             /* most bytes that a rank sends or receives in a step; 0: all at
                                    * once */
    const uint32_t *room;          /* shape (R): most slots of a rank over all layers while moving;
                                    * NULL: one more than the larger of both placements */
} orr_expert_moves_options;
ORR_API void orr_expert_moves_options_init(orr_expert_moves_options *options);
typedef struct orr_expert_moves {
    const orr_expert_move *moves; /* shape (n), in order */
    uint32_t n, steps;
    double bytes, network_bytes; /* of weights that are sent; beyond hosts */
    double fresh_bytes;          /* of a placement that shares nothing with the one that runs */
} orr_expert_moves;
/* The moves from one placement to another, in an order after every prefix of which each expert has
 * a slot and no rank more than its room. INVALID: placements of other shapes, no such order. */
ORR_API ORR_MUST_CHECK orr_status orr_expert_moves_plan(const orr_expert_placement *from,
                                                        const orr_expert_placement *to,
                                                        const orr_expert_moves_options *options,
                                                        orr_arena *arena, orr_expert_moves *ret,
                                                        orr_error *err);
/* The placement after the first n moves. Shares of copies are even. */
ORR_API ORR_MUST_CHECK orr_status orr_expert_moves_apply(const orr_expert_placement *from,
                                                         const orr_expert_moves *moves, uint32_t n,
                                                         orr_arena *arena,
                                                         orr_expert_placement *ret, orr_error *err);

/* A placement that is as good as a fresh one and near to the one that runs. */
typedef struct orr_expert_approach {
    orr_expert_placement placement;
    double bytes, fresh_bytes; /* of weights that are sent to come there, and to the fresh one; by
                                * costs->expert_bytes, else copies */
    orr_expert_quality running, reached, fresh; /* by the options */
} orr_expert_approach;
/* Changes the placement that runs, layer by layer in its own slots, by exchanges and copies that
 * bring most for each copy moved, until each layer costs at most 1 + tolerance times the fresh
 * one's. Where not all layers come there, and their sum is beyond that, some are taken from the
 * fresh placement as they are. Cost is
 * the rows of the fullest rank, with costs in time and with routes together with the rows over
 * links. With options->horizon_steps and costs no copy is moved that does not save within that many
 * steps the time in which it is sent. Where ranks are dead or have another number of slots, it is
 * the fresh placement. INVALID: placements of different shapes, options as orr_experts_evaluate()
 * refuses them. */
ORR_API ORR_MUST_CHECK orr_status orr_experts_approach(const orr_expert_placement *running,
                                                       const orr_expert_placement *fresh,
                                                       const orr_expert_options *options,
                                                       double tolerance, orr_arena *arena,
                                                       orr_expert_approach *ret, orr_error *err);

/* Whether loads have moved away from those that a placement was made for: a chi-square test of
 * each layer's counts of choices, that noise of so many choices passes but once in 10^6. Where
 * loads have several windows, what these differ by beyond noise (requests differ, and come and go)
 * passes as well. Drift says nothing of what moves would bring: orr_experts_approach() does. */
typedef struct orr_expert_drift {
    bool drifted;
    double statistic, threshold;            /* of the layer that differs most; drifted: above */
    uint32_t layer;                         /* index */
    double overdispersion;                  /* of windows, 1: that of independent choices */
    double imbalance_before, imbalance_now; /* of the placement, worst layer: fitted and now */
} orr_expert_drift;
/* INVALID: loads of other layers or more experts than the placement, or that are no counts. */
ORR_API ORR_MUST_CHECK orr_status orr_experts_drift(const orr_expert_placement *placement,
                                                    const orr_expert_windows *fitted,
                                                    const orr_expert_windows *now, orr_arena *arena,
                                                    orr_expert_drift *ret, orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_EXPERTS_H */
