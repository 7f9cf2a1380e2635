/* verb_grammar.c - `gallop grammar`: compiles a constraint, checks texts against it, and measures the time of
 * its token masks. */
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "app/input.h"
#include "app/load.h"
#include "app/options.h"
#include "app/print.h"
#include "app/verb.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json/json_pull.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/opt.h"
#include "ckpt/checkpoint.h"
#include "text/grammar/constraint.h"
#include "text/tok/tok.h"

struct grammar_options {
    struct load load;
    struct options_output out;
    const char *schema, *regex, *grammar, *tag, *check, *masks;
    bool lax, compact;
};

#define INTO(member) OPT_INTO(struct grammar_options, member)

static const struct opt_row rows[] = {
    {"json-schema", 0, PARAM_TEXT, "F", EVERYDAY, .help = "compile the JSON Schema in this file",
     INTO(schema)},
    {"regex", 0, PARAM_TEXT, "R", EVERYDAY,
     .help = "compile this regular expression, which matches whole texts", INTO(regex)},
    {"grammar", 0, PARAM_TEXT, "F", EVERYDAY, .help = "compile the grammar in this file, GBNF or EBNF",
     INTO(grammar)},
    {"structural-tag", 0, PARAM_TEXT, "F", EVERYDAY, .help = "compile the structural tag in this file, JSON",
     INTO(tag)},
    {"check", 0, PARAM_TEXT, "F.jsonl", EVERYDAY,
     .help =
         "check each line of this file: JSON text for --json-schema and --structural-tag, else a JSON string with "
         "the text; JSON that is valid under a schema is accepted also with properties that the schema does not name, "
         "and with other spellings of names and of values of enum and const than answers have",
     INTO(check)},
    {"masks", 0, PARAM_TEXT, "F.jsonl", EVERYDAY,
     .help =
         "answers as arrays of token ids, one on each line: with --json, the tokens that are allowed after "
         "each of their tokens, and the limit that ended them, if any",
     INTO(masks)},
    {"lax", 0, PARAM_FLAG, NULL, EVERYDAY,
     .help = "ignore unsupported keywords of a JSON Schema instead of failing", INTO(lax)},
    {"compact", 0, PARAM_FLAG, NULL, EVERYDAY,
     .help = "accept JSON only without white space between its tokens", INTO(compact)},
    {0}};

/* The compiled constraint and the results. */
struct grammar_job {
    const struct grammar_options *o;
    const struct constraint_source *source;
    struct tok *tok;
    struct constraint_vocabulary *vocabulary;
    struct constraint *constraint; /* NULL: the constraint does not compile */
    /* --check: compiled to accept all valid JSON, also spellings that answers never have */
    struct constraint *checker;
    struct constraint_fault fault; /* where the constraint is wrong, if it does not compile */
    struct err error;              /* why the constraint does not compile, or the first limit of a line */
    uint64_t compile_ns;           /* CPU time in nanoseconds of compiling and of the first mask */
    uint32_t *mask;
    double *mask_us; /* [n_masks] CPU times of masks in microseconds */
    size_t n_masks, cap_masks;
    json_t *accepts, *masks;
    struct err *e;
};

/* Sets *S to the constraint that the options select, and reads its text into TEXT. */
static int read_constraint(const struct grammar_options *o, struct constraint_source *s, struct buf *text,
                           struct err *e)
{
    const struct {
        const char *value;
        enum constraint_kind kind;
    } way[] = {{o->schema, CONSTRAINT_JSON_SCHEMA},
               {o->regex, CONSTRAINT_REGEX},
               {o->grammar, CONSTRAINT_GRAMMAR},
               {o->tag, CONSTRAINT_TAG}};
    const char *value = NULL;
    int n = 0, rc = 0;

    *s = (struct constraint_source){.is_lax = o->lax, .is_compact = o->compact};
    for (size_t i = 0; i < sizeof(way) / sizeof(way[0]); i++)
        if (way[i].value) {
            n++;
            value = way[i].value;
            s->kind = way[i].kind;
        }
    if (n != 1)
        return err_set(e, ERR_USAGE,
                       "found %d of --json-schema, --regex, --grammar and --structural-tag, expected one", n);
    if (s->kind == CONSTRAINT_REGEX)
        buf_str(text, value);
    else
        rc = input_text(value, text, e);
    s->text = text->data ? text->data : "";
    s->n = text->len;
    return rc ? rc : text->oom ? err_nomem(e, "a constraint") : 0;
}

/* Compiles the constraint and computes its first mask. An invalid constraint is reported in j->error, and 0
 * is returned. */
static int compile(struct grammar_job *j, const struct constraint_source *s)
{
    uint64_t begin = clock_thread_ns();
    struct constraint_run run;
    int rc = constraint_new(&j->constraint, s, j->vocabulary, &j->fault, &j->error);

    if (rc == 0 && (rc = constraint_run_open(&run, j->constraint, 1, &j->error)) == 0) {
        if (constraint_run_mask(&run, j->mask, &j->error) == 0)
            rc = j->error.code;
        constraint_run_close(&run);
    }
    j->compile_ns = clock_thread_ns() - begin;
    if (rc) {
        constraint_free(j->constraint);
        j->constraint = NULL;
    }
    return rc == ERR_NOMEM ? err_set(j->e, rc, "%s", j->error.msg) : 0;
}

/* Records that a limit, E, was reached in the line WHAT: its result does not show whether the constraint accepts it. */
static void note_limit(struct grammar_job *j, const char *what, const struct err *e)
{
    if (!j->error.code)
        err_set(&j->error, e->code, "%s: %s", what, e->msg);
}

/* Compiles *C if it is NULL, or again if it has reached a limit, because a constraint stays unusable after
 * that. */
static int renew(struct grammar_job *j, struct constraint **c, const struct constraint_source *s)
{
    struct err e = {0};

    if (*c && constraint_error(*c, &e) == 0)
        return 0;
    constraint_free(*c);
    *c = NULL;
    return constraint_new(c, s, j->vocabulary, &j->fault, j->e);
}

/* Computes the mask before each token of TEXT, up to the first token that the constraint forbids, and records
 * the times. */
static int measure(struct grammar_job *j, const char *text, size_t n)
{
    struct tok_ids ids = {0};
    struct constraint_run run = {0};
    int rc = tok_encode(j->tok, text, n, TOK_PLAIN, &ids, j->e);

    rc = rc ? rc : constraint_run_open(&run, j->constraint, ids.n, j->e);
    for (size_t i = 0; i < ids.n && rc == 0; i++) {
        uint64_t begin = clock_thread_ns();
        struct err ignored;

        constraint_run_mask(&run, j->mask, &ignored);
        if (!mem_grow((void **)&j->mask_us, &j->cap_masks, j->n_masks + 1, sizeof(*j->mask_us), MEM_APP))
            rc = err_nomem(j->e, "the times of masks");
        else
            j->mask_us[j->n_masks++] = (double)(clock_thread_ns() - begin) / 1e3;
        if (!constraint_run_add(&run, ids.id[i]))
            break;
    }
    constraint_run_close(&run);
    tok_ids_fini(&ids);
    return rc;
}

/* Checks one line of --check against the constraint and measures the masks of its text. Errors begin with
 * WHAT. */
static int check_line(void *ctx, const char *line, size_t n, const char *what)
{
    struct grammar_job *j = ctx;
    const struct constraint_source *s = j->source;
    bool is_json = s->kind == CONSTRAINT_JSON_SCHEMA || s->kind == CONSTRAINT_TAG;
    struct constraint_source all = *s;
    struct err limit = {0};
    json_t *value = NULL;
    int rc = is_json ? 0 : json_pull_load(&value, line, n, what, j->e);

    if (rc == 0 && !is_json) {
        if (!json_is_string(value))
            rc = err_set(j->e, ERR_INPUT, "%s: a JSON string is expected", what);
        line = json_string_value(value);
        n = json_string_length(value);
    }
    all.is_open = all.every_spelling = true;
    rc = rc ? rc : renew(j, &j->checker, &all);
    if (rc == 0 && json_array_append_new(j->accepts, json_boolean(constraint_matches(j->checker, line, n))))
        rc = err_nomem(j->e, "an answer");
    if (rc == 0 && constraint_error(j->checker, &limit))
        note_limit(j, what, &limit);
    rc = rc ? rc : renew(j, &j->constraint, s);
    rc = rc ? rc : measure(j, line, n);
    json_decref(value);
    return rc;
}

/* Appends the mask of RUN to ALLOWED (hexadecimal, with one bit for each token), and whether the text may end here to
 * MAY_END. Appends nothing if the constraint has reached a limit. */
static int add_mask(struct grammar_job *j, struct constraint_run *run, json_t *allowed, json_t *may_end)
{
    struct buf digits = {.tag = MEM_APP};
    struct err limit = {0};
    int rc = 0;

    if (constraint_run_mask(run, j->mask, &limit) == 0 && limit.code)
        return 0;
    for (size_t i = 0; i < constraint_mask_words(j->vocabulary); i++)
        buf_fmt(&digits, "%08" PRIx32, j->mask[i]);
    if (digits.oom || json_array_append_new(allowed, json_stringn(digits.data, digits.len)) ||
        json_array_append_new(may_end, json_boolean(constraint_run_may_end(run))))
        rc = err_nomem(j->e, "a mask");
    buf_fini(&digits);
    return rc;
}

/* Appends to j->masks the masks before, between and after the tokens of LINE, a JSON array of token ids. Stops at the
 * first token that the constraint forbids, or at a limit of the constraint. */
static int mask_line(void *ctx, const char *line, size_t n, const char *what)
{
    struct grammar_job *j = ctx;
    json_t *value = NULL, *allowed = json_array(), *may_end = json_array();
    struct constraint_run run = {0};
    struct err limit = {0};
    int rc = json_pull_load(&value, line, n, what, j->e);
    size_t i = 0, n_tokens = json_array_size(value);

    rc = rc ? rc : renew(j, &j->constraint, j->source);
    if (rc == 0 && !json_is_array(value))
        rc = err_set(j->e, ERR_INPUT, "%s: a JSON array of token ids is expected", what);
    rc = rc ? rc : constraint_run_open(&run, j->constraint, n_tokens + 1, j->e);
    for (; rc == 0; i++) {
        json_int_t id = json_integer_value(json_array_get(value, i));

        rc = add_mask(j, &run, allowed, may_end);
        if (i >= n_tokens || id < 0 || id > INT32_MAX || !constraint_run_add(&run, (int32_t)id))
            break;
    }
    constraint_run_close(&run);
    json_decref(value);
    if (rc == 0 && constraint_error(j->constraint, &limit))
        note_limit(j, what, &limit);
    if (json_array_append_new(j->masks, json_pack("{s:o,s:o,s:s?}", "allowed", allowed, "may_end", may_end,
                                                  "error", limit.code ? limit.msg : NULL)))
        rc = err_nomem(j->e, "masks");
    return rc;
}

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static json_t *mask_times(struct grammar_job *j)
{
    double sum = 0;
    size_t n = j->n_masks;

    if (n == 0)
        return json_null();
    qsort(j->mask_us, n, sizeof(*j->mask_us), compare_times);
    for (size_t i = 0; i < n; i++)
        sum += j->mask_us[i];
    return json_pack("{s:f,s:f,s:f}", "mean", sum / (double)n, "p99", j->mask_us[(n - 1) * 99 / 100], "max",
                     j->mask_us[n - 1]);
}

/* Prints the pointer of each error in a JSON Schema, even "", which stands for the root: errors of limits
 * have it, too. */
static int print_result(struct grammar_job *j, enum constraint_kind kind)
{
    bool fine = j->constraint != NULL, has_place = kind == CONSTRAINT_JSON_SCHEMA || j->fault.keyword[0];
    size_t n_accepted = 0;

    if (j->o->out.json) {
        print_json(json_pack("{s:b,s:o,s:o,s:O,s:f,s:o,s:O*}", "compiled", fine, "error",
                             print_json_text(j->error.code ? j->error.msg : NULL), "pointer",
                             print_json_text(fine || !has_place ? NULL : j->fault.pointer), "accepts",
                             j->accepts, "compile_us", (double)j->compile_ns / 1e3, "mask_us", mask_times(j),
                             "masks", j->o->masks ? j->masks : NULL));
        return print_flush(j->e);
    }
    if (!fine)
        return err_set(j->e, j->error.code, "%s", j->error.msg);
    print_fmt("compiled in %.1f us, %zu bytes\n", (double)j->compile_ns / 1e3,
              constraint_bytes(j->constraint));
    for (size_t i = 0; i < json_array_size(j->accepts); i++)
        n_accepted += json_is_true(json_array_get(j->accepts, i));
    if (j->o->check)
        print_fmt("%zu of %zu texts are accepted\n", n_accepted, json_array_size(j->accepts));
    if (j->error.code)
        print_fmt("a limit was reached: %s\n", j->error.msg);
    return print_flush(j->e);
}

/* Warns of options that have no effect together with the others. */
static void warn_of_useless(const struct grammar_options *o)
{
    bool has_schema = o->schema || o->tag;

    if (o->masks && !o->out.json)
        log_warn("--masks changes nothing without --json");
    if (o->lax && !has_schema)
        log_warn("--lax changes nothing without --json-schema or --structural-tag");
    if (o->compact && !has_schema)
        log_warn("--compact changes nothing without --json-schema or --structural-tag");
}

static int grammar_run(const struct opt_values *v, struct err *e)
{
    struct grammar_options o = {.schema = NULL};
    struct constraint_source s;
    struct grammar_job j = {.o = &o, .source = &s, .e = e};
    struct checkpoint model = {.in.path = NULL};
    struct buf text = {.tag = MEM_APP};
    int rc;

    load_init(&o.load);
    opt_read(v, &o, sizeof(o));
    warn_of_useless(&o);
    j.accepts = json_array();
    j.masks = json_array();
    if ((rc = read_constraint(&o, &s, &text, e)) == 0 && (rc = load_text(&o.load, &model, e)) == 0 &&
        (rc = checkpoint_tokenizer(&j.tok, &model, e)) == 0 &&
        (rc = constraint_vocabulary_new(&j.vocabulary, j.tok, e)) == 0) {
        j.mask = mem_zalloc(constraint_mask_words(j.vocabulary), sizeof(*j.mask), MEM_APP);
        rc = j.mask ? compile(&j, &s) : err_nomem(e, "a mask");
        if (rc == 0 && j.constraint && o.check)
            rc = input_lines(o.check, check_line, &j, e);
        if (rc == 0 && j.constraint && o.masks)
            rc = input_lines(o.masks, mask_line, &j, e);
        rc = rc ? rc : print_result(&j, s.kind);
    }
    constraint_free(j.constraint);
    constraint_free(j.checker);
    constraint_vocabulary_free(j.vocabulary);
    mem_free(j.mask);
    mem_free(j.mask_us);
    json_decref(j.accepts);
    json_decref(j.masks);
    buf_fini(&text);
    tok_close(j.tok);
    checkpoint_close(&model);
    return rc;
}

const struct verb verb_grammar = {
    .name = "grammar",
    .summary = "compile a JSON Schema, regex or grammar, and check texts",
    .arguments = "--json-schema F | --regex R | --grammar F [options]",
    .no_words = "options only",
    .manual =
        "Compiles a constraint on answers for a model's tokenizer. --check prints for each text of a file whether "
        "the constraint accepts it, and measures the time of the token masks that generating it would need.",
    .options = (const struct opt_part[]){OPT_PART(struct grammar_options, load, options_model),
                                         OPT_OWN(struct grammar_options, rows),
                                         OPT_PART(struct grammar_options, load, options_source),
                                         OPT_PART(struct grammar_options, out, options_json),
                                         OPT_PART(struct grammar_options, out, options_help), OPT_END},
    .run = grammar_run,
};
