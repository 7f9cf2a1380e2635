/* verb_run.c - `gallop run`: generates from one prompt, or from many at once. */
#include <stdio.h>
#include <string.h>

#include "app/common.h"
#include "app/runbatch.h"
#include "app/verbs.h"
#include "base/log.h"
#include "base/mem.h"
#include "text/chat.h"

enum { RUN_IDS = COMMON_OWN, RUN_FILE, RUN_BATCH, RUN_CHAT, RUN_NO_SPECIAL, RUN_KEEP_SPECIAL };

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
     .help = "many requests, one object a line: {\"prompt\":...} or {\"ids\":[...]} and sampling fields"},
    {.id = RUN_CHAT,
     .name = "chat",
     .type = OPT_FLAG,
     .help = "wrap the prompt in the model's chat template"},
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

/* The prompt as the options give it: positional text, a file, or both in this order. */
static int read_prompt(const struct opt_values *v, struct buf *text, struct err *e)
{
    if (v->n_args > 1)
        return err_set(e, ERR_INPUT, "one prompt is expected, %zu were given (quote it)", v->n_args);
    if (opt_given(v, RUN_FILE))
        return common_read_file(opt_string(v, RUN_FILE), text, e);
    if (v->n_args)
        buf_str(text, v->args[0]);
    return 0;
}

static int add_requests(struct runbatch *b, const struct opt_values *v, struct err *e)
{
    struct buf text;
    struct tok_ids ids = {0};
    int rc;

    if (opt_given(v, RUN_BATCH))
        return runbatch_read(b, opt_string(v, RUN_BATCH), e);
    if (opt_given(v, RUN_IDS)) {
        if ((rc = common_ids(opt_string(v, RUN_IDS), &ids, e)) == 0)
            rc = runbatch_add_ids(b, ids.id, ids.n, e);
        tok_ids_fini(&ids);
        return rc;
    }
    buf_init(&text, MEM_APP);
    if ((rc = read_prompt(v, &text, e)) == 0)
        rc = runbatch_add_text(b, text.data ? text.data : "", text.len, e);
    buf_fini(&text);
    return rc;
}

static int run(const struct opt_values *v, struct err *e)
{
    struct runbatch b;
    struct gallop_options o;
    struct common_bar bar = {.what = "loading", .quiet = opt_flag(v, OPT_QUIET)};
    char path[4096];
    int rc;

    runbatch_init(&b);
    b.json = opt_flag(v, OPT_JSON);
    b.no_special = opt_flag(v, RUN_NO_SPECIAL);
    b.keep_special = opt_flag(v, RUN_KEEP_SPECIAL);
    b.chat = opt_flag(v, RUN_CHAT);
    b.stream = !opt_given(v, RUN_BATCH);
    if ((rc = common_options(v, &o, path, sizeof(path), e)) == 0 &&
        (rc = common_sampling(v, &b.sampling, &b.arena, e)) == 0 && (rc = add_requests(&b, v, e)) == 0) {
        char err[GALLOP_ERR_SIZE];

        o.progress = common_progress;
        o.progress_ctx = &bar;
        if ((rc = runbatch_size(&b, &o, e)) == 0 && (rc = gallop_open(&b.engine, &o, err)) != 0)
            err_set(e, rc, "%s", err);
        common_bar_end(&bar);
        if (rc == 0)
            rc = runbatch_run(&b, o.model, e);
    }
    runbatch_fini(&b);
    return rc;
}

int verb_run(int argc, char **argv)
{
    struct opt_values v;
    struct err e = {0};
    int rc =
        common_parse("run", "[options] [\"prompt\"]", rows, sizeof(rows) / sizeof(rows[0]), argc, argv, &v);

    if (rc >= 0)
        return rc;
    if (!opt_given(&v, RUN_IDS) && !opt_given(&v, RUN_FILE) && !opt_given(&v, RUN_BATCH) && v.n_args == 0) {
        log_error("run: a prompt is needed: text, --file, --ids or --batch");
        rc = 2;
    } else {
        rc = run(&v, &e);
        if (rc < 0)
            rc = 1; /* some requests of a batch failed and said so */
        else if (rc)
            rc = common_fail(&e);
    }
    opt_fini(&v);
    return rc;
}
