/* verb_run.c - `gallop run`: generates from one prompt, or from many at once. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/common.h"
#include "app/out.h"
#include "app/output.h"
#include "app/runbatch.h"
#include "app/verbs.h"
#include "base/err.h"
#include "base/mem.h"

enum {
    RUN_IDS = COMMON_OWN,
    RUN_FILE,
    RUN_BATCH,
    RUN_OUTPUT,
    RUN_CHAT,
    RUN_SYSTEM,
    RUN_TEMPLATE,
    RUN_NO_SPECIAL,
    RUN_KEEP_SPECIAL
};

static const struct opt_row rows[] = {
    COMMON_MODEL_ROWS,
    COMMON_SAMPLING_ROWS,
    {.id = RUN_IDS, .name = "ids", .type = OPT_STRING, .arg = "1,2,3", .help = "token ids instead of text"},
    {.id = RUN_FILE,
     .name = "file",
     .type = OPT_STRING,
     .arg = "F",
     .help = "read the prompt from a file (-: standard input)"},
    {.id = RUN_BATCH,
     .name = "batch",
     .type = OPT_STRING,
     .arg = "F.jsonl",
     .help = "many requests, one object a line (-: standard input): {\"prompt\":...}, {\"ids\":[...]} or "
             "{\"messages\":[...]} and sampling fields, or lines of OpenAI's batch files"},
    {.id = RUN_OUTPUT,
     .name = "output",
     .brief = 'o',
     .type = OPT_STRING,
     .arg = "F",
     .help = "write to a file, which takes its name when it is complete"},
    COMMON_FORCE_ROW,
    {.id = RUN_CHAT,
     .name = "chat",
     .type = OPT_FLAG,
     .help = "wrap the prompt in the model's chat template"},
    {.id = RUN_SYSTEM,
     .name = "system",
     .type = OPT_STRING,
     .arg = "TEXT",
     .help = "system message in front of the prompt; implies --chat"},
    {.id = RUN_TEMPLATE,
     .name = "template",
     .type = OPT_STRING,
     .arg = "F.jinja",
     .help = "another chat template than the model's; implies --chat"},
    {.id = RUN_NO_SPECIAL,
     .name = "no-special",
     .type = OPT_FLAG,
     .help = "add no BOS or other special tokens"},
    {.id = RUN_KEEP_SPECIAL,
     .name = "keep-special",
     .type = OPT_FLAG,
     .help = "write special tokens into the text"},
    COMMON_OUTPUT_ROWS,
};

static bool wants_chat(const struct opt_values *v)
{
    return opt_flag(v, RUN_CHAT) || opt_given(v, RUN_SYSTEM) || opt_given(v, RUN_TEMPLATE);
}

/* Text that is piped into the program, as in `echo hi | gallop run`. */
static bool is_piped(void)
{
    struct stat s;

    return fstat(STDIN_FILENO, &s) == 0 && (S_ISFIFO(s.st_mode) || S_ISREG(s.st_mode) || S_ISSOCK(s.st_mode));
}

/* Options that contradict each other are an error; those that change nothing beside others are said. */
static int check_combination(const struct opt_values *v, struct err *e)
{
    bool ids = opt_given(v, RUN_IDS), file = opt_given(v, RUN_FILE), batch = opt_given(v, RUN_BATCH);

    if (v->n_args > 1)
        return err_set(e, ERR_USAGE, "one prompt is expected, %zu were given (quote it)", v->n_args);
    if (ids + file + batch + (v->n_args > 0) > 1)
        return err_set(e, ERR_USAGE, "one of a prompt, --file, --ids and --batch is expected, found %s%s%s%s",
                       v->n_args ? "a prompt " : "", file ? "--file " : "", ids ? "--ids " : "",
                       batch ? "--batch" : "");
    if (!ids && !file && !batch && !v->n_args && !is_piped())
        return err_set(e, ERR_USAGE, "a prompt is needed: text, --file, --ids or --batch");
    if (ids && wants_chat(v))
        return err_set(e, ERR_USAGE,
                       "--chat, --system and --template wrap text, --ids are taken as they are");
    if (opt_flag(v, RUN_NO_SPECIAL) && (ids || wants_chat(v)))
        log_warn("--no-special changes nothing: %s",
                 ids ? "nothing is added to --ids" : "the chat template writes its own");
    if (opt_given(v, OPT_LOGPROBS) && !opt_flag(v, OPT_JSON))
        log_warn("--logprobs changes nothing without --json");
    if (opt_flag(v, OPT_FORCE) && !opt_given(v, RUN_OUTPUT))
        log_warn("--force changes nothing without --output");
    return 0;
}

static int add_text(struct runbatch *b, const struct opt_values *v, struct err *e)
{
    struct buf text;
    int rc = 0;

    buf_init(&text, MEM_APP);
    if (v->n_args) {
        buf_str(&text, v->args[0]);
        rc = common_utf8("the prompt", v->args[0], strlen(v->args[0]), e);
    } else {
        rc = common_read_text(opt_given(v, RUN_FILE) ? opt_string(v, RUN_FILE) : "-", &text, e);
    }
    if (rc == 0 && !v->n_args && !opt_given(v, RUN_FILE)) { /* the line end is echo's, not the prompt's */
        text.len -= text.len && text.data[text.len - 1] == '\n';
        text.len -= text.len && text.data[text.len - 1] == '\r';
        if (!text.len)
            rc = err_set(e, ERR_USAGE, "a prompt is needed: text, --file, --ids or --batch");
    }
    if (rc == 0)
        rc = runbatch_add_text(b, text.data ? text.data : "", text.len, e);
    buf_fini(&text);
    return rc;
}

/* What is to be computed, as far as it can be known before there is a model. */
static int read_requests(struct runbatch *b, const struct opt_values *v, struct err *e)
{
    struct tok_ids ids = {0};
    int rc;

    if (opt_given(v, RUN_BATCH))
        return runbatch_open_lines(b, opt_string(v, RUN_BATCH), e);
    if (!opt_given(v, RUN_IDS))
        return add_text(b, v, e);
    if ((rc = common_ids(opt_string(v, RUN_IDS), &ids, e)) == 0)
        rc = runbatch_add_ids(b, ids.id, ids.n, e);
    tok_ids_fini(&ids);
    return rc;
}

static int open_engine(struct runbatch *b, struct gallop_options *o, bool quiet, struct err *e)
{
    struct common_bar bar = {.what = "loading", .quiet = quiet};
    char err[GALLOP_ERR_SIZE];
    int rc;

    o->progress = common_progress;
    o->progress_ctx = &bar;
    if ((rc = runbatch_size(b, o, e)) == 0 && (rc = runbatch_open_model(b, e)) == 0 &&
        (rc = gallop_open_checkpoint(&b->engine, o, &b->model, err)) != 0)
        err_set(e, rc, "%s", err);
    common_bar_end(&bar);
    return rc;
}

/* Into the file of --output. What a batch has finished stays when the rest is cancelled. */
static int run_into(struct runbatch *b, struct output *file, struct err *e)
{
    int rc;

    out_to(file);
    rc = runbatch_run(b, e);
    out_to(NULL);
    if (rc <= 0 && !(b->signal && b->stream)) {
        int rc_file = output_commit(file, e);

        rc = rc_file ? rc_file : rc;
    }
    return rc;
}

static int run(struct runbatch *b, const struct opt_values *v, struct err *e)
{
    struct gallop_options o;
    struct output file = {0};
    char path[4096];
    int rc;

    b->json = opt_flag(v, OPT_JSON);
    b->no_special = opt_flag(v, RUN_NO_SPECIAL);
    b->keep_special = opt_flag(v, RUN_KEEP_SPECIAL);
    b->chat_prompts = wants_chat(v);
    b->system = opt_string(v, RUN_SYSTEM);
    b->template = opt_string(v, RUN_TEMPLATE);
    b->stream = !opt_given(v, RUN_BATCH);
    b->folder = common_folder(v, path);
    if ((rc = check_combination(v, e)) != 0 || (rc = common_sampling(v, &b->sampling, &b->arena, e)) != 0 ||
        (b->system && (rc = common_utf8("--system", b->system, strlen(b->system), e)) != 0) ||
        (rc = read_requests(b, v, e)) != 0 || (rc = common_options(v, &o, path, sizeof(path), e)) != 0 ||
        (b->chat_prompts && (rc = runbatch_open_chat(b, e)) != 0))
        return rc;
    if (opt_given(v, RUN_OUTPUT) &&
        (rc = output_open(&file, opt_string(v, RUN_OUTPUT), opt_flag(v, OPT_FORCE), e)) != 0)
        return rc;
    if ((rc = open_engine(b, &o, opt_flag(v, OPT_QUIET), e)) == 0)
        rc = opt_given(v, RUN_OUTPUT) ? run_into(b, &file, e) : runbatch_run(b, e);
    output_abort(&file);
    return rc;
}

int verb_run(int argc, char **argv)
{
    struct opt_values v;
    struct runbatch b;
    struct err e = {0};
    int rc =
        common_parse("run", "[options] [\"prompt\"]", rows, sizeof(rows) / sizeof(rows[0]), argc, argv, &v);

    if (rc >= 0)
        return rc;
    runbatch_init(&b);
    rc = run(&b, &v, &e);
    if (rc > 0)
        rc = common_fail(&e);
    else if (rc < 0)
        rc = b.signal ? 128 + b.signal : 1; /* what failed was said */
    runbatch_fini(&b);
    opt_fini(&v);
    return rc;
}
