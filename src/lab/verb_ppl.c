/* verb_ppl.c - `gallop ppl`: perplexity of a text.
 *
 * The text is cut into windows that do not overlap and are computed independently. The first token of a
 * window is not scored; each window begins with BOS if the tokenizer adds one. --kl also computes the KL
 * divergence from the predictions of a second engine in fp32.
 */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "app/input.h"
#include "app/load.h"
#include "app/options.h"
#include "app/print.h"
#include "app/verb.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/opt.h"
#include "ckpt/checkpoint.h"
#include "engine/engine.h"
#include "engine/engine_priv.h"
#include "engine/llm.h"
#include "engine/score.h"
#include "kern/kern.h"
#include "text/tok/tok.h"

enum { WANTED = 64 };

struct ppl_options {
    struct load load;
    struct options_output out;
    const char *file;
    size_t ctx, max_tokens;
    bool kl;
};

#define INTO(member) OPT_INTO(struct ppl_options, member)

static const struct opt_row rows[] = {
    {"file", 0, PARAM_TEXT, "F", EVERYDAY, .help = "file with the text (-: standard input)", INTO(file)},
    {"ctx", 0, PARAM_INT, "N", EVERYDAY, .help = "length of a window in tokens", .fallback = "512",
     .values = "[2,1048576]", INTO(ctx)},
    {"max-tokens", 0, PARAM_INT, "N", EVERYDAY, .help = "score only the first N tokens of the text",
     .otherwise = "all", .values = "[2,2147483647]", INTO(max_tokens)},
    {"kl", 0, PARAM_FLAG, NULL, EVERYDAY,
     .help = "also open the model in fp32, and print the KL divergence of the predictions from those in fp32",
     INTO(kl)},
    {0}};

struct ppl {
    const struct ppl_options *o;
    struct llm *m, *exact; /* exact: the model of the fp32 engine of --kl, or NULL */
    const int32_t *window; /* [n_window] tokens of the current window */
    size_t n_window;
    float *exact_logits; /* [window, V] logits in fp32; NULL without --kl */
    double nll;          /* sum of negative log-likelihoods */
    size_t n;            /* number of predictions */
    double *kl;          /* [n_kl] KL divergence of each prediction from fp32 */
    size_t n_kl, cap_kl;
    size_t n_agree; /* number of predictions whose likeliest token equals that of the fp32 engine */
    struct err *e;
};

/* Callback of score_run(): keeps the logits of the fp32 engine. */
static int keep_rows(void *ctx, size_t pos, size_t n, const float *logits)
{
    struct ppl *p = ctx;
    size_t V = p->exact->model.info.vocab;

    memcpy(p->exact_logits + pos * V, logits, n * V * sizeof(float));
    return 0;
}

/* Returns the KL divergence KL(P || Q) of the softmax of the logits P [n] and Q [n], in nats. */
static double kl(const float *p, const float *q, size_t n)
{
    double lp = score_logsumexp(p, n), lq = score_logsumexp(q, n), sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += exp((double)p[i] - lp) * (((double)p[i] - lp) - ((double)q[i] - lq));
    return sum > 0 || isnan(sum) ? sum : 0;
}

static int refuse_number(const struct ppl *p, const char *what)
{
    return err_set(p->e, ERR_INPUT,
                   "the %s of prediction %zu is not finite: the model's logits contain an infinity or NaN",
                   what, p->n);
}

/* Callback of score_run(): adds the predictions of rows POS to POS + N - 1 to the results. */
static int score_rows(void *ctx, size_t pos, size_t n, const float *logits)
{
    struct ppl *p = ctx;
    size_t V = p->m->model.info.vocab;

    for (size_t i = 0; i < n && pos + i + 1 < p->n_window; i++) {
        const float *x = logits + i * V, *y = p->exact_logits ? p->exact_logits + (pos + i) * V : NULL;
        double nll = score_logsumexp(x, V) - (double)x[p->window[pos + i + 1]], divergence;

        if (!isfinite(nll))
            return refuse_number(p, "negative log-likelihood");
        p->nll += nll;
        p->n++;
        if (!y)
            continue;
        divergence = kl(y, x, V);
        if (!isfinite(divergence))
            return refuse_number(p, "KL divergence from fp32");
        if (!mem_grow((void **)&p->kl, &p->cap_kl, p->n_kl + 1, sizeof(*p->kl), MEM_APP))
            return err_nomem(p->e, "KL values");
        p->kl[p->n_kl++] = divergence;
        p->n_agree += p->m->kern->argmax(x, V) == p->m->kern->argmax(y, V);
    }
    return 0;
}

static int score_window(struct ppl *p, const int32_t *ids, size_t n)
{
    struct score_request r = {.ids = ids, .n = n, .last = n, .ctx = p};
    int rc = 0;

    p->window = ids;
    p->n_window = n;
    if (p->exact) {
        r.rows = keep_rows;
        rc = score_run(p->exact, &r, p->e);
    }
    r.rows = score_rows;
    return rc ? rc : score_run(p->m, &r, p->e);
}

/* Scores the tokens IDS of the text in windows, each of which begins with PREFIX (BOS, or empty). */
static int score_text(struct ppl *p, const struct tok_ids *ids, const struct tok_ids *prefix)
{
    size_t ctx = p->o->ctx, n = ids->n < p->o->max_tokens ? ids->n : p->o->max_tokens, body;
    struct print_bar bar = {.what = "scoring"};
    int32_t *window;
    int rc = 0;

    if ((rc = input_check_window(ctx, prefix->n, p->m->max_len, p->e)) != 0)
        return rc;
    body = ctx - prefix->n;
    window = mem_zalloc(ctx, sizeof(*window), MEM_APP);
    if (p->exact)
        p->exact_logits = mem_zalloc(ctx * p->m->model.info.vocab, sizeof(float), MEM_APP);
    if (!window || (p->exact && !p->exact_logits))
        rc = err_nomem(p->e, "a window");
    for (size_t at = 0; at < n && rc == 0; at += body) {
        size_t len = n - at < body ? n - at : body;

        if (prefix->n)
            memcpy(window, prefix->id, prefix->n * sizeof(*window));
        memcpy(window + prefix->n, ids->id + at, len * sizeof(*window));
        if (prefix->n + len > 1)
            rc = score_window(p, window, prefix->n + len);
        print_progress(&bar, at + len, n);
    }
    print_bar_end(&bar);
    mem_free(window);
    return rc;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void ppl_print(struct ppl *p, bool json)
{
    double mean = p->nll / (double)p->n, sum = 0;
    json_t *o = json_pack("{s:I,s:f,s:f}", "tokens", (json_int_t)p->n, "nll", mean, "ppl", exp(mean));

    if (!json)
        print_fmt("%zu tokens scored, mean negative log-likelihood %.6f, perplexity %.4f\n", p->n, mean,
                  exp(mean));
    if (p->n_kl) {
        for (size_t i = 0; i < p->n_kl; i++)
            sum += p->kl[i];
        qsort(p->kl, p->n_kl, sizeof(*p->kl), by_size);
        json_object_set_new(o, "kl_mean", json_real(sum / (double)p->n_kl));
        json_object_set_new(o, "kl_p99", json_real(p->kl[(size_t)((double)(p->n_kl - 1) * 0.99)]));
        json_object_set_new(o, "top1_agree", json_real((double)p->n_agree / (double)p->n_kl));
        if (!json)
            print_fmt(
                "KL from fp32: mean %.3e, 99th percentile %.3e; the likeliest token agrees in %.2f %%\n",
                sum / (double)p->n_kl, p->kl[(size_t)((double)(p->n_kl - 1) * 0.99)],
                100.0 * (double)p->n_agree / (double)p->n_kl);
    }
    if (json)
        print_json(json_incref(o));
    json_decref(o);
}

static int score_file(struct ppl *p, const struct buf *text)
{
    struct tok_ids ids = {0}, prefix = {0};
    int rc;

    if (!p->m->tok)
        rc = err_set(p->e, ERR_INPUT, "%s", p->m->tok_missing.msg);
    else if ((rc = tok_encode(p->m->tok, text->data, text->len, 0, &ids, p->e)) == 0 &&
             (rc = input_bos(p->m->tok, &prefix, p->e)) == 0)
        rc = ids.n + prefix.n < 2
                 ? err_set(p->e, ERR_INPUT,
                           "%s: the text has no token to score; at least 2 tokens are needed", p->o->file)
                 : score_text(p, &ids, &prefix);
    tok_ids_fini(&ids);
    tok_ids_fini(&prefix);
    return rc;
}

static int open_engines(struct gallop **g, struct gallop **exact, struct load *l, bool kl, struct err *e)
{
    int rc = load_prepare(l, e);

    if (rc)
        return rc;
    l->o.max_num_seqs = 1;
    l->o.max_logits = WANTED;
    if ((rc = load_engine(l, NULL, g, e)) == 0 && kl) {
        l->o.dtype = "fp32";
        l->o.quant = "none";
        l->o.scales = NULL;
        l->o.kv_cache_dtype = "auto";
        rc = load_engine(l, NULL, exact, e);
    }
    return rc;
}

/* Returns true if the options already select fp32 without quantization, so that --kl would compare equal
 * engines. */
static bool is_exact(const struct gallop_options *o)
{
    return strcmp(o->dtype, "fp32") == 0 && (!o->quant || strcmp(o->quant, "none") == 0) &&
           (strcmp(o->kv_cache_dtype, "auto") == 0 || strcmp(o->kv_cache_dtype, "fp32") == 0);
}

static int ppl_run(const struct opt_values *v, struct err *e)
{
    struct ppl_options o = {.max_tokens = SIZE_MAX};
    struct gallop *g = NULL, *exact = NULL;
    struct ppl p = {.o = &o, .e = e};
    struct buf text;
    int rc;

    load_init(&o.load);
    opt_read(v, &o, sizeof(o));
    if (!o.file)
        return err_set(e, ERR_USAGE, "ppl: --file is missing");
    if (o.kl && is_exact(&o.load.o))
        return err_set(
            e, ERR_USAGE,
            "ppl: --kl compares with fp32, but these options already select fp32; another --dtype, "
            "--kv-cache-dtype or --quant is expected");
    buf_init(&text, MEM_APP);
    if ((rc = input_text(o.file, &text, e)) == 0 && (rc = open_engines(&g, &exact, &o.load, o.kl, e)) == 0) {
        p.m = engine_llm(g);
        p.exact = exact ? engine_llm(exact) : NULL;
        if ((rc = score_file(&p, &text)) == 0)
            ppl_print(&p, o.out.json);
    }
    buf_fini(&text);
    mem_free(p.kl);
    mem_free(p.exact_logits);
    gallop_close(g);
    gallop_close(exact);
    return rc;
}

const struct verb verb_ppl = {
    .name = "ppl",
    .summary = "measure the perplexity of a text",
    .arguments = "--file F [options]",
    .no_words = "options only",
    .manual =
        "Measures the perplexity of a text: the exponential of the mean negative log-likelihood of its tokens. The "
        "text is cut into windows that do not overlap. The first token of a window is not scored; each window begins "
        "with BOS if the tokenizer adds one.",
    .options = (const struct opt_part[]){OPT_PART(struct ppl_options, load, options_model),
                                         OPT_OWN(struct ppl_options, rows),
                                         OPT_PART(struct ppl_options, load, options_source),
                                         OPT_PART(struct ppl_options, load, options_engine),
                                         OPT_PART(struct ppl_options, out, options_json),
                                         OPT_PART(struct ppl_options, out, options_help), OPT_END},
    .run = ppl_run,
};
