/* executor.c - a custom scheduler on Gallop's executor: two sequences in blocks that this program
 * numbers. They begin alike, so the full block of their beginning is computed once and is in both tables;
 * the rest of the second prompt is computed beside the first one's next token. usage: executor [MODEL_DIR] */
#include <gallop.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef DEMO /* The Makefile in this folder sets the installed one. */
#define DEMO "models/demo"
#endif

enum { BLOCK = 16, MOST = 64, NEW = 24 };

struct sequence {
    int32_t token[MOST]; /* "Once upon a time, there was a little girl ..." in the demo model's vocabulary */
    size_t n_prompt, n, n_computed;
    int32_t block[MOST / BLOCK];
};

/* The rows of S that are not computed yet, and a request for the most likely token after them. */
static struct gallop_rows next_rows(struct sequence *s, const struct gallop_sampling *greedy)
{
    struct gallop_rows r = {0};

    r.ids = s->token + s->n_computed;
    r.n = s->n - s->n_computed;
    r.pos = s->n_computed;
    r.blocks = s->block;
    r.n_blocks = MOST / BLOCK;
    r.n_wanted = 1;
    r.pick = greedy;
    r.n_prompt = s->n_prompt;
    s->n_computed = s->n;
    return r;
}

int main(int argc, char **argv)
{
    struct sequence all[2] = {
        {.token = {1, 435, 499, 262, 409, 17, 366, 286, 262, 592, 416, 672, 363, 322, 262, 679, 593, 268,
                   922},
         .n_prompt = 19,
         .n = 19,
         .block = {1, 2, 3, 4}},
        {.token = {1, 435, 499, 262, 409, 17, 366, 286, 262, 592, 416, 672, 363, 322, 262, 679, 1038, 268},
         .n_prompt = 18,
         .n = 18,
         .n_computed = BLOCK, /* of block 1, when the first run is over */
         .block = {1, 5, 6, 7}}};
    struct gallop_executor *executor;
    struct gallop_options options;
    struct gallop_request request;
    char err[GALLOP_ERR_SIZE];

    gallop_options_init(&options);
    options.model = argc > 1 ? argv[1] : DEMO;
    options.kv_cache_type = "extern";
    options.block_size = BLOCK;
    options.kv_cache_tokens = (1 + 7) * BLOCK; /* Block 0 is not a sequence's. */
    options.max_model_len = MOST;
    options.max_num_seqs = 2;
    if (gallop_executor_open(&executor, GALLOP_EXECUTOR_VERSION, &options, err) != 0) {
        fprintf(stderr, "%s\n", err);
        return EXIT_FAILURE;
    }
    gallop_request_init(&request); /* The sampling parameters are those of the model's generation config. */
    request.sampling.do_sample = 0;
    for (int step = 0; step < NEW; step++) {
        size_t n = step == 0 ? 1 : 2; /* The second sequence joins when block 1 is computed. */
        struct gallop_rows rows[2];
        struct gallop_outcome out;

        for (size_t i = 0; i < n; i++)
            rows[i] = next_rows(&all[i], &request.sampling);
        if (gallop_executor_run(executor, rows, n, &out, err) != 0) {
            fprintf(stderr, "%s\n", err);
            gallop_executor_close(executor);
            return EXIT_FAILURE;
        }
        for (size_t i = 0; i < n; i++)
            all[i].token[all[i].n++] = out.picks[i].id;
    }
    for (size_t i = 0; i < 2; i++) {
        printf("%zu:", i);
        for (size_t t = 0; t < all[i].n; t++)
            printf(" %d", (int)all[i].token[t]);
        printf("\n");
    }
    gallop_executor_close(executor);
    return EXIT_SUCCESS;
}
