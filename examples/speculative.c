/* speculative.c - speculative decoding: the same tokens in fewer steps. Without DRAFT_DIR, a model of the same
 * vocabulary, tokens are guessed from the text so far. usage: speculative [MODEL_DIR [DRAFT_DIR]] */
#include <gallop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef DEMO /* The Makefile in this folder sets the installed one. */
#define DEMO "models/demo"
#endif

enum { N = 200 };

struct answer {
    int32_t ids[N];
    size_t n;
    struct gallop_speculation speculation;
    double seconds;
};

/* Generates up to N tokens with an engine of its own. CONFIG: how tokens are guessed, or NULL. Returns a
 * gallop_code. */
static int generate(const char *model, const char *config, struct answer *a, char *err)
{
    struct gallop_options options;
    struct gallop_request request;
    struct gallop_event event;
    struct gallop *engine;
    int rc;

    gallop_options_init(&options);
    options.model = model;
    options.speculative_config = config;
    rc = gallop_open(&engine, &options, err);
    if (rc)
        return rc;
    gallop_request_init(&request);
    request.text =
        "Count the days: Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday, Monday, Tuesday,";
    request.sampling.max_new_tokens = N;
    request.sampling.ignore_eos = 1;
    rc = gallop_submit(engine, &request, NULL, err);
    while (rc == 0 && gallop_next(engine, &event)) {
        if (event.type == GALLOP_TOKEN && a->n < N)
            a->ids[a->n++] = event.token;
        if (event.type == GALLOP_FINISHED) {
            a->speculation = event.speculation;
            a->seconds = event.decode_s;
        }
    }
    gallop_close(engine);
    return rc;
}

int main(int argc, char **argv)
{
    static struct answer plain, guessed;
    const char *model = argc > 1 ? argv[1] : DEMO;
    const struct gallop_speculation *s = &guessed.speculation;
    char err[GALLOP_ERR_SIZE], config[4096] = "{\"method\":\"suffix\"}";

    if (argc > 2) /* A path with a quote or a backslash would need to be escaped. */
        snprintf(config, sizeof(config), "{\"model\":\"%s\"}", argv[2]);
    if (generate(model, NULL, &plain, err) != 0 || generate(model, config, &guessed, err) != 0) {
        fprintf(stderr, "%s\n", err);
        return EXIT_FAILURE;
    }
    printf("%zu tokens in %.3f s without guesses, and in %.3f s and %llu steps with guesses\n", plain.n,
           plain.seconds, guessed.seconds, (unsigned long long)s->n_steps);
    printf("%llu of %llu guesses were right\n", (unsigned long long)s->n_accepted_tokens,
           (unsigned long long)s->n_draft_tokens);

    /* Speculative decoding never changes an answer. */
    if (plain.n == 0 || plain.n != guessed.n ||
        memcmp(plain.ids, guessed.ids, plain.n * sizeof(plain.ids[0]))) {
        fprintf(stderr, "the two answers differ\n");
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
