/* gallop_embedding.c - the function of gallop.h that makes an embedding from pooled hidden states. */
#include "base/err.h"
#include "engine/embeddings/embed.h"
#include "engine/engine.h"
#include "gallop.h"

int gallop_embedding(const struct gallop *g, enum gallop_pooling pooling, const float *state, int normalize,
                     float **embedding, size_t *n, char *err)
{
    size_t n_state = engine_info(g)->model->hidden_size;
    const struct embedder *x = NULL;
    struct err e = {0};
    int rc = 0;

    *embedding = NULL;
    *n = 0;
    if (pooling < GALLOP_POOL_LAST || pooling > GALLOP_POOL_AUTO)
        rc = err_about(&e, ERR_INPUT, "pooling", "found %d, expected GALLOP_POOL_LAST, _MEAN or _AUTO",
                       (int)pooling);
    if (rc == 0 && (rc = engine_embedder(g, pooling, &x, &e)) == 0) {
        *embedding = embed_vector(x, state, n_state, normalize != 0);
        rc = *embedding ? 0 : err_nomem(&e, "an embedding");
    }
    if (rc == 0)
        *n = embed_size(x, n_state);
    return engine_give(err, &e, rc);
}
