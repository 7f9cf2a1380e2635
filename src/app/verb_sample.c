/* verb_sample.c - `gallop sample`: what a sampling configuration makes of a distribution, stage by stage. */
#include <stdio.h>
#include <string.h>

#include "app/common.h"
#include "app/npy.h"
#include "app/verbs.h"
#include "base/log.h"
#include "base/mem.h"
#include "kern/kern.h"

enum { SAMPLE_LOGITS = COMMON_OWN, SAMPLE_PARAMS };

static const struct opt_row rows[] = {
    {.id = SAMPLE_LOGITS,
     .name = "logits",
     .type = OPT_STRING,
     .arg = "F.npy",
     .help = "float32 logits of one position"},
    {.id = SAMPLE_PARAMS,
     .name = "params",
     .type = OPT_STRING,
     .arg = "JSON",
     .help = "sampling fields with underscores, plus prompt_ids and output_ids"},
    COMMON_OUTPUT_ROWS,
};

/* Takes KEY, a list of ids below N_VOCAB, out of O. */
static int take_ids(json_t *o, const char *key, size_t n_vocab, struct arena *a, int32_t **ids, size_t *n,
                    struct err *e)
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

        if (!json_is_integer(id) || json_integer_value(id) < 0 || (size_t)json_integer_value(id) >= n_vocab)
            return err_set(e, ERR_INPUT, "--params: %s[%zu] is not a token id below %zu", key, i, n_vocab);
        (*ids)[i] = (int32_t)json_integer_value(id);
    }
    json_object_del(o, key);
    return 0;
}

static void print(const struct sample_stage *stage, size_t n_stages, const struct sample_prob *prob,
                  size_t n_probs, bool json)
{
    json_t *stages = json_array(), *probs = json_array();

    for (size_t i = 0; i < n_stages; i++) {
        json_array_append_new(stages, json_pack("{s:s,s:I}", "name", stage[i].name, "survivors",
                                                (json_int_t)stage[i].survivors));
        if (!json)
            printf("%-20s %zu\n", stage[i].name, stage[i].survivors);
    }
    for (size_t i = 0; i < n_probs; i++) {
        json_array_append_new(probs, json_pack("[i,f]", (int)prob[i].id, prob[i].p));
        if (!json)
            printf("%8d  %.6f\n", (int)prob[i].id, prob[i].p);
    }
    if (json)
        common_print_json(json_pack("{s:O,s:O}", "stages", stages, "probs", probs));
    json_decref(stages);
    json_decref(probs);
}

static int explain(json_t *params, const float *logits, size_t n, bool json, struct arena *a, struct err *e)
{
    struct sample_stage stage[SAMPLE_MAX_STAGES];
    struct sample_prob *prob = mem_zalloc(n, sizeof(*prob), MEM_APP);
    struct sample_history h;
    struct sampling user, s, none;
    struct sampler sampler = {0};
    int32_t *prompt, *output;
    size_t n_prompt, n_output, n_stages, n_probs;
    int rc;

    sampling_default(&user);
    sampling_default(&none);
    if (!prob)
        return err_nomem(e, "probabilities");
    if ((rc = take_ids(params, "prompt_ids", n, a, &prompt, &n_prompt, e)) == 0 &&
        (rc = take_ids(params, "output_ids", n, a, &output, &n_output, e)) == 0 &&
        (rc = sampling_set_json(&user, params, "--params", a, e)) == 0) {
        /* the distribution is asked for, so drawing is meant unless the parameters say otherwise */
        if (!sampling_given(&user, SAMPLING_DO_SAMPLE)) {
            user.do_sample = true;
            sampling_mark(&user, SAMPLING_DO_SAMPLE);
        }
        sampling_merge(&s, &user, &none);
        if ((rc = sampling_validate(&s, n, e)) == 0 && (rc = sample_open(&sampler, n, e)) == 0 &&
            (rc = sample_history_init(&h, &s, prompt, n_prompt, n_output, n, a, e)) == 0) {
            for (size_t i = 0; i < n_output; i++)
                sample_history_add(&h, output[i]);
            rc = sample_explain(&sampler, &s, &h, logits, n, n_output, stage, &n_stages, prob, &n_probs);
            if (rc)
                err_set(e, rc, "no token is left, or a logit is not a number");
            else
                print(stage, n_stages, prob, n_probs, json);
        }
    }
    sample_close(&sampler);
    mem_free(prob);
    return rc;
}

static int run(const struct opt_values *v, struct err *e)
{
    const char *text = opt_given(v, SAMPLE_PARAMS) ? opt_string(v, SAMPLE_PARAMS) : "{}";
    struct arena a;
    json_error_t je;
    json_t *params = json_loads(text, JSON_REJECT_DUPLICATES, &je);
    float *logits = NULL;
    size_t n;
    int rc;

    arena_init(&a, MEM_APP);
    if (!json_is_object(params))
        rc = err_set(e, ERR_INPUT, "--params: %s", params ? "an object is expected" : je.text);
    else if ((rc = npy_read(opt_string(v, SAMPLE_LOGITS), &logits, &n, e)) == 0)
        rc = n == 0 || n > INT32_MAX
                 ? err_set(e, ERR_INPUT, "%s: %zu logits", opt_string(v, SAMPLE_LOGITS), n)
                 : explain(params, logits, n, opt_flag(v, OPT_JSON), &a, e);
    json_decref(params);
    mem_free(logits);
    arena_fini(&a);
    return rc;
}

int verb_sample(int argc, char **argv)
{
    struct opt_values v;
    struct err e = {0};
    int rc = common_parse("sample", "--logits F.npy --params JSON", rows, sizeof(rows) / sizeof(rows[0]),
                          argc, argv, &v);

    if (rc >= 0)
        return rc;
    kern_init(cpu_best());
    if (!opt_given(&v, SAMPLE_LOGITS)) {
        log_error("sample: --logits is needed");
        rc = 2;
    } else if ((rc = run(&v, &e)) != 0) {
        rc = common_fail(&e);
    }
    opt_fini(&v);
    return rc;
}
