/* block_moe.c - binds mixtures of experts, however their tensors are stored. */
#include "model/block_moe.h"

#include "base/mem.h"

void block_moe_close(struct moe *w)
{
    if (!w)
        return;
    linear_close(&w->router);
    for (size_t x = 0; w->expert && x < w->n_experts; x++) {
        linear_close(&w->expert[x].up);
        linear_close(&w->expert[x].down);
    }
    mem_free(w->expert);
    mem_free(w);
}
