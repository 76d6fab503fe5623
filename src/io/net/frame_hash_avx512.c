/* SPDX-License-Identifier: Apache-2.0 */
#include "io/net/parts.h"

#if defined __x86_64__
#define HASH_TARGET "avx512f"
#define XXH_VECTOR  XXH_AVX512
#define HASH_NAME   orr_net_hash_avx512
#include "io/net/frame_hash_level.h"
#endif
