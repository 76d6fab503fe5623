/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_STORE_ETCD_CLIENT_H
#define ORR_TEAM_STORE_ETCD_CLIENT_H

#include "io/json/reader.h"

/* Requests to a cluster of etcd, over HTTP by libcurl; the endpoint that answered last is asked
 * first. Certificates are named as for etcdctl, by ETCDCTL_CACERT, ETCDCTL_CERT and ETCDCTL_KEY of
 * the environment; proxies of the environment are not used. Threads: one at a time. */
typedef struct orr_etcd_client orr_etcd_client;

/* "http://a:2379,https://b:2379"; without a scheme: http. Errors: INVALID, NO_MEMORY; UNSUPPORTED:
 * there is no libcurl that starts. */
orr_status orr_etcd_client_new(const char *endpoints, orr_etcd_client **ret,
                               orr_error *err) ORR_MUST_CHECK;
void orr_etcd_client_free(orr_etcd_client *client);
/* The answer to a POST, valid until the next call. Returns within timeout_ns: endpoints that do not
 * answer are given an equal share of what is left of it, and are asked again while there is any. So
 * a request may be carried out though this fails, and more than once. Errors: IO: none answered, or
 * one refuses for good; NO_MEMORY. */
orr_status orr_etcd_post(orr_etcd_client *client, const char *path, orr_text body,
                         int64_t timeout_ns, orr_text *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_TEAM_STORE_ETCD_CLIENT_H */
