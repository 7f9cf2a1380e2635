/* weights.h - copies the weights of a model to the device, one after the other. */
#ifndef GALLOP_ENGINE_PJRT_WEIGHTS_H
#define GALLOP_ENGINE_PJRT_WEIGHTS_H

#include <stddef.h>

struct err;
struct model;
struct pjrt_buffer;
struct plugin;
struct pool;
struct stablehlo;

/* Returns ERR_UNSUPPORTED, naming the linear and its backend, if a linear of M is packed in a layout that cannot be
 * read back. */
int weights_check(const struct model *m, struct err *e);

/* Copies weight NUMBER of PROGRAM, a program of M, to the device as *OUT. CONTEXT is the number of rows of a RoPE
 * table. POOL: threads that may pack a linear. Host memory is allocated for this weight only, and pages of files that
 * were read are dropped. An int8 or int4 linear is packed only once if its arrays are copied in succession. */
int weights_upload(struct plugin *p, const struct model *m, const struct stablehlo *program, size_t number,
                   size_t context, struct pool *pool, struct pjrt_buffer **out, struct err *e);

#endif
