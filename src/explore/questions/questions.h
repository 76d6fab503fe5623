/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_QUESTIONS_QUESTIONS_H
#define ORR_EXPLORE_QUESTIONS_QUESTIONS_H

#include <orrery/explore.h>

#include "base/array.h"

/* Questions that take many searches (include/orrery/explore.h has their answers). The search is
 * orr_explore(), as anybody may call it. */

/* --- machines that nobody has ---------------------------------------------------------------- */

/* A cut between sites, or a level, that is not as it is. */
typedef struct orr_link_change {
    bool level;                /* `link` is a level, not a cut */
    uint32_t link;             /* ORR_NONE: all cuts */
    double bandwidth, latency; /* factors */
    double more_km;            /* distance that is added, at 5 us a kilometre; not of levels */
} orr_link_change;
/* Each returns a cluster in the arena that shares what is not changed. Errors: NO_MEMORY, LIMIT. */
orr_status orr_machine_with_link(const orr_cluster *cluster, const orr_link_change *change,
                                 orr_arena *arena, const orr_cluster **ret,
                                 orr_error *err) ORR_MUST_CHECK;
/* All devices have so many times the memory. */
orr_status orr_machine_with_memory(const orr_cluster *cluster, double factor, orr_arena *arena,
                                   const orr_cluster **ret, orr_error *err) ORR_MUST_CHECK;
/* The device in place of all; links and levels stay. */
orr_status orr_machine_of_device(const orr_cluster *cluster, const orr_device *device,
                                 orr_arena *arena, const orr_cluster **ret,
                                 orr_error *err) ORR_MUST_CHECK;
/* So many times as many devices, in each site; without sites the highest level has more units. */
orr_status orr_machine_grown(const orr_cluster *cluster, uint32_t times, orr_arena *arena,
                             const orr_cluster **ret, orr_error *err) ORR_MUST_CHECK;
/* The devices of all sites in one place, joined by a larger level of the sites' own kind. Where
 * sites have unlike devices they stay, with cuts as good as that level. It may have room for more
 * devices, as levels are whole. A cluster of one site is returned as it is. */
orr_status orr_machine_in_one_place(const orr_cluster *cluster, orr_arena *arena,
                                    const orr_cluster **ret, orr_error *err) ORR_MUST_CHECK;
/* Bytes/s per device of a cut or a level, one way, after oversubscription; of all cuts the least.
 */
double orr_machine_bandwidth(const orr_cluster *cluster, bool level, uint32_t link);
/* Kilometres of a cut: as given, or its latency as fibre; of all cuts the most. */
double orr_machine_distance(const orr_cluster *cluster, uint32_t cut);
/* "north-middle", "building", "all cuts". In the arena; NULL: out of memory. */
const char *orr_machine_link_name(const orr_cluster *cluster, bool level, uint32_t link,
                                  orr_arena *arena);

/* --- probes ---------------------------------------------------------------------------------- */

/* One search: of what machine, with what options. */
typedef struct orr_trial {
    const char *what;
    double at;
    const orr_cluster *cluster;
    orr_explore_options options;
} orr_trial;

/* A question while its probes are made. */
typedef struct orr_asking {
    const orr_inquiry *inquiry;
    double limit;  /* NAN: a comparison */
    double factor; /* the limit is so many times the value of probe 0; 0: it is absolute */
    orr_arena *arena;
    orr_error *err;
    orr_array(orr_probe) probes;
    orr_array(orr_trial) trials; /* of each probe; without a cluster: it was no search */
    orr_array(orr_plan) starts;  /* what the next search begins with, the newest last */
} orr_asking;
void orr_asking_done(orr_asking *asking);
bool orr_asking_stopped(const orr_asking *asking);
/* The options of the inquiry, as a probe has them: one plan is kept, and nothing is stored. */
orr_explore_options orr_asking_options(const orr_asking *asking);
/* Adds the inquiry's reference as a probe; without a plan it has none, and the reason. */
orr_status orr_asking_add_reference(orr_asking *asking, const char *what, double at) ORR_MUST_CHECK;
/* Searches, and adds the probe. A trial that is no valid question, or has no plan, is a probe
 * without one. Errors: NO_MEMORY, IO, UNSUPPORTED. */
orr_status orr_asking_search(orr_asking *asking, const orr_trial *trial) ORR_MUST_CHECK;
/* Adds a probe that no search made. */
orr_status orr_asking_add(orr_asking *asking, const orr_trial *trial,
                          const orr_probe *probe) ORR_MUST_CHECK;
/* Sets the verdict of a probe by the limit. */
void orr_asking_judge(const orr_asking *asking, orr_probe *probe);
/* Where the limit is a multiple of probe 0: makes it so again, and judges all probes by it. True:
 * the limit is lower than it was. */
bool orr_asking_tighten(orr_asking *asking);
/* Lets the plans of harder probes run on the machines of easier ones, and counts pairs that still
 * contradict the order. `direction`: +1: a larger number is harder; -1: a smaller one. */
orr_status orr_asking_reconcile(orr_asking *asking, int direction,
                                uint32_t *ret_contradictions) ORR_MUST_CHECK;
/* For comparisons: runs the plans of all probes on the machine of the first, and then the best of
 * it on theirs, so that no probe is worse than keeping the plan of the first. */
orr_status orr_asking_share(orr_asking *asking) ORR_MUST_CHECK;
/* The answer of all probes, in the arena. */
orr_status orr_asking_answer(orr_asking *asking, const orr_answer *like,
                             orr_answer *ret) ORR_MUST_CHECK;

/* --- bisection ------------------------------------------------------------------------------- */

typedef struct orr_bisection {
    int direction;     /* +1: a larger number is harder; -1: a smaller one */
    double end;        /* the hardest that is tried */
    double first;      /* tried first; 0: a stride from the reference */
    double stride;     /* factor, until a probe does not meet the limit */
    double resolution; /* the bracket is small enough: ratio of its ends less 1 */
    double whole;      /* numbers are multiples of it, and so is the bracket; 0: any */
    orr_status (*probe)(void *ctx, double at); /* adds a probe; where it meets the limit, at the
                                                  hardest number for which it does */
    void *ctx;
} orr_bisection;
/* Finds the hardest number that meets the limit. Probe 0 is the easiest. Sets `answer`, `beyond`
 * and `contradictions`. */
orr_status orr_bisect(orr_asking *asking, const orr_bisection *bisection,
                      orr_answer *ret) ORR_MUST_CHECK;

#endif /* ORR_EXPLORE_QUESTIONS_QUESTIONS_H */
