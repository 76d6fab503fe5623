/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_STORE_STORE_H
#define ORR_TEAM_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <orrery/status.h>

/* What a coordinator must remember: one record, replaced whole, durable before anybody is told of
 * it.
 *
 * Behind it: a local log, fsynced (log.c); etcd (etcd.c, built with libcurl); a
 * simulated disk. */
typedef struct orr_team_store orr_team_store;
struct orr_team_store {
    const char *name; /* "log", "etcd", "sim" */
    void *ctx;
    bool shared; /* it takes a record only from who has read the last: several may have it open */
    /* The newest record that is whole, up to `room` bytes. NOT_FOUND: there never was one. PARSE:
     * there was, and nothing of it can be read. LIMIT: longer than room. */
    orr_status (*load)(orr_team_store *store, uint64_t *ret_version, void *ret, size_t room,
                       size_t *ret_bytes, orr_error *err);
    /* Durable when it returns. `version` is larger than that of every record before. Errors: IO:
     * the record before stays, though (etcd) a write that nobody answered may yet be carried out;
     * CANCELED: another coordinator wrote (etcd), this one must end; INVALID: no larger version;
     * LIMIT: beyond 1 MiB. */
    orr_status (*save)(orr_team_store *store, uint64_t version, const void *record, size_t bytes,
                       orr_error *err);
    void (*close)(orr_team_store *store);
};

/* A file of records, each with its length, version and hash: appended, synced, and replaced by its
 * last record when it has grown; a torn tail is cut off, and what cannot be read at all is kept as
 * PATH.unreadable. One process at a time holds it (flock), and children forked meanwhile with it.
 * Errors: IO; LIMIT: another process holds it, or it is too large to be a log. */
orr_status orr_team_store_log(const char *path, orr_team_store **ret,
                              orr_error *err) ORR_MUST_CHECK;

/* A key of etcd, through its JSON gateway (v3): written only if nobody else wrote since this store
 * loaded or saved (compare on the key's revision), so load first. `endpoints`: "http://host:2379",
 * several with commas; the next is asked where one does not answer, and load and save return within
 * timeout_ns. Errors: IO; INVALID; UNSUPPORTED: built without libcurl. */
orr_status orr_team_store_etcd(const char *endpoints, const char *key, int64_t timeout_ns,
                               orr_team_store **ret, orr_error *err) ORR_MUST_CHECK;

/* "etcd:http://a:2379,http://b:2379/key" (what follows the slash is the key) or the path of a log.
 * Errors: as above. */
orr_status orr_team_store_open(const char *where, int64_t timeout_ns, orr_team_store **ret,
                               orr_error *err) ORR_MUST_CHECK;

static inline void orr_team_store_close(orr_team_store *store)
{
    if (store != NULL)
        store->close(store);
}

#endif /* ORR_TEAM_STORE_STORE_H */
