/* embed.c - embeddings: which of the texts is most similar to the first one? usage: embed [MODEL_DIR [TEXT ...]] */
#include <gallop.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef DEMO /* The Makefile in this folder sets the installed one. */
#define DEMO "models/demo"
#endif

/* Submits TEXT number I for its embedding. Returns a gallop_code. */
static int submit(struct gallop *engine, const char *text, int i, char *err)
{
    struct gallop_request request;

    gallop_request_init(&request);
    request.text = text;
    request.pooling = GALLOP_POOL_AUTO;
    request.sampling.max_new_tokens = 0;
    request.user = (void *)(intptr_t)i;
    return gallop_submit(engine, &request, NULL, err);
}

/* Returns the cosine of the angle between A and B [n], which have length 1. */
static double similarity(const float *a, const float *b, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

int main(int argc, char **argv)
{
    static char *usual[] = {"a fox in the forest", "a wolf in the woods", "a letter to the king"};
    char err[GALLOP_ERR_SIZE], **text = argc > 2 ? argv + 2 : usual;
    struct gallop_options options;
    struct gallop_event event;
    struct gallop *engine;
    int n = argc > 2 ? argc - 2 : 3, n_done = 0, rc;
    float **embedding; /* [n][size] */
    size_t size = 0;

    gallop_options_init(&options);
    options.model = argc > 1 ? argv[1] : DEMO;
    if (gallop_open(&engine, &options, err) != 0) {
        fprintf(stderr, "%s\n", err);
        return EXIT_FAILURE;
    }
    embedding = calloc((size_t)n, sizeof(*embedding));
    rc = embedding ? 0 : snprintf(err, sizeof(err), "out of memory");
    for (int i = 0; i < n && rc == 0; i++)
        rc = submit(engine, text[i], i, err);
    while (rc == 0 && gallop_next(engine, &event))
        if (event.type == GALLOP_EMBEDDING) {
            rc = gallop_embedding(engine, GALLOP_POOL_AUTO, event.embedding, 1,
                                  &embedding[(intptr_t)event.user], &size, err);
            n_done++;
        }
    if (rc)
        fprintf(stderr, "%s\n", err);
    for (int i = 1; i < n && n_done == n && rc == 0; i++)
        printf("%6.3f  %s\n", similarity(embedding[0], embedding[i], size), text[i]);
    for (int i = 0; i < n && embedding; i++)
        gallop_free(embedding[i]);
    free(embedding);
    gallop_close(engine);
    return rc || n_done < n ? EXIT_FAILURE : EXIT_SUCCESS;
}
