/* streaming.c - streamed text with sampling, a stop string and a limit: after LIMIT pieces the request is
 * cancelled. usage: streaming [MODEL_DIR] */
#include <gallop.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef DEMO /* The Makefile in this folder sets the installed one. */
#define DEMO "models/demo"
#endif

enum { LIMIT = 200 };

int main(int argc, char **argv)
{
    static const char *const stops[] = {"The end"};
    struct gallop_options options;
    struct gallop_request request;
    struct gallop_event event;
    struct gallop *engine;
    char err[GALLOP_ERR_SIZE];
    uint64_t id;
    int n_pieces = 0, status = EXIT_FAILURE;

    gallop_options_init(&options);
    options.model = argc > 1 ? argv[1] : DEMO;
    if (gallop_open(&engine, &options, err) != 0) {
        fprintf(stderr, "%s\n", err);
        return EXIT_FAILURE;
    }

    gallop_request_init(&request);
    request.text = "Tell me a story about a fox.";
    request.sampling.max_new_tokens = 120;
    request.sampling.do_sample = 1;
    request.sampling.temperature = 0.7;
    request.sampling.top_p = 0.95;
    request.sampling.has_seed = 1;
    request.sampling.seed = 7;
    request.sampling.stop = stops;
    request.sampling.n_stop = 1;
    if (gallop_submit(engine, &request, &id, err) != 0) {
        fprintf(stderr, "%s\n", err);
        gallop_close(engine);
        return EXIT_FAILURE;
    }

    while (gallop_next(engine, &event)) {
        if (event.type == GALLOP_TEXT) {
            fwrite(event.text, 1, event.text_len, stdout);
            fflush(stdout); /* Pieces are never cut inside a character. */
            if (++n_pieces == LIMIT)
                gallop_cancel(engine, id);
        } else if (event.type == GALLOP_FINISHED) {
            static const char *const why[] = {"stop", "length", "cancelled", "error"};

            printf("\n[%s; %zu tokens in, %zu out; first token after %.3f s]\n", why[event.finish],
                   event.n_prompt, event.n_output, event.prefill_s);
            if (event.error)
                fprintf(stderr, "%s\n", event.error);
            else
                status = EXIT_SUCCESS;
        }
    }
    gallop_close(engine);
    return status;
}
