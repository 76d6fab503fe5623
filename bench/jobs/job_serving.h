/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JOB_SERVING_H
#define JOB_SERVING_H

#include "job_predict.h"

/* A served model in steady state: `batch` requests at a time on one instance (tp x pp devices, or
 * dp x pp where attention is replicated).
 *
 * A request costs its share of a pass over prompts, then a step of decoding for each of its output
 * tokens, whose mean context is its prompt and half of its output. So it is with static batching,
 * where all requests grow together, and with batching in flight, where they are spread evenly over
 * their lengths. Passes follow one another without gaps: pipeline bubbles are taken out. The batch
 * that is not told is as many requests as have room for all of their tokens in what KV_SHARE of the
 * free memory holds (TensorRT-LLM: GUARANTEED_NO_EVICT, kv_cache_free_gpu_mem_fraction), at most
 * REQUESTS_MOST (its max_batch_size). */
void job_predict_serving(const job_world *world, const job_case *c,
                         const orr_calibration *calibration, job_prediction *ret);

/* The batch alone, which no speed matters to; 0: there is none, and ret->reason says why. */
uint32_t job_serving_batch(const job_world *world, const job_case *c,
                           const orr_calibration *calibration, job_prediction *ret);

#endif /* JOB_SERVING_H */
