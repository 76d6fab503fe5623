/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/kernel_work/work.h"

#include <string.h>

/* Work of a recorded node: the rule of its operator reads the arguments; where an operator
 * launches several kernels, the names of the kernels tell which one does the operator's
 * arithmetic and gets its work, and the others are helpers. */

/* `result`: an operator whose inputs have the shape of the operator's output (its gradient); or
 * ORR_NONE. */
static bool read_arguments(const orr_graph *g, orr_node_id op, orr_node_id result,
                           const orr_op_rule *rule, orr_work *work)
{
    orr_arguments in, out;
    if (!orr_arguments_in(g, op, &in))
        return false;
    const bool has_out =
        result != ORR_NONE ? orr_arguments_in(g, result, &out) : orr_arguments_out(g, op, &out);
    if (!has_out)
        orr_arguments_parse("", NULL, &out);
    orr_work as_read = *work;
    const bool has_reader = rule != NULL && rule->read != NULL;
    if (!(has_reader ? rule->read : orr_read_elements)(&in, &out, &as_read))
        return false;
    if (rule != NULL && !has_reader)
        as_read.n_dims = 0; /* elements do not mean what dims of its family mean */
    *work = as_read;
    return true;
}

static bool is_product(unsigned family)
{
    return family == ORR_FAMILY_GEMM || family == ORR_FAMILY_CONVOLUTION ||
           family == ORR_FAMILY_ATTENTION;
}

/* Is the kernel one that does the operator's arithmetic? Products are done by kernels with names
 * of products; the others around them are helpers. */
static bool does_arithmetic(unsigned family, unsigned kernel_family)
{
    switch (family) {
    case ORR_FAMILY_GEMM:
    case ORR_FAMILY_CONVOLUTION:
    case ORR_FAMILY_ATTENTION:
        return is_product(kernel_family) || kernel_family == ORR_FAMILIES;
    case ORR_FAMILY_EMBEDDING_FORWARD:
    case ORR_FAMILY_EMBEDDING_BACKWARD:
        return kernel_family == family || kernel_family == ORR_FAMILIES;
    default:
        return kernel_family != ORR_FAMILY_HELPER;
    }
}

/* FBGEMM's backward has a kernel for rows that are used up to 32 times in a batch (a warp each),
 * and one for rows used more often (a block each). The kernel that fits the average row gets the
 * work. */
static void give_to_one_of_two(orr_work *work)
{
    const bool per_block = strstr(work->kernel, "cta_per_row") != NULL;
    if (work->n_dims < 5 || (!per_block && strstr(work->kernel, "warp_per_row") == NULL))
        return;
    const bool often = (double)work->dims[0] * (double)work->dims[2] > 32.0 * (double)work->dims[1];
    if (per_block != often)
        *work = (orr_work){.family = ORR_FAMILY_OTHER,
                           .dtype = work->dtype,
                           .op = work->op,
                           .kernel = work->kernel};
}

static void work_of_rule(const orr_graph *g, orr_node_id op, const orr_op_rule *rule,
                         unsigned kernel_family, orr_work *work)
{
    if (!does_arithmetic(rule->family, kernel_family))
        return; /* stays OTHER */
    work->family = rule->family;
    work->backward = rule->backward;
    const orr_node_id telling = orr_work_outermost_operator(g, op, rule);
    if (read_arguments(g, telling, ORR_NONE, rule, work))
        return;
    if (telling != op && read_arguments(g, op, ORR_NONE, rule, work))
        return;
    const orr_node_id forward =
        rule->backward && rule->read != NULL ? orr_work_forward(g, op, rule) : ORR_NONE;
    if (forward != ORR_NONE && read_arguments(g, forward, op, rule, work))
        give_to_one_of_two(work);
}

/* Operators without a rule: work from the kernel's name and the shapes. */
static bool work_of_kernel(const orr_graph *g, orr_node_id op, unsigned kernel_family,
                           orr_work *work)
{
    if (kernel_family == ORR_FAMILY_HELPER)
        return true;
    if (kernel_family < ORR_FAMILIES)
        work->family = (uint8_t)kernel_family;
    const bool by_elements = work->family == ORR_FAMILY_OTHER ||
                             work->family == ORR_FAMILY_ELEMENTWISE ||
                             work->family == ORR_FAMILY_REDUCTION;
    const bool read = by_elements && op != ORR_NONE && read_arguments(g, op, ORR_NONE, NULL, work);
    return read || kernel_family < ORR_FAMILIES;
}

/* Tensor cores round FP32 to TF32, which only the kernel's name tells. */
static void refine_dtype(orr_work *work)
{
    static const struct {
        const char *part;
        orr_dtype dtype;
    } NAMES[] = {{"tf32", ORR_DTYPE_TF32},       {"s1688gemm", ORR_DTYPE_TF32},
                 {"s1688cudnn", ORR_DTYPE_TF32}, {"tensorop_s1688", ORR_DTYPE_TF32},
                 {"bf16", ORR_DTYPE_BF16},       {"h884", ORR_DTYPE_FP16},
                 {"h16816", ORR_DTYPE_FP16},     {"f16", ORR_DTYPE_FP16}};
    if (!is_product(work->family) || (work->dtype != ORR_DTYPE_FP32 && work->n_dims > 0))
        return;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strstr(work->kernel, NAMES[i].part) != NULL) {
            if (NAMES[i].dtype == ORR_DTYPE_TF32 || work->n_dims == 0)
                work->dtype = (uint8_t)NAMES[i].dtype;
            return;
        }
}

static orr_copy_kind direction_of(const char *name)
{
    if (strstr(name, "HtoD") != NULL || strstr(name, "HostToDevice") != NULL)
        return ORR_COPY_HTOD;
    if (strstr(name, "DtoH") != NULL || strstr(name, "DeviceToHost") != NULL)
        return ORR_COPY_DTOH;
    return ORR_COPY_DTOD;
}

static orr_status work_of_copy(const orr_graph *g, orr_node_id node, orr_work *work)
{
    const orr_copy *copy = orr_graph_copy(g, node);
    if (copy == NULL)
        return ORR_UNSUPPORTED;
    const bool set = g->kind[node] == ORR_NODE_SET;
    work->family = ORR_FAMILY_COPY;
    work->copy = (uint8_t)(set ? ORR_COPY_DTOD : direction_of(work->kernel));
    work->dtype = ORR_DTYPE_INT8;
    work->read_bytes = set ? 0 : (double)copy->bytes;
    work->write_bytes = (double)copy->bytes;
    const uint64_t most = INT64_MAX;
    ORR_SET_DIMS(work, (int64_t)(copy->bytes < most ? copy->bytes : most));
    return ORR_OK;
}

orr_status orr_work_of_node(const orr_graph *graph, orr_node_id node, orr_work *ret, orr_error *err)
{
    if (node >= graph->n_nodes)
        return orr_fail(err, ORR_INVALID, "node %u of %u", node, graph->n_nodes);
    const uint8_t kind = graph->kind[node];
    const bool on_host = kind == ORR_NODE_HOST_OP;
    const unsigned kernel_family =
        on_host ? ORR_FAMILIES : orr_kernel_family_by_name(orr_graph_str(graph, graph->name[node]));
    const orr_node_id op = orr_work_operator(graph, node, kernel_family);
    orr_work work = {.family = ORR_FAMILY_OTHER,
                     .dtype = ORR_DTYPE_FP32,
                     .op = op == ORR_NONE ? "" : orr_graph_str(graph, graph->name[op]),
                     .kernel = on_host ? "" : orr_graph_str(graph, graph->name[node])};
    if (kind == ORR_NODE_COPY || kind == ORR_NODE_SET) {
        ORR_TRY(work_of_copy(graph, node, &work));
    } else if (kind == ORR_NODE_COMPUTE || on_host) {
        const orr_op_rule *rule = orr_work_rule(graph, op);
        if (rule != NULL)
            work_of_rule(graph, op, rule, kernel_family, &work);
        else if (!work_of_kernel(graph, op, kernel_family, &work))
            return ORR_UNSUPPORTED;
        refine_dtype(&work);
    } else {
        return ORR_UNSUPPORTED;
    }
    orr_work_complete(&work);
    *ret = work;
    return ORR_OK;
}
