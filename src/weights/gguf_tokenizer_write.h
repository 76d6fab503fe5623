/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_WEIGHTS_GGUF_TOKENIZER_WRITE_H
#define ORR_WEIGHTS_GGUF_TOKENIZER_WRITE_H

#include "weights/write.h"

/* The tokenizer's tokens, kinds, and scores or merges, as llama.cpp reads them; of BYTES nothing.
 */
orr_status orr_gguf_put_tokenizer(orr_gguf_metadata_writer *keys, const orr_tokenizer *tokenizer,
                                  orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_WEIGHTS_GGUF_TOKENIZER_WRITE_H */
