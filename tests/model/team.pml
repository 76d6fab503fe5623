/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol of src/team in small: epochs, the vote on a step, the way back in. README.md says what is in it,
 * what is not, and which function of src/team each name stands for; run.py checks it.
 *
 * A value of step n is named by the epoch whose ring reduced it: that epoch fixes the contributors and slots.
 * The name stands for the digest. Everything is told by number: EPOCH e means row e of `ep`, which is written
 * once; nobody reads a row that it was not told of. A restarted member is a new one, with state 0. */
#define STEPS_MOST  3
#define EPOCHS_MOST 7
/* The bounds of a run and what is broken in it, from the environment: constant, and so no part of the state. */
hidden byte STEPS;    /* of the job                                                                      */
hidden byte EPOCHS;   /* at most this many are formed, the first among them                          */
hidden byte CRASHES;  /* members killed; they come back as new ones                                     */
hidden byte CUTS;     /* connections lost while the member lives; it goes on, and comes back as itself */
hidden byte RESTARTS; /* of the coordinator,                                                            */
hidden byte AMNESIA;  /* 1: without its record                                                         */
hidden byte FAULTS;   /* the data path broke: the same members again                                   */
hidden byte ENDS;     /* 1: faults may stop at any time, and every run must then come to its end        */
hidden byte RULE;     /* the rule that is broken, 0: none. run.py reads the names from here:            */
#define BAD_DURABLE       1  /* EPOCH is told before it is written down                              */
#define BAD_PARTIAL       2  /* most votes are enough to commit                                          */
#define BAD_OLD_READY     3  /* votes of any epoch count                                               */
#define BAD_FORGET        4  /* HELLO does not say what is prepared                                    */
#define BAD_SILENT        5  /* HELLO of one that heals does not say what it knows to be committed          */
#define BAD_RECORD        6  /* asked is the epoch that was written down, not the one that was entered   */
#define BAD_STALE         7  /* who has committed a step is not here: sums of any epoch will do         */
#define BAD_JOINERS       8  /* nobody with a whole state is needed                                     */
#define BAD_UNSURE        9  /* "all who may live are here" is believed without knowing the base          */
#define BAD_SLOT          10 /* whoever held a slot keeps it                                           */
#define BAD_NUMBER        11 /* one that has forgotten counts on from the epoch that it hears of         */
#define BAD_HALF          12 /* half is enough for one that has forgotten                                */
#define BAD_BASE          13 /* quorum is counted on the last epoch that was told, entered or not        */
#define BAD_EPOCH_COMMITS 14 /* what all have prepared who are here is committed by EPOCH at once       */
#define BAD_GONE          15 /* a closed connection is a death, though the process may live              */
#define BAD_UNASKED       16 /* before a step back, those who heal are not asked again                   */
#define BAD_BASELESS      17 /* that an epoch has committed is not written down before its first COMMIT  */
#define BAD_ALSO          18 /* after lost memory, only the base of the newest epoch heard of is kept       */
#define BAD(rule) (RULE == rule)

#define N     3
#define ALL   7
#define BIT(i) (1 << (i))
#define COUNT(m) (((m) & 1) + (((m) >> 1) & 1) + (((m) >> 2) & 1))
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define HAS(m, i) (((m) >> (i)) & 1)

c_decl {
    static int bound(const char *name)
    {
        const char *text = getenv(name);
        return text ? atoi(text) : 0;
    }
};

/* ---- what is written once and told by number ---- */
typedef epoch {
    unsigned members : 3;
    unsigned living : 3; /* of the members, those whose process still is the one that was listed       */
    unsigned base : 4;   /* the last epoch known to have committed a step when this one was formed */
    unsigned also : 4;   /* after lost memory: the newest that was heard of, which may have; else as base   */
    unsigned step : 2;   /* committed when it was formed                                        */
    unsigned carry : 4;  /* the value of step + 1, if it may have been committed: it is voted on again  */
};
epoch ep[EPOCHS_MOST + 1];

/* Slots of the contributors of step n in epoch e: four bits a member; 0: it posts zeros. */
short plan[(EPOCHS_MOST + 1) * (STEPS_MOST + 1)];
byte  posted[(EPOCHS_MOST + 1) * (STEPS_MOST + 1)]; /* members that have posted to the ring */
#define AT(e, n) ((e) * (STEPS_MOST + 1) + (n))
#define SLOT(p, i) (((p) >> (4 * (i))) & 15)

/* ---- the history of the job, by which it is judged ---- */
byte  value[STEPS_MOST + 1];  /* of step n: decided once                                        */
byte  next[STEPS_MOST + 1];   /* the data state after step n: slots are given out below this one, */
short returned[STEPS_MOST + 1]; /* and these of them were not consumed                         */
short consumed[STEPS_MOST + 1];
byte  last = 1; /* epochs formed */

/* ---- members ---- */
byte at[N];        /* epoch entered                                        */
byte committed[N]; /* step known to be committed                           */
byte state[N];     /* step whose state is held: behind `committed` while it heals */
byte prepared[N];  /* value of step committed + 1 that is held reduced, or 0 */
byte held[N];      /* slot of step committed + 1, or 0                     */
bit  voted[N];

/* ---- wires: READY up, EPOCH and COMMIT down ---- */
chan up[N] = [1] of { byte, byte, bit }; /* epoch, step, whole */
chan down[N] = [2] of { byte, byte };    /* epoch, step; step 0: EPOCH */

/* ---- the coordinator ---- */
mtype = { unbroken, restarted, amnesiac };
mtype memory = unbroken;
byte  now_at = 1;  /* the epoch in force, or the one of the record  */
byte  record = 1;  /* what is durable                               */
bit   established, record_established; /* a step was committed in it */
bit   sure;        /* this coordinator, before it forgot anything, has committed one: it knows the base */
byte  done;        /* the step committed last                       */
bit   halted; /* what it has heard is not enough: until it hears more */
unsigned connected : 3 = ALL, missing : 3, known_dead : 3, ready : 3, whole : 3;
byte  r_at[N], r_committed[N], r_state[N], r_prepared[N], r_held[N]; /* what it knows of the connected ones */

byte crashes, cuts, restarts, faults;
unsigned hit : 3;
bit  calm;

hidden byte k, j, s, was, fresh, v, floor;
/* Of those connected: the newest epoch entered, the one that is asked, the largest step committed, and held. */
hidden byte newest, asked, top, best;
hidden short taken, p;

/* ================= the rules ================= */

/* Members of epoch e that are here as themselves, and those known to be dead. */
#define HERE(e) (connected & ep[e].living)
#define GONE(e)                                                                                        \
    (ep[e].members & ((~ep[e].living & known_dead) | (BAD(BAD_GONE) -> missing & ~connected : 0)))
#define WHOLLY(e) ((ep[e].members & ~GONE(e) & ~HERE(e)) == 0) /* all that may live are here */
#define HALF(e) (2 * COUNT(HERE(e)) >= COUNT(ep[e].members & ~GONE(e)))
#define MOST(e) (2 * COUNT(HERE(e)) + BAD(BAD_HALF) > COUNT(ep[e].members))

#define MOST_OF_BASES (MOST(newest) && MOST(ep[newest].base) && MOST(ep[newest].also))
#define QUORUM_BAD (memory == amnesiac -> MOST(newest) : HALF(now_at))
#define QUORUM                                                                                       \
    (BAD(BAD_BASE) -> QUORUM_BAD                                                                      \
     : (memory == amnesiac -> (newest == 0 -> connected == ALL : MOST_OF_BASES)                  \
     : (established -> HALF(now_at)                                                                   \
     : HALF(ep[now_at].base) && HALF(ep[now_at].also) && (memory == unbroken || !BAD(BAD_BASELESS) || HALF(now_at)))))
/* Everybody who may live is here: what nobody of them has is lost, and made again. Only where the base is sure. */
#define EVERYBODY (memory != amnesiac && (sure || BAD(BAD_UNSURE)) && WHOLLY(now_at) && WHOLLY(ep[now_at].base))

/* Which epoch is asked whether its step was committed. */
#define READY_IN(i, e) (r_at[i] == (e) && r_committed[i] == top && r_prepared[i] == (e))
#define UNPREPARED(i) (HAS(HERE(asked), i) && !READY_IN(i, asked))
#define CARRIED                                                                                       \
    (ep[asked].carry != 0 && ep[asked].step == top                                                    \
         -> ep[asked].carry                                                                            \
         : (HERE(asked) == 0 || UNPREPARED(0) || UNPREPARED(1) || UNPREPARED(2) -> 0 : asked))

/* Has the state after step `done`, or will when it is told that it was committed. */
#define UP_TO_DATE(i)                                                                                  \
    (HAS(connected, i) && (r_state[i] == top || (r_state[i] + 1 == top && r_committed[i] + 1 == top \
                                                  && r_prepared[i] == value[top])))
#define HOLDS(i, d) (HAS(connected, i) && r_committed[i] == top && r_state[i] == top && r_prepared[i] == (d))
#define SOMEBODY(d)                                                                                    \
    (BAD(BAD_JOINERS) || ((d) == 0 -> UP_TO_DATE(0) || UP_TO_DATE(1) || UP_TO_DATE(2)                    \
                                   : HOLDS(0, d) || HOLDS(1, d) || HOLDS(2, d)))

#define STALE(i)                                                                                       \
    (BAD(BAD_STALE) && HAS(connected, i) && best < done && r_state[i] == best && r_committed[i] == best  \
     && r_prepared[i] != 0)
#define ROOM(i) (!HAS(connected, i) || len(down[i]) < 2)
/* Somebody waits to come in: then the commit comes with a new epoch. */
#define WAITING (last < EPOCHS && (connected & ~ep[now_at].living) != 0)
#define VOTED   (ready != 0 && ready == ep[now_at].members)
#define WANTED  (memory != unbroken || missing != 0 || VOTED || faults < FAULTS)
#define MAY_FORM                                                                                       \
    (!halted && last < EPOCHS && done < STEPS && connected != 0 && WANTED && ROOM(0) && ROOM(1) && ROOM(2))

/* A claim on a slot of the step to come, and whether a newer one stands against it. */
#define CLAIM(i) (HAS(connected, i) && r_state[i] == top && r_committed[i] == top && r_held[i] != 0)
#define YIELDS(i, q)                                                                                   \
    (!BAD(BAD_SLOT) && CLAIM(q) && r_held[q] == r_held[i]                                              \
     && (r_at[q] > r_at[i] || (r_at[q] == r_at[i] && (q) < (i))))

/* p gets slots for the contributors in `mask`, those in `keep` what they held. */
inline give_slots(n, mask, keep)
{
    p = 0;
    taken = 0;
    for (k : 0 .. N - 1) {
        if
        :: HAS(mask & keep, k) -> p = p | (r_held[k] << (4 * k)); taken = taken | (1 << r_held[k]);
        :: else
        fi
    }
    for (k : 0 .. N - 1) {
        if
        :: HAS(mask & ~keep, k) ->
            s = 1;
            do
            :: HAS(taken, s) || (s < next[n - 1] && !HAS(returned[n - 1], s)) -> s++
            :: else -> break
            od;
            taken = taken | (1 << s);
            p = p | (s << (4 * k));
        :: else
        fi
    }
    s = 0;
    k = 0;
}

/* Step n is committed with value d: the judge writes it down, or compares. */
inline decide(n, d)
{
    assert(value[n] == 0 || value[n] == d); /* S1, S2, S4 */
    if
    :: value[n] == 0 ->
        value[n] = d;
        p = plan[AT(d, n)];
        assert(p != 0);
        next[n] = next[n - 1];
        returned[n] = returned[n - 1];
        consumed[n] = consumed[n - 1];
        for (k : 0 .. N - 1) {
            s = SLOT(p, k);
            if
            :: s != 0 ->
                assert(!HAS(consumed[n], s)); /* S3: not twice */
                consumed[n] = consumed[n] | (1 << s);
                do
                :: next[n] <= s -> returned[n] = returned[n] | (1 << next[n]); next[n]++
                :: else -> break
                od;
                returned[n] = returned[n] & ~(1 << s);
            :: else
            fi
        }
        assert((consumed[n] | returned[n]) == (1 << next[n]) - 2); /* S3: none lost */
        assert((consumed[n] & returned[n]) == 0);
    :: else
    fi
    s = 0;
    k = 0;
    p = 0;
}

/* ================= the coordinator ================= */

/* One that heals may be whole by now. It is told to halt: it fetches no further, and says hello anew. */
inline ask_again()
{
    for (k : 0 .. N - 1) {
        r_state[k] = (HAS(connected, k) && !BAD(BAD_UNASKED) -> MAX(r_state[k], state[k]) : r_state[k])
    }
    k = 0;
}

/* To the furthest state of those who live, all of whom are here. */
inline step_back()
{
    s = MAX(r_state[0], MAX(r_state[1], r_state[2]));
    printf("coordinator: all who may live are here, the furthest state is after step %d\n", s);
    for (k : 0 .. N - 1) {
        assert(state[k] <= s); /* S1, for those who live */
        if
        :: r_committed[k] > s -> r_committed[k] = s; r_prepared[k] = 0
        :: else
        fi
    }
    for (k : s + 1 .. STEPS) {
        value[k] = 0;
        next[k] = 0;
        returned[k] = 0;
        consumed[k] = 0;
    }
    done = s;
    s = 0;
    k = 0;
}

inline take_stale()
{
    v = (STALE(0) -> r_prepared[0] : (STALE(1) -> r_prepared[1] : r_prepared[2]));
    done = best;
    top = best;
    for (k : 0 .. N - 1) {
        r_committed[k] = (r_committed[k] > done -> done : r_committed[k])
    }
}

inline form()
{
    if
    :: memory != amnesiac && established -> floor = now_at
    :: memory == amnesiac -> floor = ep[newest].base
    :: else -> floor = ep[now_at].base
    fi;
    if
    :: memory == unbroken && missing == 0 && !VOTED -> faults++
    :: else
    fi;
    if
    :: BAD(BAD_EPOCH_COMMITS) && v != 0 -> done++; top++; decide(done, v); v = 0
    :: else
    fi;
    fresh = (memory != amnesiac -> now_at + 1 : (BAD(BAD_NUMBER) -> newest + 1 : last + 1));
    last = MAX(last, fresh);
    assert(ep[fresh].members == 0); /* S4: one team a number */
    printf("coordinator: epoch %d of members %d after step %d, carrying %d\n", fresh, connected, done, v);
    ep[fresh].members = connected;
    ep[fresh].living = connected;
    ep[fresh].base = floor;
    if
    :: memory == amnesiac && !BAD(BAD_ALSO) -> ep[fresh].also = newest
    :: memory == amnesiac && BAD(BAD_ALSO) -> ep[fresh].also = floor
    :: memory != amnesiac && established -> ep[fresh].also = floor
    :: else -> ep[fresh].also = ep[now_at].also
    fi;
    ep[fresh].step = done;
    ep[fresh].carry = v;
    j = 0;
    was = 0;
    for (k : 0 .. N - 1) {
        if
        :: UP_TO_DATE(k) ->
            j = j | BIT(k);
            if
            :: CLAIM(k) && !YIELDS(k, 0) && !YIELDS(k, 1) && !YIELDS(k, 2) -> was = was | BIT(k)
            :: else
            fi
        :: else
        fi
    }
    if
    :: v == 0 && done < STEPS -> give_slots(done + 1, j, was); plan[AT(fresh, done + 1)] = p
    :: else -> p = plan[AT(v, done + 1)] 
    fi;
    for (k : 0 .. N - 1) {
        if
        :: HAS(connected, k) ->
            r_at[k] = fresh;
            r_prepared[k] = (v != 0 && r_committed[k] == done && r_prepared[k] == v -> v : 0);
            r_state[k] = (HAS(j, k) -> done : r_state[k]);
            r_committed[k] = done;
            r_held[k] = (done < STEPS -> SLOT(p, k) : 0);
            down[k] ! fresh, 0;
        :: else
        fi
    }
    now_at = fresh;
    record = (BAD(BAD_DURABLE) -> record : fresh);
    record_established = 0;
    memory = unbroken;
    established = 0;
    missing = 0;
    ready = 0;
    whole = 0;
    k = 0; j = 0; was = 0; v = 0; fresh = 0; floor = 0; p = 0; taken = 0;
}

inline look()
{
    newest = MAX(r_at[0], MAX(r_at[1], r_at[2]));
    top = MAX(done, MAX(r_committed[0], MAX(r_committed[1], r_committed[2])));
    best = MAX(r_state[0], MAX(r_state[1], r_state[2]));
    asked = (BAD(BAD_RECORD) && memory != amnesiac -> now_at : newest);
    v = CARRIED;
}

/* What newcomers know is asked here, and not before: until then the epoch in force goes on, and commits the same. */
inline try_to_form()
{
    look();
    if
    :: !QUORUM -> halted = 1
    :: QUORUM && SOMEBODY(v) -> done = top
    :: QUORUM && !SOMEBODY(v) && EVERYBODY ->
        ask_again();
        look();
        if
        :: SOMEBODY(v) -> done = top
        :: else -> step_back(); look(); v = (SOMEBODY(v) -> v : 0)
        fi
    :: QUORUM && !SOMEBODY(v) && !EVERYBODY ->
        if
        :: STALE(0) || STALE(1) || STALE(2) -> take_stale()
        :: else -> halted = 1
        fi
    fi;
    if
    :: !halted -> form()
    :: else -> printf("coordinator: halts\n")
    fi;
    newest = 0; asked = 0; top = 0; best = 0; v = 0;
}

#define PENDING(e, n) (ep[e].carry != 0 && ep[e].step + 1 == (n)) /* step n of e is a vote on a carried value */

inline commit()
{
    v = (PENDING(now_at, done + 1) -> ep[now_at].carry : now_at);
    done++;
    printf("coordinator: commits step %d in epoch %d, value %d\n", done, now_at, v);
    decide(done, v);
    established = 1;
    record_established = !BAD(BAD_BASELESS);
    sure = 1;
    p = 0;
    if
    :: done < STEPS -> give_slots(done + 1, whole, 0); plan[AT(now_at, done + 1)] = p
    :: else
    fi;
    for (k : 0 .. N - 1) {
        if
        :: HAS(connected & ep[now_at].living, k) ->
            if
            :: HAS(whole, k) -> r_state[k] = done
            :: else
            fi;
            r_committed[k] = done;
            r_prepared[k] = 0;
            r_held[k] = SLOT(p, k);
            if
            :: len(down[k]) < 2 -> down[k] ! now_at, done
            :: else /* it has been told of a later epoch: this one is not in force */
            fi
        :: else
        fi
    }
    ready = 0;
    whole = 0;
    k = 0; v = 0; p = 0; taken = 0;
}

#define ENOUGH (BAD(BAD_PARTIAL) -> 2 * COUNT(ready) > COUNT(ep[now_at].members) : ready == ep[now_at].members)
#define COUNTS(e, n) (memory == unbroken && (e == now_at || BAD(BAD_OLD_READY)) && n == done + 1)

inline hear_ready(i)
{
    d_step {
        up[i] ? j, s, k ->
        if
        :: COUNTS(j, s) ->
            ready = ready | BIT(i);
            halted = 0;
            whole = whole | (k << i);
            r_prepared[i] = (PENDING(now_at, s) -> r_prepared[i] : now_at);
            r_state[i] = (k -> done : r_state[i]);
            j = 0; s = 0; k = 0;
            if
            :: ENOUGH && !WAITING -> commit()
            :: else
            fi
        :: else
        fi;
        j = 0; s = 0; k = 0;
    }
}

/* HELLO: a connection anew; what was under way on the old one is gone. */
inline hear_hello(i)
{
    d_step {
        !HAS(connected, i) ->
        do
        :: len(down[i]) > 0 -> down[i] ? j, s
        :: else -> break
        od;
        j = 0; s = 0;
        printf("member %d: hello, of epoch %d, committed %d, state %d, prepared %d\n", i, at[i], committed[i], state[i],
               prepared[i]);
        connected = connected | BIT(i);
        halted = 0;
        known_dead = known_dead | BIT(i); /* whoever had the name before */
        r_at[i] = at[i];
        r_committed[i] = committed[i];
        r_state[i] = state[i];
        r_prepared[i] = (BAD(BAD_FORGET) -> 0 : prepared[i]);
        if
        :: BAD(BAD_SILENT) && state[i] < committed[i] -> r_committed[i] = state[i]; r_prepared[i] = 0
        :: else
        fi;
        r_held[i] = held[i];
        if
        :: memory != unbroken -> done = MAX(done, r_committed[i])
        :: else
        fi
    }
}

proctype Coordinator()
{
end:
    do
    :: hear_ready(0)
    :: hear_ready(1)
    :: hear_ready(2)
    :: hear_hello(0)
    :: hear_hello(1)
    :: hear_hello(2)
    :: d_step { MAY_FORM -> try_to_form() }
    :: d_step { BAD(BAD_DURABLE) && record != now_at && memory == unbroken -> record = now_at }
    od
}

/* ================= a member ================= */

#define POST(i) posted[AT(at[i], committed[i] + 1)] = posted[AT(at[i], committed[i] + 1)] | BIT(i)

inline enter(i, e)
{
    printf("member %d: enters epoch %d\n", i, e);
    assert(state[i] <= ep[e].step); /* nobody goes back */
    if
    :: committed[i] > ep[e].step -> committed[i] = ep[e].step; prepared[i] = 0 /* what it only heard of is lost */
    :: committed[i] < ep[e].step ->
        if
        :: committed[i] + 1 == ep[e].step && state[i] == committed[i] && prepared[i] != 0 &&
           prepared[i] == value[ep[e].step] -> state[i]++ /* only COMMIT had not arrived */
        :: else
        fi;
        committed[i] = ep[e].step;
        prepared[i] = 0;
    :: else
    fi;
    prepared[i] = (prepared[i] == ep[e].carry -> prepared[i] : 0);
    voted[i] = 0;
    at[i] = e;
    held[i] = 0;
    if
    :: committed[i] < STEPS && ep[e].carry == 0 ->
        held[i] = SLOT(plan[AT(e, committed[i] + 1)], i);
        assert(held[i] == 0 || state[i] == committed[i]); /* contributes only with the state */
        POST(i);
    :: committed[i] < STEPS && ep[e].carry != 0 && prepared[i] != 0 ->
        held[i] = SLOT(plan[AT(ep[e].carry, committed[i] + 1)], i)
    :: else
    fi
}

inline take_commit(i, e, n)
{
    if
    :: at[i] == e && committed[i] == n - 1 ->
        printf("member %d: commits step %d of epoch %d\n", i, n, e);
        assert(voted[i] || BAD(BAD_PARTIAL));
        v = (PENDING(e, n) -> ep[e].carry : e);
        if
        :: state[i] == n - 1 && prepared[i] != 0 ->
            assert(prepared[i] == v && value[n] == v); /* S1 */
            state[i] = n
        :: else
        fi;
        v = 0;
        committed[i] = n;
        prepared[i] = 0;
        voted[i] = 0;
        held[i] = 0;
        if
        :: n < STEPS -> held[i] = SLOT(plan[AT(e, n + 1)], i); POST(i)
        :: else
        fi
    :: else /* of an epoch that is over for this member */
    fi
}

#define REDUCED(i) (posted[AT(at[i], committed[i] + 1)] == ep[at[i]].members)

proctype Member(byte i)
{
end:
    do
    :: d_step { /* what the coordinator said */
        down[i] ? j, s ->
        if
        :: s == 0 && j > at[i] -> enter(i, j)
        :: s != 0 -> take_commit(i, j, s)
        :: else
        fi;
        j = 0; s = 0;
       }
    :: d_step { /* the last operation is reduced: READY */
        at[i] != 0 && !voted[i] && committed[i] < STEPS && len(up[i]) == 0 &&
            (PENDING(at[i], committed[i] + 1) || REDUCED(i)) ->
        printf("member %d: ready, step %d of epoch %d\n", i, committed[i] + 1, at[i]);
        voted[i] = 1;
        if
        :: !PENDING(at[i], committed[i] + 1) -> prepared[i] = at[i]
        :: else
        fi;
        if
        :: HAS(connected, i) -> up[i] ! at[i], committed[i] + 1, (state[i] == committed[i] && prepared[i] != 0)
        :: else
        fi
       }
    :: d_step { /* the last chunk of the state is here, from whoever has it */
        state[i] < committed[i] && ((at[0] == at[i] && state[0] == committed[i]) ||
                                    (at[1] == at[i] && state[1] == committed[i]) ||
                                    (at[2] == at[i] && state[2] == committed[i])) ->
        printf("member %d: has the state after step %d\n", i, committed[i]);
        state[i] = committed[i]
       }
    od
}

/* ================= what goes wrong ================= */

/* The first fault hits member 0, the first of another member 1: the three are alike, any run is one of these
 * under other names. */
#define NAMED(i) ((hit & (BIT(i) - 1)) == BIT(i) - 1)

inline drop(i)
{
    do
    :: len(up[i]) > 0 -> up[i] ? j, s, k
    :: else -> break
    od;
    j = 0; s = 0; k = 0;
    if
    :: HAS(connected, i) && HAS(ep[now_at].living, i) -> missing = missing | BIT(i)
    :: else
    fi;
    connected = connected & ~BIT(i);
    halted = 0;
    r_at[i] = 0; r_committed[i] = 0; r_state[i] = 0; r_prepared[i] = 0; r_held[i] = 0;
}

inline crash(i)
{
    d_step {
        !calm && crashes < CRASHES && NAMED(i) ->
        crashes++;
        printf("member %d is killed\n", i);
        hit = hit | BIT(i);
        known_dead = (HAS(connected, i) -> known_dead | BIT(i) : known_dead & ~BIT(i));
        drop(i);
        for (k : 0 .. EPOCHS) {
            ep[k].living = ep[k].living & ~BIT(i);
        }
        k = 0;
        do
        :: len(down[i]) > 0 -> down[i] ? j, s
        :: else -> break
        od;
        j = 0; s = 0;
        at[i] = 0; committed[i] = 0; state[i] = 0; prepared[i] = 0; held[i] = 0; voted[i] = 0;
    }
}

inline cut(i) /* what is on its way down still arrives, unless the member connects first */
{
    d_step {
        !calm && cuts < CUTS && HAS(connected, i) && NAMED(i) ->
        cuts++;
        printf("member %d is cut off\n", i);
        hit = hit | BIT(i);
        drop(i);
    }
}

inline restart()
{
    d_step {
        !calm && restarts < RESTARTS ->
        restarts++;
        printf("the coordinator restarts\n");
        for (was : 0 .. N - 1) {
            drop(was);
        }
        was = 0;
        memory = (AMNESIA -> amnesiac : restarted);
        now_at = (AMNESIA -> 0 : record);
        record = now_at;
        record_established = record_established && !AMNESIA;
        established = record_established; sure = established; done = 0; missing = 0; known_dead = 0; ready = 0; whole = 0;
    }
}

proctype World()
{
end:
    do
    :: crash(0)
    :: crash(1)
    :: crash(2)
    :: cut(0)
    :: cut(1)
    :: cut(2)
    :: restart()
    :: d_step { ENDS && !calm -> calm = 1 }
    od
}

/* L1: every action uses something up (a message, a vote, a fault, an epoch), so every run ends; where nothing can
 * move any more, all steps are committed. */
proctype Judge()
{
end:
    ENDS && timeout ->
    assert(value[STEPS] != 0);
    assert(last < EPOCHS); /* or the model ended for want of epochs */
    for (k : 0 .. N - 1) { /* L2: who is in has come back */
        assert(memory != unbroken || !HAS(connected & ~missing, k) || at[k] != now_at || state[k] == STEPS);
    }
}

init
{
    d_step {
        c_code {
            STEPS = (uchar)bound("STEPS");
            EPOCHS = (uchar)bound("EPOCHS");
            CRASHES = (uchar)bound("CRASHES");
            CUTS = (uchar)bound("CUTS");
            RESTARTS = (uchar)bound("RESTARTS");
            AMNESIA = (uchar)bound("AMNESIA");
            FAULTS = (uchar)bound("FAULTS");
            ENDS = (uchar)bound("ENDS");
            RULE = (uchar)bound("RULE");
        };
        next[0] = 1;
        ep[1].members = ALL;
        ep[1].living = ALL;
        ep[1].base = 1;
        ep[1].also = 1;
        plan[AT(1, 1)] = 1 | (2 << 4) | (3 << 8);
        posted[AT(1, 1)] = ALL;
        for (k : 0 .. N - 1) {
            at[k] = 1;
            held[k] = k + 1;
            r_at[k] = 1;
            r_held[k] = k + 1;
        }
        k = 0;
    }
    atomic {
        run Member(0);
        run Member(1);
        run Member(2);
        run Coordinator();
        run World();
        run Judge();
    }
}
