/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_GENERATE_WRITER_H
#define ORR_ENGINE_GENERATE_WRITER_H

#include "engine/generate/generator.h"

/* The tape of a program being written, from those of modules. */
typedef struct orr_program_writer orr_program_writer;
struct orr_program_writer {
    orr_generator *g;
    orr_cached_program *to;
    orr_backbone *backbone; /* NULL: an LM head */
    orr_value *map;         /* values of the tape for the module's */
    orr_value last;         /* output of the previous place */
    orr_value pictures;     /* output of the vision encoder; ORR_NONE */
    uint32_t place;
    orr_error *err;
};

/* A value of the tape, like that of a module. */
orr_status orr_writer_value(orr_program_writer *w, const orr_tape_value *like,
                            orr_value *ret) ORR_MUST_CHECK;
orr_status orr_cached_program_begin(orr_cached_program *program, orr_error *err) ORR_MUST_CHECK;
/* Appends the calls of a module, which is that of the writer's place. */
orr_status orr_writer_copy_module(orr_program_writer *w, const orr_module *module) ORR_MUST_CHECK;
/* Makes the program of the tape. */
orr_status orr_cached_program_finish(orr_generator *g, orr_cached_program *program,
                                     orr_error *err) ORR_MUST_CHECK;
void orr_cached_program_free(orr_cached_program *program);
/* Frees a program that gives way to another: at the end, where it may have been recorded. */
orr_status orr_cached_program_retire(orr_generator *g, orr_cached_program *program,
                                     orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_GENERATE_WRITER_H */
