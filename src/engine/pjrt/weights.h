/* weights.h - copies the weights of a model to the device, one after the other. */
#ifndef GALLOP_ENGINE_PJRT_WEIGHTS_H
#define GALLOP_ENGINE_PJRT_WEIGHTS_H

#include "engine/pjrt/plugin.h"
#include "graph/stablehlo.h"

/* Returns ERR_UNSUPPORTED, naming the linear and the reason, if weights of M are packed in a form that cannot be read
 * back, such as integers. */
int weights_check(const struct model *m, struct err *e);

/* Copies the weight W to the device as *OUT. CONTEXT is the length for which ropes that depend on the length are
 * computed. Host memory is allocated for this weight only. */
int weights_upload(struct plugin *p, const struct stablehlo_weight *w, size_t context,
                   struct pjrt_buffer **out, struct err *e);

#endif
