/* tokenize.c - encodes a text on demand and says how long it took: our side of bench/peers/tokenizers.py.
 *
 *   tokenize TOKENIZER TEXT      prints the seconds it took to open the tokenizer; then, for every line of
 *                                standard input, encodes the text once and prints seconds and number of ids;
 *                                with the line "ids" it prints the ids instead
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/files/folder.h"
#include "text/tok/tok.h"

static int fail(const char *why)
{
    fprintf(stderr, "tokenize: %s\n", why);
    return 1;
}

int main(int argc, char **argv)
{
    struct tok_ids ids = {0};
    struct folder_text text;
    struct err e = {0};
    struct tok *t;
    char line[64];
    double begin = clock_seconds();

    if (argc != 3)
        return fail("usage: tokenize TOKENIZER TEXT");
    if (tok_open(&t, folder_at(argv[1]), &e) != 0)
        return fail(e.msg);
    printf("%.6f\n", clock_seconds() - begin);
    fflush(stdout);
    if (folder_read(&text, folder_at(argv[2]), NULL, NULL, &e) != 0)
        return fail(e.msg);
    while (fgets(line, sizeof(line), stdin)) {
        ids.n = 0;
        begin = clock_seconds();
        if (tok_encode(t, text.bytes, text.len, TOK_PLAIN, &ids, &e) != 0)
            return fail(e.msg);
        if (strcmp(line, "ids\n") == 0)
            for (size_t i = 0; i < ids.n; i++)
                printf("%d%c", ids.id[i], i + 1 < ids.n ? ' ' : '\n');
        else
            printf("%.6f %zu\n", clock_seconds() - begin, ids.n);
        fflush(stdout);
    }
    tok_ids_fini(&ids);
    folder_text_fini(&text);
    tok_close(t);
    return 0;
}
