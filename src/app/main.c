/* main.c - the command line: finds the verb and passes on.
 *
 * Exit status: 0 done, 1 the work failed (one sentence on stderr), 2 wrong usage. Results go to stdout,
 * everything else to stderr.
 */
#include <stdio.h>
#include <string.h>

#include "app/common.h"
#include "app/verbs.h"
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

static void usage(FILE *f)
{
    fputs("usage: gallop VERB [options]\n\n", f);
    for (int i = 0; i < N_VERBS; i++)
        fprintf(f, "  %-10s %s\n", verbs[i].name, verbs[i].help);
    fputs("\n`gallop VERB --help` prints every option. Without -m the bundled demo model is used.\n"
          "Try: gallop run \"Once upon a time\"\n",
          f);
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : NULL;

    common_init();
    if (!verb) {
        usage(stderr);
        return 2;
    }
    if (strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0 || strcmp(verb, "help") == 0) {
        usage(stdout);
        return 0;
    }
    if (strcmp(verb, "--version") == 0) {
        printf("gallop %s\n", gallop_version());
        return 0;
    }
    for (int i = 0; i < N_VERBS; i++)
        if (strcmp(verbs[i].name, verb) == 0)
            return verbs[i].run(argc - 1, argv + 1);
    fprintf(stderr, "gallop: there is no verb \"%s\"; `gallop --help` lists them\n", verb);
    return 2;
}
