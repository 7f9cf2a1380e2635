/* op_config.h - the backends of operator kinds that the user chose with --op-config and --attention-backend. */
#ifndef GALLOP_ENGINE_OP_CONFIG_H
#define GALLOP_ENGINE_OP_CONFIG_H

#include "base/arena.h"
#include "base/err.h"
#include "ops/linear.h"

struct op_config {
    const char *backend[OP_N_KINDS]; /* by enum op_kind; NULL: chosen automatically */
    struct arena arena;
};

/* Reads JSON, an object that maps kinds ("norm", "qkv_projection", "rope", "attention", "out_projection",
 * "mlp", "lm_head") to names of backends, and ATTENTION, the name of an attention backend; both may be NULL.
 * PACE's names are accepted, too: "mlp_backend", "qkv_proj_backend", "TPP". ERR_INPUT: a kind or backend is
 * unknown, or a kind appears twice. ERR_UNSUPPORTED: the build lacks the backend. */
int op_config_read(struct op_config *c, const char *json, const char *attention, struct err *e);

/* If PACE does not support the chosen attention backend for the cache type KV_TYPE, replaces it by "gallop"
 * and logs a warning, as PACE does. */
void op_config_fit_attention(struct op_config *c, const char *kv_type);

void op_config_fini(struct op_config *c);

#endif
