/* batch.c - many prompts at once. They are computed together without padding. Each ends when its answer is
 * complete, and gets the answer that it would get alone. usage: batch [MODEL_DIR] */
#include <gallop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef DEMO /* The Makefile in this folder sets the installed one. */
#define DEMO "models/demo"
#endif

enum { N = 4, ROOM = 4096 };

struct answer {
    const char *prompt;
    char text[ROOM];
    size_t len;
    int done;
};

static int submit(struct gallop *engine, struct answer *a)
{
    struct gallop_request request;
    char err[GALLOP_ERR_SIZE];

    gallop_request_init(&request);
    request.text = a->prompt;
    request.sampling.max_new_tokens = 40;
    request.user = a; /* Every event has it. */
    if (gallop_submit(engine, &request, NULL, err) == 0)
        return 0;
    fprintf(stderr, "\"%s\": %s\n", a->prompt, err);
    return -1;
}

int main(int argc, char **argv)
{
    static struct answer answers[N] = {{.prompt = "Once upon a time"},
                                       {.prompt = "One day, a little rabbit"},
                                       {.prompt = "The sun was shining and"},
                                       {.prompt = "Question: what is 3 plus 4?"}};
    struct gallop_options options;
    struct gallop_event event;
    struct gallop *engine;
    char err[GALLOP_ERR_SIZE];
    int n_done = 0;

    gallop_options_init(&options);
    options.model = argc > 1 ? argv[1] : DEMO;
    options.max_num_seqs = N;
    if (gallop_open(&engine, &options, err) != 0) {
        fprintf(stderr, "%s\n", err);
        return EXIT_FAILURE;
    }
    for (int i = 0; i < N; i++)
        if (submit(engine, &answers[i]) != 0)
            answers[i].done = 1;

    while (gallop_next(engine, &event)) {
        struct answer *a = event.user;

        if (event.type == GALLOP_TEXT && a->len + event.text_len < ROOM) {
            memcpy(a->text + a->len, event.text, event.text_len);
            a->len += event.text_len;
        } else if (event.type == GALLOP_FINISHED) {
            a->done = 1;
            n_done++;
        }
    }
    for (int i = 0; i < N; i++)
        printf("%s|%.*s\n\n", answers[i].prompt, (int)answers[i].len, answers[i].text);
    gallop_close(engine);
    return n_done == N ? EXIT_SUCCESS : EXIT_FAILURE;
}
