/* block_moe.h - binds mixtures of experts, however their tensors are stored. */
#ifndef GALLOP_MODEL_BLOCK_MOE_H
#define GALLOP_MODEL_BLOCK_MOE_H

#include "model/block.h"
#include "ops/moe.h"

void block_moe_close(struct moe *w); /* and frees it; NULL is fine */

#endif
