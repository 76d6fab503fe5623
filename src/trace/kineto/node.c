/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/kineto/reader.h"

#include <stdlib.h>
#include <string.h>

#include "trace/comm/hint.h"

/* Makes a node of a complete event: its kind by category and name, its columns, and details
 * (communication, copy, memory). */

static bool name_is(const kineto *k, orr_str name, const char *text)
{
    return strcmp(orr_builder_text(k->builder, name), text) == 0;
}

/* Does PyTorch name a range of its own so: a step, an optimizer's step, the next batch of a loader?
 * Recordings of 2020 have these as operators, later ones as annotations. What runs inside may be
 * recorded or not; the range itself executes nothing. */
static bool names_range(const char *text)
{
    static const char *const prefixes[] = {"ProfilerStep#", "enumerate(DataLoader)#",
                                           "Optimizer.step#", "Optimizer.zero_grad#"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(text, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

static kineto_name learn_name(const kineto *k, orr_str name)
{
    const char *text = orr_builder_text(k->builder, name);
    const size_t len = orr_strtab_len(k->builder->strings, name);
    const orr_comm_hint kernel = orr_comm_of_kernel(text, len);
    const orr_comm_hint host = orr_comm_of_host(text, len);
    return (kineto_name){.known = true,
                         .call_role = (uint8_t)orr_host_call_role_of(text, len),
                         .kernel_communicates = kernel.communicates,
                         .kernel_collective = kernel.collective,
                         .host_communicates = host.communicates,
                         .host_collective = host.collective,
                         .host_executes = host.communicates && orr_comm_runs_on_host(text, len),
                         .vector = host.vector,
                         .names_range = names_range(text)};
}

static orr_status name_of(kineto *k, orr_str name, kineto_name *ret, orr_error *err)
{
    if (name >= k->names.n) {
        const size_t more = orr_strtab_count(k->builder->strings) - k->names.n;
        if (!orr_array_reserve(&k->names, more))
            return orr_fail_memory(err);
        memset(k->names.at + k->names.n, 0, more * sizeof *k->names.at);
        k->names.n += more;
    }
    if (!k->names.at[name].known)
        k->names.at[name] = learn_name(k, name);
    *ret = k->names.at[name];
    return ORR_OK;
}

static orr_node_kind kind_of_collective(orr_collective collective)
{
    return collective == ORR_COLL_SEND   ? ORR_NODE_SEND
           : collective == ORR_COLL_RECV ? ORR_NODE_RECV
                                         : ORR_NODE_COLLECTIVE;
}

/* Work on MTIA, Meta's accelerator, is distinguished by name only. */
static orr_node_kind kind_of_mtia(const kineto *k, orr_str name)
{
    if (name_is(k, name, "event_wait") || name_is(k, name, "event_record"))
        return ORR_NODE_SYNC;
    return name_is(k, name, "dma_request") ? ORR_NODE_COPY : ORR_NODE_COMPUTE;
}

static orr_node_kind kind_of(const kineto *k, const kineto_event *e, const kineto_name *name)
{
    switch ((kineto_cat)e->cat) {
    case CAT_CPU_OP:
        return name->names_range ? ORR_NODE_ANNOTATION : ORR_NODE_HOST_OP;
    case CAT_USER_ANNOTATION:
        return name->host_executes ? kind_of_collective(name->host_collective)
                                   : ORR_NODE_ANNOTATION;
    case CAT_GPU_ANNOTATION:
        return ORR_NODE_DEVICE_ANNOTATION;
    case CAT_RUNTIME:
        return ORR_NODE_RUNTIME;
    case CAT_KERNEL:
        return name->kernel_communicates ? kind_of_collective(name->kernel_collective)
                                         : ORR_NODE_COMPUTE;
    case CAT_MEMCPY:
        return ORR_NODE_COPY;
    case CAT_MEMSET:
        return ORR_NODE_SET;
    case CAT_CUDA_SYNC:
        return ORR_NODE_SYNC;
    case CAT_MTIA_WORK:
        return kind_of_mtia(k, e->name);
    case CAT_PYTHON:
        return ORR_NODE_PYTHON;
    case CAT_INSTANT:
        return kineto_has(e, ARG_MEMORY_BYTES) ? ORR_NODE_MEMORY : ORR_NODE_OTHER;
    case CAT_OVERHEAD:
        return ORR_NODE_OVERHEAD;
    case CAT_OTHER:
    case CAT_FLOW_LAUNCH:
    case CAT_FLOW_FORWARD:
        break;
    }
    return ORR_NODE_OTHER;
}

static orr_status add_copy(kineto *k, const kineto_event *e, orr_node_id node, orr_error *err)
{
    const kineto_arg arg = e->cat == CAT_MTIA_WORK ? ARG_SIZE : ARG_BYTES;
    const int64_t bytes = kineto_value(e, arg, -1);
    if (bytes < 0)
        return ORR_OK;
    const orr_copy copy = {(uint64_t)bytes, e->rate_gb_per_s > 0 ? e->rate_gb_per_s * 1e9 : 0};
    return orr_builder_copy(k->builder, node, &copy, err);
}

static orr_status add_memory(kineto *k, const kineto_event *e, orr_node_id node, orr_error *err)
{
    const orr_memory memory = {
        .addr = (uint64_t)kineto_value(e, ARG_MEMORY_ADDR, 0),
        .bytes = kineto_value(e, ARG_MEMORY_BYTES, 0),
        .allocated_bytes = kineto_value(e, ARG_MEMORY_ALLOCATED, -1),
        .reserved_bytes = kineto_value(e, ARG_MEMORY_RESERVED, -1),
        .device_type = (int32_t)kineto_value(e, ARG_MEMORY_DEVICE_TYPE, -1),
        .device = (int32_t)kineto_value(e, ARG_MEMORY_DEVICE, -1),
    };
    return orr_builder_memory(k->builder, node, &memory, err);
}

static orr_status add_sync(kineto *k, const kineto_event *e, orr_node_id node, orr_error *err)
{
    const int64_t device = kineto_value(e, ARG_DEVICE, e->pid.number);
    orr_sync_record sync = {.node = node,
                            .stream = kineto_value(e, ARG_STREAM, INT64_MIN),
                            .wait_stream = kineto_value(e, ARG_WAIT_STREAM, INT64_MIN),
                            .device = device >= 0 && device < INT32_MAX ? (int32_t)device : -1,
                            .record_correlation = (uint64_t)kineto_value(e, ARG_WAIT_RECORD, 0)};
    if (name_is(k, e->name, "Stream Wait Event"))
        sync.kind = ORR_SYNC_STREAM_WAIT;
    else if (name_is(k, e->name, "Stream Sync"))
        sync.kind = ORR_SYNC_STREAM;
    else if (name_is(k, e->name, "Event Sync"))
        sync.kind = ORR_SYNC_EVENT;
    else if (name_is(k, e->name, "Context Sync"))
        sync.kind = ORR_SYNC_CONTEXT;
    else if (name_is(k, e->name, "event_wait"))
        sync.kind = ORR_SYNC_DEVICE_WAIT;
    else
        return ORR_OK;
    return orr_array_push(&k->recovery.syncs, sync) ? ORR_OK : orr_fail_memory(err);
}

static orr_status add_call(kineto *k, const kineto_event *e, orr_node_id node,
                           const kineto_name *name, orr_error *err)
{
    const int64_t bytes = kineto_value(e, ARG_SIZE, kineto_value(e, ARG_BYTES, -1));
    if (bytes >= 0 && !orr_array_push(&k->copy_sizes, ((kineto_copy_size){node, bytes})))
        return orr_fail_memory(err);
    if (name->call_role == ORR_HOST_CALL_NONE)
        return ORR_OK;
    const int64_t stream = kineto_value(e, ARG_STREAM_ID, kineto_value(e, ARG_STREAM, INT64_MIN));
    const orr_host_call call = {.node = node, .role = name->call_role, .stream = stream};
    return orr_array_push(&k->recovery.calls, call) ? ORR_OK : orr_fail_memory(err);
}

static orr_status add_autograd(kineto *k, const kineto_event *e, orr_node_id node, orr_error *err)
{
    const orr_autograd autograd = {.sequence = e->value[ARG_SEQUENCE],
                                   .node = node,
                                   .backward = kineto_value(e, ARG_FORWARD_THREAD, 0) > 0};
    if (autograd.sequence < 0)
        return ORR_OK;
    return orr_array_push(&k->recovery.autograd, autograd) ? ORR_OK : orr_fail_memory(err);
}

/* Adds what a node of its kind has beside its columns. */
static orr_status add_detail(kineto *k, const kineto_event *e, const orr_node *node, orr_node_id id,
                             const kineto_name *name, orr_error *err)
{
    switch ((kineto_cat)e->cat) {
    case CAT_CPU_OP:
        if (kineto_has(e, ARG_SEQUENCE))
            ORR_TRY(add_autograd(k, e, id, err));
        /* fall through */
    case CAT_USER_ANNOTATION:
        if (name->host_communicates || kineto_has(e, ARG_COLLECTIVE))
            return kineto_add_comm(k, e, id, name, name->host_executes, err);
        return ORR_OK;
    case CAT_KERNEL:
        if (name->kernel_communicates || kineto_has(e, ARG_COLLECTIVE))
            return kineto_add_comm(k, e, id, name, true, err);
        return ORR_OK;
    case CAT_RUNTIME:
        return add_call(k, e, id, name, err);
    case CAT_MEMCPY:
    case CAT_MEMSET:
        return add_copy(k, e, id, err);
    case CAT_MTIA_WORK:
        return node->kind == ORR_NODE_COPY   ? add_copy(k, e, id, err)
               : node->kind == ORR_NODE_SYNC ? add_sync(k, e, id, err)
                                             : ORR_OK;
    case CAT_CUDA_SYNC:
        return add_sync(k, e, id, err);
    case CAT_INSTANT:
        return node->kind == ORR_NODE_MEMORY ? add_memory(k, e, id, err) : ORR_OK;
    default:
        return ORR_OK;
    }
}

/* Only these have names that are interpreted. */
static bool name_matters(kineto_cat cat)
{
    return cat == CAT_CPU_OP || cat == CAT_USER_ANNOTATION || cat == CAT_RUNTIME ||
           cat == CAT_KERNEL;
}

orr_status kineto_add_node(kineto *k, const kineto_event *e, orr_error *err)
{
    const kineto_cat cat = (kineto_cat)e->cat;
    const bool on_device = kineto_cat_on_device(cat);
    kineto_name name = {.known = false};
    if (name_matters(cat))
        ORR_TRY(name_of(k, e->name, &name, err));

    orr_node node = {.name = e->name,
                     .kind = kind_of(k, e, &name),
                     .start_ns = e->ts_ns,
                     .duration_ns = e->dur_ns > 0 ? e->dur_ns : 0,
                     .parent = ORR_NONE};
    ORR_TRY(kineto_lane(k, e, on_device ? ORR_LANE_STREAM : ORR_LANE_HOST, &node.lane, err));
    const uint64_t correlation = (uint64_t)kineto_value(e, ARG_CORRELATION, 0);
    node.source_id = on_device || cat == CAT_RUNTIME
                         ? correlation
                         : (uint64_t)kineto_value(e, ARG_RECORD_FUNCTION, 0);
    k->fractions |= e->ts_ns % 1000 != 0 || e->dur_ns % 1000 != 0;
    k->uncorrelated += on_device && correlation == 0;
    k->last_correlation = correlation;
    k->last_ts_ns = e->ts_ns;

    orr_node_id id;
    ORR_TRY(orr_builder_node(k->builder, &node, &id, err));
    ORR_TRY(add_detail(k, e, &node, id, &name, err));
    return k->options->attributes ? kineto_put_attrs(k, id, err) : ORR_OK;
}

static int by_node(const void *a, const void *b)
{
    const kineto_copy_size *x = a, *y = b;
    return x->node < y->node ? -1 : x->node > y->node;
}

orr_status kineto_complete_copies(kineto *k, orr_error *err)
{
    const orr_graph_builder *b = k->builder;
    if (k->copy_sizes.n == 0)
        return ORR_OK;
    for (orr_node_id v = 0; v < b->n_nodes; v++) {
        if (b->kind[v] != ORR_NODE_COPY || (b->flags[v] & ORR_FLAG_COPY) != 0 ||
            k->recovery.launch[v] == ORR_NONE)
            continue;
        const kineto_copy_size wanted = {.node = k->recovery.launch[v]};
        const kineto_copy_size *found =
            bsearch(&wanted, k->copy_sizes.at, k->copy_sizes.n, sizeof wanted, by_node);
        if (found == NULL)
            continue;
        const orr_copy copy = {.bytes = (uint64_t)found->bytes};
        ORR_TRY(orr_builder_copy(k->builder, v, &copy, err));
    }
    return ORR_OK;
}
