/* SPDX-License-Identifier: Apache-2.0 */
#include "io/stream/codec.h"

/* Without ISA-L zlib inflates. */
const orr_decoder_ops *orr_gzip_fast_decoder(void)
{
    return NULL;
}
