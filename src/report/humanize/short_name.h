/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_HUMANIZE_SHORT_NAME_H
#define ORR_REPORT_HUMANIZE_SHORT_NAME_H

#include <stddef.h>

/* The name of a kernel without what C++ adds to it: return type, namespaces, parameters,
 * lambdas, and template arguments that say how rather than what.
 *
 *   void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>,
 *       at::detail::Array<char*, 3> >(int, ...)  ->
 * vectorized_elementwise_kernel<CUDAFunctor_add<float>>
 *
 * A list of names (", " or "|" between them) is shortened name by name. Names that are no C++
 * signature ("aten::mm", "Memcpy HtoD (Pageable -> Device)") and those whose brackets do not match
 * stay as they are. Writes at most `cap` bytes with the NUL (longer results are cut) and returns
 * the length. For people only: two kernels may share a short name. */
size_t orr_short_name(const char *name, char *buf, size_t cap);

#endif /* ORR_REPORT_HUMANIZE_SHORT_NAME_H */
