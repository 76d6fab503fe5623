/* SPDX-License-Identifier: Apache-2.0 */
#include "io/net/parts.h"

#if defined __x86_64__
#define HASH_TARGET "avx2"
#define XXH_VECTOR  XXH_AVX2
#define HASH_NAME   orr_net_hash_avx2
#include "io/net/frame_hash_level.h"
#endif
