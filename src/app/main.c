/* main.c - lists the verbs and runs the verb that the command line names.
 *
 * Exit status: 0 success, 1 the work failed (one sentence on stderr), 2 wrong usage. Results go to stdout,
 * everything else to stderr.
 */
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "api/http/document.h"
#include "app/completion/completion.h"
#include "app/manual.h"
#include "app/options.h"
#include "app/print.h"
#include "app/verb.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/near.h"
#include "base/opt.h"
#include "engine/engine.h"
#include "engine/pjrt/channel.h"
#include "engine/pjrt/process.h"
#include "net/http.h"

static const struct verb_entry verbs[] = {
    {"Generate text", NULL},   {NULL, &verb_run},           {NULL, &verb_chat},      {NULL, &verb_serve},
    {"Prepare a model", NULL}, {NULL, &verb_pack},          {NULL, &verb_quantize},  {NULL, &verb_calibrate},
    {NULL, &verb_compile},     {"Look into a model", NULL}, {NULL, &verb_inspect},   {NULL, &verb_tokenize},
    {NULL, &verb_render},      {NULL, &verb_parse},         {NULL, &verb_logits},    {NULL, &verb_ppl},
    {NULL, &verb_sample},      {NULL, &verb_grammar},       {"Measure speed", NULL}, {NULL, &verb_bench},
    {NULL, &verb_simulate},    {NULL, &verb_synth},
};
enum { N_VERBS = sizeof(verbs) / sizeof(verbs[0]) };

/* Prints and frees PAGE. Returns the exit status. */
static int print_page(struct buf *page)
{
    bool oom = page->oom;

    if (oom)
        log_error("out of memory");
    else
        print_bytes(page->data, page->len);
    buf_fini(page);
    return oom ? 1 : 0;
}

/* Reports why the work failed, unless standard output is a closed pipe. */
static int fail(const struct verb *verb, const struct err *e)
{
    char text[sizeof(*e)];

    print_flush(NULL);
    options_error_text(verb->options, e, text, sizeof(text));
    if (!print_reader_gone())
        log_error("%s", text);
    return e->code == ERR_USAGE ? 2 : 1;
}

static int run_parsed(const struct verb *verb, const struct opt_values *v)
{
    struct options_output out = {.help = NULL};
    struct buf page = {.tag = MEM_APP};
    struct err e = {0};
    int rc;

    opt_read_rows(v, options_help, &out);
    if (out.help) {
        manual_verb(verb, strcmp(out.help, "all") == 0, &page);
        return print_page(&page);
    }
    if (out.quiet)
        log_set_level(LOG_ERROR);
    if (verb->no_words && v->n_args)
        rc = err_set(&e, ERR_USAGE, "%s: found \"%s\", expected %s", verb->name, v->args[0], verb->no_words);
    else
        rc = verb->run(v, &e);
    return rc > 0 ? fail(verb, &e) : -rc;
}

/* Runs VERB with its options; ARGV[0] is its name. Returns the exit status. */
static int run_verb(const struct verb *verb, int argc, char **argv)
{
    struct opt_values v;
    struct err e = {0};
    int rc;

    if (opt_parse(verb->options, argc, argv, &v, &e) == 0) {
        rc = run_parsed(verb, &v);
    } else {
        log_error("%s: %s", verb->name, e.msg);
        rc = 2;
    }
    opt_fini(&v);
    return rc;
}

static bool is_one_of(const char *word, const char *a, const char *b, const char *c)
{
    return strcmp(word, a) == 0 || strcmp(word, b) == 0 || strcmp(word, c) == 0;
}

static void say_unknown(const char *verb)
{
    struct near near;

    near_begin(&near, verb, strlen(verb));
    for (int i = 0; i < N_VERBS; i++)
        if (verbs[i].verb)
            near_offer(&near, verbs[i].verb->name, strlen(verbs[i].verb->name));
    if (near.name)
        log_error("there is no verb \"%s\"; did you mean \"%s\"?", verb, near.name);
    else
        log_error("there is no verb \"%s\"; `gallop --help` lists them", verb);
}

static int print_completion(const char *shell)
{
    const char *script = completion_script(shell ? shell : "");

    if (script) {
        print_bytes(script, strlen(script));
        return 0;
    }
    log_error("help --completion: found %s%s%s, expected one of " COMPLETION_SHELLS, shell ? "'" : "",
              shell ? shell : "nothing", shell ? "'" : "");
    return 2;
}

/* Prints the page for `gallop help WHAT MORE...` if WHAT is an option such as --man. Returns the exit status, or -1 if
 * WHAT is not such an option. */
static int print_help_of(const char *what, char **more, int n_more)
{
    struct buf page = {.tag = MEM_APP};

    if (strcmp(what, "--completion") == 0)
        return print_completion(more[0]);
    if (strcmp(what, "--man") == 0)
        manual_page(verbs, N_VERBS, &page);
    else if (strcmp(what, "--api") == 0)
        document_write(&page);
    else if (strcmp(what, "--complete") == 0)
        completion_write(verbs, N_VERBS, more, (size_t)n_more, &page);
    else
        return -1;
    return print_page(&page);
}

/* Loads a PJRT plugin and serves the calls to it for the engine that has started this process. Returns the
 * exit status. */
static int serve_plugin(void)
{
    struct err e = {0};

    if (process_run(&e) == 0)
        return 0;
    log_error("%s", e.msg);
    return 1;
}

/* Runs the verb ARGV[0], or prints a page of help. Returns the exit status. */
static int main_dispatch(int argc, char **argv)
{
    const char *verb = argc > 0 ? argv[0] : NULL;
    struct buf page = {.tag = MEM_APP};

    if (argc > 1 && strcmp(verb, "help") == 0) {
        char *more = argc > 2 ? argv[2] : NULL;
        int status = print_help_of(argv[1], argv + 2, argc - 2);

        return status >= 0 ? status
                           : main_dispatch(more ? 3 : 2, (char *[]){argv[1], (char[]){"--help"}, more, NULL});
    }
    if (verb && is_one_of(verb, "--version", "-V", "version")) {
        print_fmt("gallop %s\n", gallop_version());
        return 0;
    }
    if (verb && strcmp(verb, CHANNEL_VERB) == 0)
        return serve_plugin();
    for (int i = 0; verb && i < N_VERBS; i++)
        if (verbs[i].verb && strcmp(verbs[i].verb->name, verb) == 0)
            return run_verb(verbs[i].verb, argc, argv);
    if (verb && !is_one_of(verb, "--help", "-h", "help")) {
        say_unknown(verb);
        return 2;
    }
    manual_overview(verbs, N_VERBS, &page);
    if (verb)
        print_bytes(page.data, page.len);
    else
        fwrite(page.data, 1, page.len, stderr);
    buf_fini(&page);
    return verb ? 0 : 2;
}

int main(int argc, char **argv)
{
    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    http_use_mem();
    signal(SIGPIPE, SIG_IGN); /* writing to a closed pipe is an error instead */
    print_init();
    return print_finish(main_dispatch(argc - 1, argv + 1));
}
