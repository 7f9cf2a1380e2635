/* ggufconf.h - the metadata of a GGUF checkpoint as the config.json that the model's own checkpoint has.
 *
 * What the model files read is the config of Hugging Face; here it is written from GGUF's keys, so that no
 * model file knows where its numbers come from. A key of the architecture that is not understood is an error,
 * as an unknown key of config.json is.
 */
#ifndef GALLOP_CKPT_GGUFCONF_H
#define GALLOP_CKPT_GGUFCONF_H

#include <jansson.h>

#include "ckpt/ggufarch.h"

/* A new object in *out. */
int ggufconf_make(json_t **out, struct ggufset *s, const struct ggufarch *a, struct err *e);

#endif
