/* answer.c - answers requests in the forms of vendors' APIs, as `gallop serve` does, without a server. Each line of
 * standard input is a path, a blank and a body: /v1/chat/completions {"messages":[...]}. For each of them a line with
 * the HTTP status and the JSON of the answer is printed. usage: answer [MODEL_DIR] */
#include <gallop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef DEMO /* The Makefile in this folder sets the installed one. */
#define DEMO "models/demo"
#endif

int main(int argc, char **argv)
{
    struct gallop_options o;
    struct gallop *g;
    char err[GALLOP_ERR_SIZE], *line = NULL;
    size_t size = 0;
    ssize_t n;

    gallop_options_init(&o);
    o.model = argc > 1 ? argv[1] : DEMO;
    if (gallop_open(&g, &o, err) != 0) {
        fprintf(stderr, "answer: %s\n", err);
        return EXIT_FAILURE;
    }
    while ((n = getline(&line, &size, stdin)) > 0) {
        char *body, *answer;
        size_t length;
        int status;

        line[n - (line[n - 1] == '\n')] = 0;
        if ((body = strchr(line, ' ')) == NULL) {
            fprintf(stderr, "answer: a line has no body: %s\n", line);
            continue;
        }
        *body++ = 0;
        if (gallop_answer(g, line, body, SIZE_MAX, &status, &answer, &length, err) != 0) {
            fprintf(stderr, "answer: %s\n", err);
            continue;
        }
        printf("%d %s\n", status, answer);
        fflush(stdout);
        gallop_free(answer);
    }
    free(line);
    gallop_close(g);
    return EXIT_SUCCESS;
}
