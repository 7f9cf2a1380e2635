/* block_moe.h - binds mixtures of experts, however their tensors are stored. */
#ifndef GALLOP_MODEL_BLOCK_MOE_H
#define GALLOP_MODEL_BLOCK_MOE_H

#include "model/block.h"
#include "ops/moe.h"

/* How experts lie in the checkpoint. */
enum block_experts {
    BLOCK_EXPERTS_APART,   /* MODULE.N.{gate,up,down}.weight, each [out, in] */
    BLOCK_EXPERTS_STACKED, /* MODULE.gate_up_proj and MODULE.down_proj, [experts, out, in]; or as MXFP4 in
                              *_blocks [experts, out, in / 32, 16] and *_scales [experts, out, in / 32] */
    BLOCK_EXPERTS_TURNED   /* the same as [experts, in, out]; MXFP4 as above */
};

struct block_moe {
    const char *module; /* of the experts, without a dot at the end */
    const char *router; /* module of the router */
    enum block_experts stored;
    const char *gate, *up, *down; /* names of an expert's matrices where they lie apart */
    bool interleaved;             /* stacked rows are gate 0, up 0, gate 1, ... */
    bool bias;                    /* experts and router have biases */
    size_t n_experts, top_k, inner;
};

/* Opens *out: router, experts, sizes; gating and activation are left zero for the caller to set. Notes the
 * largest sizes in m->info. On failure *out is NULL or half open: block_moe_close() takes both. */
int block_moe(struct model *m, struct moe **out, const struct block_moe *d, struct err *e);
void block_moe_close(struct moe *w); /* and frees it; NULL is fine */

/* The RMSNorm in front of a mixture: its result stays fp32, for the router. */
int block_moe_norm(struct model *m, struct norm *w, const char *module, double eps, struct err *e);

/* What config.json says of the mixtures: experts of a layer under KEYS (of which the first wins; NULL: only
 * one), how many a token takes under TOP_KEY. The values before are the class's defaults. */
struct block_moe_sizes {
    int64_t n_experts, top_k;
};
int block_moe_sizes(struct model *m, struct block_moe_sizes *s, const char *const keys[2],
                    const char *top_key, struct err *e);

#endif
