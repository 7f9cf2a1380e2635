/* verb_sample.c - `gallop sample`: applies the stages of the sampler to given logits and prints the number of
 * remaining tokens after each stage and the final probabilities. */
#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#include "app/input.h"
#include "app/options.h"
#include "app/print.h"
#include "app/verb.h"
#include "base/arena.h"
#include "base/json/json_pull.h"
#include "base/mem.h"
#include "base/opt.h"
#include "engine/engine.h"
#include "engine/sampling/sample.h"
#include "kern/kern.h"
#include "lab/npy.h"

struct sample_options {
    struct options_output out;
    const char *logits, *params;
    size_t row;
    bool row_given;
};

#define INTO(member) OPT_INTO(struct sample_options, member)

static const struct opt_row rows[] = {
    {"logits", 0, PARAM_TEXT, "F.npy", EVERYDAY,
     .help =
         "NumPy file with float32 logits of shape [V], [1, V] or, with --row, [rows, V] (-: standard input)",
     INTO(logits)},
    {"row", 0, PARAM_INT, "R", EVERYDAY,
     .help = "number of the row of [rows, V] to sample from, counted from 0", .values = "[0,2147483647]",
     OPT_INTO(struct sample_options, row), OPT_SOURCE(struct sample_options, row_given)},
    {"params", 0, PARAM_TEXT, "JSON", EVERYDAY,
     .help =
         "JSON object of sampling parameters such as {\"top_k\":5}; prompt_ids and output_ids are the tokens that "
         "penalties count",
     .otherwise = "{}", INTO(params)},
    {0}};

/* The parsed value of --params. */
struct plan {
    struct sampling s;
    struct tok_ids prompt, output;
    struct arena arena; /* memory of the lists of S */
};

/* Moves the list of token ids with the name KEY from the object O to IDS. */
static int take_ids(json_t *o, const char *key, struct tok_ids *ids, struct err *e)
{
    const json_t *list = json_object_get(o, key);
    int rc = list ? input_json_ids(list, key, 0, ids, e) : 0;

    if (rc)
        return err_prefix(e, "--params");
    json_object_del(o, key);
    return 0;
}

static int read_params(const char *text, struct plan *p, struct err *e)
{
    struct sampling user, none;
    json_t *o;
    int rc;

    sampling_default(&user);
    sampling_default(&none);
    if ((rc = json_pull_load(&o, text, strlen(text), "--params", e)) != 0)
        return rc;
    if (!json_is_object(o))
        rc = err_set(e, ERR_INPUT, "--params: a JSON object is expected");
    else if ((rc = take_ids(o, "prompt_ids", &p->prompt, e)) == 0 &&
             (rc = take_ids(o, "output_ids", &p->output, e)) == 0 &&
             (rc = sampling_set_json(&user, o, "--params", &p->arena, e)) == 0) {
        /* do_sample is true by default here, because a greedy sampler has no distribution to show. */
        if (!sampling_given(&user, SAMPLING_DO_SAMPLE)) {
            user.do_sample = true;
            sampling_mark(&user, SAMPLING_DO_SAMPLE);
        }
        if (user.n_bad_words || user.n_dry_sequence_breakers)
            rc = err_set(e, ERR_INPUT, "--params: %s: not supported, because there is no tokenizer",
                         user.n_bad_words ? "bad_words" : "dry_sequence_breakers");
        sampling_merge(&p->s, &user, &none);
        if (rc == 0 && (rc = sampling_validate(&p->s, INT32_MAX, e)) != 0)
            err_prefix(e, "--params");
    }
    json_decref(o);
    return rc;
}

/* ---- results ---- */

static void sample_print(const struct sample_stage *stage, size_t n_stages, const struct sample_prob *prob,
                         size_t n_probs, bool json)
{
    json_t *stages = json_array(), *probs = json_array();

    for (size_t i = 0; i < n_stages; i++) {
        json_array_append_new(stages, json_pack("{s:s,s:I}", "name", stage[i].name, "survivors",
                                                (json_int_t)stage[i].survivors));
        if (!json)
            print_fmt("%-20s %zu\n", stage[i].name, stage[i].survivors);
    }
    for (size_t i = 0; i < n_probs; i++) {
        json_array_append_new(probs, json_pack("[i,f]", (int)prob[i].id, prob[i].p));
        if (!json)
            print_fmt("%8d  %.6f\n", (int)prob[i].id, prob[i].p);
    }
    if (json)
        print_json(json_pack("{s:O,s:O}", "stages", stages, "probs", probs));
    json_decref(stages);
    json_decref(probs);
}

static int check_ids(const char *key, const struct tok_ids *ids, size_t n_vocab, struct err *e)
{
    for (size_t i = 0; i < ids->n; i++)
        if ((size_t)ids->id[i] >= n_vocab)
            return err_set(e, ERR_INPUT,
                           "--params: %s[%zu] is %d; a number below the number of logits, %zu, is expected",
                           key, i, (int)ids->id[i], n_vocab);
    return 0;
}

static int explain(struct plan *p, const float *logits, size_t n, bool json, struct err *e)
{
    struct sample_stage stage[SAMPLE_MAX_STAGES];
    struct sample_prob *prob = mem_zalloc(n, sizeof(*prob), MEM_APP);
    size_t n_stages, n_probs, n_output = p->output.n, n_tokens = p->prompt.n + n_output;
    int32_t *token = arena_zalloc(&p->arena, n_tokens + 1, sizeof(*token));
    struct sample_scratch sampler = {0};
    struct sample_history h;
    int rc;

    if (!prob || !token) {
        mem_free(prob);
        return err_nomem(e, "probabilities");
    }
    for (size_t i = 0; i < n_tokens; i++)
        token[i] = i < p->prompt.n ? p->prompt.id[i] : p->output.id[i - p->prompt.n];
    if ((rc = check_ids("prompt_ids", &p->prompt, n, e)) == 0 &&
        (rc = check_ids("output_ids", &p->output, n, e)) == 0 && (rc = sampling_validate(&p->s, n, e)) == 0 &&
        (rc = sample_open(&sampler, kern_table(cpu_best()), n, e)) == 0 &&
        (rc = sample_history_init(&h, &p->s, p->prompt.id, p->prompt.n, n_output, n, &p->arena, e)) == 0) {
        for (size_t i = 0; i < n_output; i++)
            sample_history_add(&h, p->output.id[i]);
        h.output = token + p->prompt.n;
        h.n_before = p->prompt.n;
        rc = sample_explain(&sampler, &p->s, &h, logits, n, n_output, stage, &n_stages, prob, &n_probs);
        if (rc)
            err_set(e, rc, "the sampling parameters exclude every token, or a logit is NaN or infinite");
        else
            sample_print(stage, n_stages, prob, n_probs, json);
    }
    sample_close(&sampler);
    mem_free(prob);
    return rc;
}

/* Sets *X to the row of logits in A that --row selects, and *N to its length. */
static int choose_row(const struct sample_options *o, const struct npy_array *a, const float **x, size_t *n,
                      struct err *e)
{
    size_t n_rows = a->n_dims == 2 ? a->shape[0] : 1, row = o->row;
    char shape[256];

    *n = a->n_dims ? a->shape[a->n_dims - 1] : 0;
    npy_shape_text(a, shape, sizeof(shape));
    if (a->n_dims < 1 || a->n_dims > 2 || *n == 0 || *n > INT32_MAX || n_rows == 0)
        return err_set(e, ERR_INPUT,
                       "%s: found logits of shape %s, expected [V], [1, V] or, with --row, [rows, V]",
                       o->logits, shape);
    if (n_rows > 1 && !o->row_given)
        return err_set(e, ERR_INPUT,
                       "%s: found logits of shape %s, %zu rows; --row with the number of a row is expected",
                       o->logits, shape, n_rows);
    if (row >= n_rows)
        return err_set(e, ERR_INPUT, "--row: found %zu, but the logits in %s have the shape %s", row,
                       o->logits, shape);
    *x = a->x + row * *n;
    return 0;
}

static int explain_file(const struct sample_options *o, struct plan *p, struct err *e)
{
    struct npy_array logits;
    const float *x = NULL;
    size_t n;
    int rc;

    if ((rc = npy_read(o->logits, &logits, e)) == 0 && (rc = choose_row(o, &logits, &x, &n, e)) == 0)
        rc = explain(p, x, n, o->out.json, e);
    mem_free(logits.x);
    return rc;
}

static int sample_run(const struct opt_values *v, struct err *e)
{
    struct sample_options o = {.params = "{}"};
    struct plan p = {0};
    int rc;

    opt_read(v, &o, sizeof(o));
    if (!o.logits)
        return err_set(e, ERR_USAGE, "sample: --logits is missing");
    arena_init(&p.arena, MEM_APP);
    if (read_params(o.params, &p, e) != 0) {
        err_prefix(e, "sample");
        rc = e->code = ERR_USAGE;
    } else {
        rc = explain_file(&o, &p, e);
    }
    tok_ids_fini(&p.prompt);
    tok_ids_fini(&p.output);
    arena_fini(&p.arena);
    return rc;
}

const struct verb verb_sample = {
    .name = "sample",
    .summary = "show how sampling parameters filter given logits",
    .arguments = "--logits F.npy --params JSON",
    .no_words = "options only",
    .manual =
        "Applies sampling parameters to logits from a file, such as one that gallop logits wrote. Prints how many "
        "tokens remain after each stage of the sampler, and the resulting probabilities.",
    .options = (const struct opt_part[]){OPT_OWN(struct sample_options, rows),
                                         OPT_PART(struct sample_options, out, options_json),
                                         OPT_PART(struct sample_options, out, options_help), OPT_END},
    .run = sample_run,
};
