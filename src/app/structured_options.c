/* structured_options.c - reads the options that constrain an answer. */
#include "app/structured_options.h"

#include <string.h>

#include "app/input.h"
#include "app/options.h"
#include "base/buf.h"
#include "base/mem.h"

#define INTO(member) OPT_INTO(struct structured_options, member)

const struct opt_row structured_rows[] = {
    {"json-schema", 0, PARAM_TEXT, "F", SAMPLING,
     .help = "file with a JSON schema that the answer must match (-: standard input)", INTO(schema)},
    {"regex", 0, PARAM_TEXT, "R", SAMPLING, .help = "regular expression that the whole answer must match",
     INTO(regex)},
    {"grammar", 0, PARAM_TEXT, "F", SAMPLING,
     .help = "file with a grammar of the answer in GBNF or EBNF (-: standard input)", INTO(grammar)},
    {"choice", 0, PARAM_TEXT, "A,B", SAMPLING,
     .help = "texts of which the answer is one, separated by commas", INTO(choice)},
    {0}};

/* Reads the file PATH into *OUT, allocated in A. */
static int read_source(const char *path, struct arena *a, const char **out, struct err *e)
{
    struct buf text = {.tag = MEM_APP};
    int rc = input_text(path, &text, e);

    if (rc == 0 && !(*out = arena_strndup(a, text.data ? text.data : "", text.len)))
        rc = err_nomem(e, path);
    buf_fini(&text);
    return rc;
}

/* Splits LIST at commas into s->choice, allocated in A. */
static int read_choices(const char *list, struct arena *a, struct gallop_structured_outputs *s, struct err *e)
{
    size_t n = 1;
    const char **texts;

    for (const char *p = list; *p; p++)
        n += *p == ',';
    texts = arena_zalloc(a, n, sizeof(*texts));
    for (size_t i = 0; texts && i < n; i++) {
        size_t length = strcspn(list, ",");

        if (!(texts[i] = arena_strndup(a, list, length)))
            texts = NULL;
        list += length + 1;
    }
    s->choice = texts;
    s->n_choice = n;
    return texts ? 0 : err_nomem(e, "the choices");
}

int structured_options_read(const struct structured_options *o, struct gallop_structured_outputs *s,
                            struct arena *a, struct err *e)
{
    int n = (o->schema != NULL) + (o->regex != NULL) + (o->grammar != NULL) + (o->choice != NULL), rc = 0;

    *s = (struct gallop_structured_outputs){.regex = o->regex};
    if (n > 1)
        return err_set(e, ERR_USAGE,
                       "found %d of --json-schema, --regex, --grammar and --choice, expected one", n);
    if (o->schema)
        rc = read_source(o->schema, a, &s->json, e);
    if (o->grammar)
        rc = read_source(o->grammar, a, &s->grammar, e);
    return rc == 0 && o->choice ? read_choices(o->choice, a, s, e) : rc;
}
