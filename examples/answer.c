/* answer.c - answers requests in the forms of vendors' APIs, as `gallop serve` does, without a server. Each line of
 * standard input is a path, a blank and a body: /v1/chat/completions {"messages":[...]}. For each of them a line with
 * the HTTP status and the JSON of the answer is printed. Without a line, one question is answered.
 * usage: answer [MODEL_DIR] */
#include <gallop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef DEMO /* The Makefile in this folder sets the installed one. */
#define DEMO "models/demo"
#endif

/* Answers the request LINE: a path, a blank and a body. */
static void answer_line(struct gallop *g, char *line)
{
    char err[GALLOP_ERR_SIZE], *body = strchr(line, ' '), *answer;
    size_t length;
    int status;

    if (!body) {
        fprintf(stderr, "answer: a line has no body: %s\n", line);
        return;
    }
    *body++ = 0;
    if (gallop_answer(g, line, body, SIZE_MAX, &status, &answer, &length, err) != 0) {
        fprintf(stderr, "answer: %s\n", err);
        return;
    }
    printf("%d %s\n", status, answer);
    fflush(stdout);
    gallop_free(answer);
}

int main(int argc, char **argv)
{
    static char question[] =
        "/v1/chat/completions {\"messages\":[{\"role\":\"user\",\"content\":\"What is 3 plus 4?\"}],"
        "\"max_tokens\":20,\"temperature\":0}";
    struct gallop_options o;
    struct gallop *g;
    char err[GALLOP_ERR_SIZE], *line = NULL;
    size_t size = 0, n_lines = 0;
    ssize_t n;

    gallop_options_init(&o);
    o.model = argc > 1 ? argv[1] : DEMO;
    if (gallop_open(&g, &o, err) != 0) {
        fprintf(stderr, "answer: %s\n", err);
        return EXIT_FAILURE;
    }
    while ((n = getline(&line, &size, stdin)) > 0) {
        line[n - (line[n - 1] == '\n')] = 0;
        answer_line(g, line);
        n_lines++;
    }
    if (n_lines == 0)
        answer_line(g, question);
    free(line);
    gallop_close(g);
    return EXIT_SUCCESS;
}
