/* gallop_embedding.c - the function of gallop.h that makes embeddings of pooled states. */
#include "engine/embeddings/embed.h"
#include "engine/engine.h"
#include "engine/engine_priv.h"
#include "engine/texts/texts.h"
#include "gallop.h"

int gallop_embedding(const struct gallop *g, enum gallop_pooling pooling, const float *state, int normalize,
                     float **embedding, size_t *n, char *err)
{
    const struct texts *t = engine_texts(g);
    const struct embedder *x = NULL;
    struct err e = {0};
    int rc = 0;

    *embedding = NULL;
    *n = 0;
    if (pooling < GALLOP_POOL_LAST || pooling > GALLOP_POOL_AUTO)
        rc = err_about(&e, ERR_INPUT, "pooling", "found %d, expected GALLOP_POOL_LAST, _MEAN or _AUTO",
                       (int)pooling);
    if (rc == 0 && (rc = texts_embedder(t, pooling, &x, &e)) == 0) {
        *embedding = embed_vector(x, state, t->info.hidden_size, normalize != 0);
        rc = *embedding ? 0 : err_nomem(&e, "an embedding");
    }
    if (rc == 0)
        *n = embed_size(x, t->info.hidden_size);
    return engine_give(err, &e, rc);
}
