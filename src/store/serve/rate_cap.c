/* SPDX-License-Identifier: Apache-2.0 */
#include "store/serve/rate_cap.h"

enum { BURST_NS = 1000 * 1000 };

void orr_rate_cap_init(orr_rate_cap *cap, double per_second)
{
    atomic_init(&cap->granted_until_ns, 0);
    cap->ns_each = per_second > 0 ? 1e9 / per_second : 0;
    cap->burst_ns = BURST_NS;
}

int64_t orr_rate_cap_take(orr_rate_cap *cap, uint32_t n, int64_t now_ns)
{
    if (cap->ns_each == 0)
        return now_ns;
    int64_t until = atomic_load_explicit(&cap->granted_until_ns, memory_order_relaxed), begin;
    do
        begin = until > now_ns - cap->burst_ns ? until : now_ns - cap->burst_ns;
    while (!atomic_compare_exchange_weak(&cap->granted_until_ns, &until,
                                         begin + (int64_t)(n * cap->ns_each)));
    return begin > now_ns ? begin : now_ns;
}
