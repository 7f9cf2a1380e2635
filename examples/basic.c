/* basic.c - the smallest program: one prompt, one answer. usage: basic [MODEL_DIR ["prompt"]] */
#include <gallop.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef DEMO /* The Makefile in this folder sets the installed one. */
#define DEMO "models/demo"
#endif

int main(int argc, char **argv)
{
    struct gallop_options options;
    struct gallop_request request;
    struct gallop_event event;
    struct gallop *engine;
    char err[GALLOP_ERR_SIZE];
    size_t n_output = 0;

    gallop_options_init(&options);
    options.model = argc > 1 ? argv[1] : DEMO;
    if (gallop_open(&engine, &options, err) != 0) {
        fprintf(stderr, "%s\n", err);
        return EXIT_FAILURE;
    }

    gallop_request_init(&request);
    request.text = argc > 2 ? argv[2] : "Once upon a time";
    request.sampling.max_new_tokens = 60;
    if (gallop_submit(engine, &request, NULL, err) != 0) {
        fprintf(stderr, "%s\n", err);
        gallop_close(engine);
        return EXIT_FAILURE;
    }

    while (gallop_next(engine, &event)) {
        if (event.type == GALLOP_TEXT)
            fwrite(event.text, 1, event.text_len, stdout);
        if (event.type == GALLOP_FINISHED)
            n_output = event.n_output;
    }
    printf("\n[%zu tokens]\n", n_output);
    gallop_close(engine);
    return n_output > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
