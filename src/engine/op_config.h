/* op_config.h - which backend each operator kind shall use, as the user wrote it in --op-config and
 * --attention-backend. */
#ifndef GALLOP_ENGINE_OP_CONFIG_H
#define GALLOP_ENGINE_OP_CONFIG_H

#include "base/arena.h"
#include "base/err.h"
#include "ops/linear.h"

struct op_config {
    const char *backend[OP_N_KINDS]; /* NULL: automatic */
    struct arena arena;
};

/* JSON (may be NULL): an object of kind ("norm", "qkv_projection", "rope", "attention", "out_projection",
 * "mlp", "lm_head") to backend name. PACE's spellings are taken, too: "mlp_backend", "qkv_proj_backend",
 * "TPP". An unknown kind, one that is named twice or a backend that is not built in is an error that names
 * it. */
int op_config_read(struct op_config *c, const char *json, const char *attention, struct err *e);

/* Replaces an attention backend that does not serve KV_TYPE by "gallop", with one warning (as PACE does). */
void op_config_fit_attention(struct op_config *c, const char *kv_type);

void op_config_fini(struct op_config *c);

#endif
