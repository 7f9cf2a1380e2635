/* verb_sample.c - `gallop sample`: what a sampling configuration makes of a distribution, stage by stage. */
#include <string.h>

#include "app/common.h"
#include "app/npy.h"
#include "app/out.h"
#include "app/verbs.h"
#include "base/mem.h"
#include "kern/kern.h"

enum { SAMPLE_LOGITS = COMMON_OWN, SAMPLE_ROW, SAMPLE_PARAMS };

static const struct opt_row rows[] = {
    {.id = SAMPLE_LOGITS,
     .name = "logits",
     .type = OPT_STRING,
     .arg = "F.npy",
     .help = "float32 logits of one position, [V] or [1, V]; of several with --row (-: standard input)"},
    {.id = SAMPLE_ROW,
     .name = "row",
     .type = OPT_INT,
     .arg = "R",
     .range = "[0,2147483647]",
     .help = "the row of [rows, V] to take, from 0"},
    {.id = SAMPLE_PARAMS,
     .name = "params",
     .type = OPT_STRING,
     .arg = "JSON",
     .help = "sampling fields with underscores, plus prompt_ids and output_ids"},
    COMMON_OUTPUT_ROWS,
};

/* What --params says. */
struct plan {
    struct sampling s;
    int32_t *prompt, *output;
    size_t n_prompt, n_output;
};

/* Takes KEY, a list of ids, out of O. */
static int take_ids(json_t *o, const char *key, struct arena *a, int32_t **ids, size_t *n, struct err *e)
{
    const json_t *list = json_object_get(o, key);

    *n = json_array_size(list);
    *ids = arena_zalloc(a, *n + 1, sizeof(**ids));
    if (!*ids)
        return err_nomem(e, "token ids");
    if (list && !json_is_array(list))
        return err_set(e, ERR_INPUT, "--params: %s is not a list", key);
    for (size_t i = 0; i < *n; i++) {
        const json_t *id = json_array_get(list, i);

        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX)
            return err_set(e, ERR_INPUT, "--params: %s[%zu] is not a token id", key, i);
        (*ids)[i] = (int32_t)json_integer_value(id);
    }
    json_object_del(o, key);
    return 0;
}

static int read_params(const char *text, struct plan *p, struct arena *a, struct err *e)
{
    struct sampling user, none;
    json_error_t je;
    json_t *o;
    int rc;

    sampling_default(&user);
    sampling_default(&none);
    if ((rc = common_utf8("--params", text, strlen(text), e)) != 0)
        return rc;
    o = json_loads(text, JSON_REJECT_DUPLICATES, &je);
    if (!json_is_object(o))
        rc = err_set(e, ERR_INPUT, "--params: %s", o ? "an object is expected" : je.text);
    else if ((rc = take_ids(o, "prompt_ids", a, &p->prompt, &p->n_prompt, e)) == 0 &&
             (rc = take_ids(o, "output_ids", a, &p->output, &p->n_output, e)) == 0 &&
             (rc = sampling_set_json(&user, o, "--params", a, e)) == 0) {
        /* the distribution is asked for, so drawing is meant unless the parameters say otherwise */
        if (!sampling_given(&user, SAMPLING_DO_SAMPLE)) {
            user.do_sample = true;
            sampling_mark(&user, SAMPLING_DO_SAMPLE);
        }
        sampling_merge(&p->s, &user, &none);
        if ((rc = sampling_validate(&p->s, INT32_MAX, e)) != 0)
            err_prefix(e, "--params");
    }
    json_decref(o);
    return rc;
}

/* ---- the distribution ---- */

static void print(const struct sample_stage *stage, size_t n_stages, const struct sample_prob *prob,
                  size_t n_probs, bool json)
{
    json_t *stages = json_array(), *probs = json_array();

    for (size_t i = 0; i < n_stages; i++) {
        json_array_append_new(stages, json_pack("{s:s,s:I}", "name", stage[i].name, "survivors",
                                                (json_int_t)stage[i].survivors));
        if (!json)
            out_fmt("%-20s %zu\n", stage[i].name, stage[i].survivors);
    }
    for (size_t i = 0; i < n_probs; i++) {
        json_array_append_new(probs, json_pack("[i,f]", (int)prob[i].id, prob[i].p));
        if (!json)
            out_fmt("%8d  %.6f\n", (int)prob[i].id, prob[i].p);
    }
    if (json)
        common_print_json(json_pack("{s:O,s:O}", "stages", stages, "probs", probs));
    json_decref(stages);
    json_decref(probs);
}

static int check_ids(const char *key, const int32_t *ids, size_t n, size_t n_vocab, struct err *e)
{
    for (size_t i = 0; i < n; i++)
        if ((size_t)ids[i] >= n_vocab)
            return err_set(e, ERR_INPUT, "--params: %s[%zu] is %d, there are %zu logits", key, i, (int)ids[i],
                           n_vocab);
    return 0;
}

static int explain(const struct plan *p, const float *logits, size_t n, bool json, struct arena *a,
                   struct err *e)
{
    struct sample_stage stage[SAMPLE_MAX_STAGES];
    struct sample_prob *prob = mem_zalloc(n, sizeof(*prob), MEM_APP);
    struct sampler sampler = {0};
    struct sample_history h;
    size_t n_stages, n_probs;
    int rc;

    if (!prob)
        return err_nomem(e, "probabilities");
    if ((rc = check_ids("prompt_ids", p->prompt, p->n_prompt, n, e)) == 0 &&
        (rc = check_ids("output_ids", p->output, p->n_output, n, e)) == 0 &&
        (rc = sampling_validate(&p->s, n, e)) == 0 &&
        (rc = sample_open(&sampler, kern_table(cpu_best()), n, e)) == 0 &&
        (rc = sample_history_init(&h, &p->s, p->prompt, p->n_prompt, p->n_output, n, a, e)) == 0) {
        for (size_t i = 0; i < p->n_output; i++)
            sample_history_add(&h, p->output[i]);
        rc = sample_explain(&sampler, &p->s, &h, logits, n, p->n_output, stage, &n_stages, prob, &n_probs);
        if (rc)
            err_set(e, rc, "no token is left, or a logit is not a number");
        else
            print(stage, n_stages, prob, n_probs, json);
    }
    sample_close(&sampler);
    mem_free(prob);
    return rc;
}

/* The row of V logits that is asked for: *X points into A. */
static int choose_row(const struct opt_values *v, const struct npy_array *a, const float **x, size_t *n,
                      struct err *e)
{
    size_t n_rows = a->n_dims == 2 ? a->shape[0] : 1, row = (size_t)opt_int(v, SAMPLE_ROW);
    const char *path = opt_string(v, SAMPLE_LOGITS);
    char shape[256];

    *n = a->n_dims ? a->shape[a->n_dims - 1] : 0;
    npy_shape_text(a, shape, sizeof(shape));
    if (a->n_dims < 1 || a->n_dims > 2 || *n == 0 || *n > INT32_MAX || n_rows == 0)
        return err_set(e, ERR_INPUT,
                       "%s: logits of shape %s; [V], [1, V] or, with --row, [rows, V] is expected", path,
                       shape);
    if (n_rows > 1 && !opt_given(v, SAMPLE_ROW))
        return err_set(e, ERR_INPUT, "%s: logits of shape %s are %zu positions; --row says which", path,
                       shape, n_rows);
    if (row >= n_rows)
        return err_set(e, ERR_INPUT, "--row %zu: %s has logits of shape %s", row, path, shape);
    *x = a->x + row * *n;
    return 0;
}

static int run(const struct opt_values *v, const struct plan *p, struct arena *a, struct err *e)
{
    struct npy_array logits;
    const float *x = NULL;
    size_t n;
    int rc;

    if ((rc = npy_read(opt_string(v, SAMPLE_LOGITS), &logits, e)) == 0 &&
        (rc = choose_row(v, &logits, &x, &n, e)) == 0)
        rc = explain(p, x, n, opt_flag(v, OPT_JSON), a, e);
    mem_free(logits.x);
    return rc;
}

int verb_sample(int argc, char **argv)
{
    struct opt_values v;
    struct plan p = {0};
    struct err e = {0};
    struct arena a;
    int rc = common_parse("sample", "--logits F.npy --params JSON", rows, sizeof(rows) / sizeof(rows[0]),
                          argc, argv, &v);

    if (rc >= 0)
        return rc;
    arena_init(&a, MEM_APP);
    if (!opt_given(&v, SAMPLE_LOGITS))
        rc = common_usage("sample", "--logits is needed");
    else if (v.n_args)
        rc = common_usage("sample", "found \"%s\", expected options only", v.args[0]);
    else if (read_params(opt_given(&v, SAMPLE_PARAMS) ? opt_string(&v, SAMPLE_PARAMS) : "{}", &p, &a, &e) !=
             0)
        rc = common_usage("sample", "%s", e.msg);
    else if ((rc = run(&v, &p, &a, &e)) != 0)
        rc = common_fail(&e);
    arena_fini(&a);
    opt_fini(&v);
    return rc;
}
