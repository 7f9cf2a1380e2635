/* main.c - the command line: finds the verb and passes on.
 *
 * Exit status: 0 done, 1 the work failed (one sentence on stderr), 2 wrong usage. Results go to stdout,
 * everything else to stderr.
 */
#include <stdio.h>
#include <string.h>

#include "app/common.h"
#include "app/out.h"
#include "app/verbs.h"
#include "base/err.h"
#include "gallop.h"

static const struct {
    const char *name, *help;
    int (*run)(int argc, char **argv);
} verbs[] = {
#define VERB(name, help) {#name, help, verb_##name},
#include "app/verbs.def"
#undef VERB
};
enum { N_VERBS = sizeof(verbs) / sizeof(verbs[0]) };

static void usage(struct buf *b)
{
    buf_str(b, "usage: gallop VERB [options]\n\n");
    for (int i = 0; i < N_VERBS; i++)
        buf_fmt(b, "  %-10s %s\n", verbs[i].name, verbs[i].help);
    buf_str(b, "\n`gallop VERB --help` prints every option, `gallop --version` the version.\n"
               "Without -m the bundled demo model is used.\n"
               "Try: gallop run \"Once upon a time\"\n");
}

static bool is_one_of(const char *word, const char *a, const char *b, const char *c)
{
    return strcmp(word, a) == 0 || strcmp(word, b) == 0 || strcmp(word, c) == 0;
}

/* ARGV begins with the verb. */
static int run(int argc, char **argv)
{
    const char *verb = argc > 0 ? argv[0] : NULL;
    struct buf help;

    if (argc > 1 && strcmp(verb, "help") == 0)
        return run(2, (char *[]){argv[1], (char[]){"--help"}, NULL});
    if (verb && is_one_of(verb, "--version", "-V", "version")) {
        out_fmt("gallop %s\n", gallop_version());
        return 0;
    }
    for (int i = 0; verb && i < N_VERBS; i++)
        if (strcmp(verbs[i].name, verb) == 0)
            return verbs[i].run(argc, argv);
    if (verb && !is_one_of(verb, "--help", "-h", "help")) {
        log_error("there is no verb \"%s\"; `gallop --help` lists them", verb);
        return 2;
    }
    buf_init(&help, MEM_APP);
    usage(&help);
    if (verb)
        out_bytes(help.data, help.len);
    else
        fwrite(help.data, 1, help.len, stderr);
    buf_fini(&help);
    return verb ? 0 : 2;
}

int main(int argc, char **argv)
{
    common_init();
    return out_finish(run(argc - 1, argv + 1));
}
