/* verb_logits.c - `gallop logits`: computes logits and hidden states of a prompt without generating
 * tokens. */
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "app/input.h"
#include "app/load.h"
#include "app/options.h"
#include "app/print.h"
#include "app/save.h"
#include "app/verb.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/opt.h"
#include "engine/engine.h"
#include "engine/engine_priv.h"
#include "engine/llm.h"
#include "engine/score.h"
#include "lab/npy.h"
#include "model/model.h"
#include "tensor/dtype.h"
#include "text/tok/tok.h"

enum { MAX_WANTED = 128, MAX_TOP = 1024 };
enum { USUAL_STEP = 512 }; /* the default of --max-num-batched-tokens */

struct logits_options {
    struct load load;
    struct options_output out;
    const char *ids, *npy, *hidden;
    size_t top, last, chunk; /* 0: not given */
    bool no_special;
};

#define INTO(member) OPT_INTO(struct logits_options, member)

static const struct opt_row rows[] = {
    {"ids", 0, PARAM_TEXT, "1,2,3", EVERYDAY, .help = "prompt as token ids, instead of text", INTO(ids)},
    {"top", 0, PARAM_INT, "K", EVERYDAY,
     .help = "print the K largest logits of each position and their token ids", .values = "[1,1024]",
     INTO(top)},
    {"npy", 0, PARAM_TEXT, "F", EVERYDAY,
     .help = "write the logits to this file in NumPy's format, float32 [positions, vocabulary]", INTO(npy)},
    {"hidden", 0, PARAM_TEXT, "F", EVERYDAY,
     .help =
         "write the hidden states to this file in NumPy's format, float32 [layers + 1, positions, hidden size]: the "
         "embeddings, then the output of each layer",
     INTO(hidden)},
    {"last", 0, PARAM_INT, "K", EVERYDAY, .help = "print and write logits of the last K positions only",
     .otherwise = "all", .values = "[1,2147483647]", INTO(last)},
    {"no-special", 0, PARAM_FLAG, NULL, PROMPT,
     .help = "do not add BOS or other special tokens to the prompt; token ids of --ids never get any",
     INTO(no_special)},
    {"chunk", 0, PARAM_INT, "N", COMPUTING, .help = "compute the prompt in chunks of N tokens",
     .otherwise = "--max-num-batched-tokens", .values = "[1,65536]", INTO(chunk)},
    {0}};

/* The outputs, to which take_rows() adds the logits of each position. */
struct results {
    struct save npy, hidden;
    bool json;
    size_t first; /* first position whose logits are printed and written */
    size_t top, vocab;
    json_t *list; /* results of --json */
    struct err *e;
};

/* A token and its logit. */
struct ranked {
    int32_t id;
    float v;
};

static int by_value(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->v != y->v)
        return x->v < y->v ? 1 : -1;
    return x->id < y->id ? -1 : 1;
}

/* Writes the K largest of X [n] to OUT in descending order, by insertion into a sorted list. Returns their
 * number. */
static size_t largest(const float *x, size_t n, struct ranked *out, size_t k)
{
    size_t got = 0;

    for (size_t i = 0; i < n; i++) {
        size_t at;

        if (got == k && !(x[i] > out[k - 1].v))
            continue;
        at = got < k ? got++ : k - 1;
        for (; at > 0 && out[at - 1].v < x[i]; at--)
            out[at] = out[at - 1];
        out[at] = (struct ranked){(int32_t)i, x[i]};
    }
    qsort(out, got, sizeof(*out), by_value);
    return got;
}

static int take_top(struct results *o, size_t pos, const float *x)
{
    struct ranked best[MAX_TOP];
    size_t n = largest(x, o->vocab, best, o->top);
    json_t *top;

    if (!dtype_all_finite(x, o->vocab, DT_F32))
        return err_set(o->e, ERR_INPUT, "the logits of position %zu contain an infinity or NaN", pos);
    if (!o->json) {
        print_fmt("%zu:", pos);
        for (size_t i = 0; i < n; i++)
            print_fmt(" %d=%.6g", (int)best[i].id, (double)best[i].v);
        print_text("\n");
        return 0;
    }
    top = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(top, json_pack("[i,f]", (int)best[i].id, (double)best[i].v));
    json_array_append_new(o->list, json_pack("{s:I,s:o}", "pos", (json_int_t)pos, "top", top));
    return 0;
}

/* Callback of score_run(): prints and writes the logits of positions POS to POS + N - 1. */
static int take_rows(void *ctx, size_t pos, size_t n, const float *logits)
{
    struct results *o = ctx;
    int rc = 0;

    if (pos < o->first) { /* these positions were computed for --hidden only */
        size_t skip = o->first - pos < n ? o->first - pos : n;

        pos += skip;
        logits += skip * o->vocab;
        n -= skip;
    }
    if (o->npy.f)
        rc = save_write(&o->npy, logits, n * o->vocab * sizeof(*logits), o->e);
    for (size_t i = 0; i < n && o->top && rc == 0; i++)
        rc = take_top(o, pos + i, logits + i * o->vocab);
    return rc ? rc : print_flush(o->e);
}

static int logits_compute(struct llm *m, const struct logits_options *given, const struct tok_ids *ids,
                          struct err *e)
{
    const struct model_info *i = &m->model.info;
    struct results o = {.json = given->out.json, .vocab = i->vocab, .e = e, .top = given->top};
    struct score_request r = {
        .ids = ids->id, .n = ids->n, .last = ids->n, .chunk = given->chunk, .rows = take_rows, .ctx = &o};
    size_t shape[3] = {i->n_layers + 1, ids->n, i->hidden}, rows_shape[2];
    int rc = 0;

    if (given->last && given->last < ids->n)
        o.first = ids->n - given->last;
    r.last = given->hidden ? ids->n : ids->n - o.first;
    if (given->hidden && !(r.hidden = mem_zalloc(shape[0] * shape[1], shape[2] * sizeof(float), MEM_APP)))
        return err_nomem(e, "hidden states");
    o.list = json_array();
    rows_shape[0] = ids->n - o.first;
    rows_shape[1] = i->vocab;
    if (given->npy)
        rc = npy_create(&o.npy, given->npy, rows_shape, 2, e);
    if (rc == 0 && r.hidden)
        rc = npy_create(&o.hidden, given->hidden, shape, 3, e);
    if (rc == 0)
        rc = score_run(m, &r, e);
    if (rc == 0)
        rc = save_commit(&o.npy, e);
    if (rc == 0 && r.hidden)
        rc = save_write(&o.hidden, r.hidden, shape[0] * shape[1] * shape[2] * sizeof(float), e);
    if (rc == 0)
        rc = save_commit(&o.hidden, e);
    save_abort(&o.npy);
    save_abort(&o.hidden);
    if (rc == 0 && o.json)
        print_json(json_incref(o.list));
    json_decref(o.list);
    mem_free(r.hidden);
    return rc;
}

static int check_combination(const struct logits_options *o, const struct opt_values *v, struct err *e)
{
    const int64_t step = o->load.o.max_batched_tokens;

    if (v->n_args > 1)
        return err_set(e, ERR_USAGE,
                       "found %zu arguments, expected one prompt; a prompt with blanks needs quotes",
                       v->n_args);
    if ((o->ids != NULL) == (v->n_args > 0))
        return err_set(e, ERR_USAGE,
                       o->ids ? "found a prompt as text and --ids, expected one of them"
                              : "the prompt is missing: text or --ids is expected");
    if (o->npy && o->hidden && strcmp(o->npy, o->hidden) == 0 && strcmp(o->npy, "/dev/null") != 0)
        return err_set(e, ERR_USAGE, "--npy and --hidden name the same file %s", o->npy);
    if (step && o->chunk > (size_t)step)
        return err_set(e, ERR_USAGE, "--chunk: found %zu, expected at most --max-num-batched-tokens, %lld",
                       o->chunk, (long long)step);
    if (o->no_special && o->ids)
        log_warn("--no-special changes nothing with --ids, to which special tokens are never added");
    if (o->last && !o->npy && !o->top)
        log_warn("--last changes nothing without --npy or --top");
    return o->ids ? 0 : err_utf8(e, "the prompt", v->args[0], strlen(v->args[0]));
}

static int encode_prompt(const struct llm *m, const char *text, bool no_special, struct tok_ids *ids,
                         struct err *e)
{
    if (!m->tok)
        return err_set(e, ERR_INPUT, "%s", m->tok_missing.msg);
    return tok_encode(m->tok, text, strlen(text), no_special ? 0 : TOK_ADD_SPECIAL, ids, e);
}

static int logits_run(const struct opt_values *v, struct err *e)
{
    struct logits_options o = {.ids = NULL};
    struct gallop_options *engine = &o.load.o;
    struct tok_ids ids = {0};
    struct gallop *g = NULL;
    int rc;

    load_init(&o.load);
    opt_read(v, &o, sizeof(o));
    if ((rc = check_combination(&o, v, e)) != 0 || (o.ids && (rc = input_ids(o.ids, &ids, e)) != 0))
        return rc;
    if ((rc = load_prepare(&o.load, e)) == 0) {
        engine->max_num_seqs = 1;
        /* With --hidden, score_run() returns every position, not only the last ones. */
        engine->max_logits = o.last && !o.hidden && o.last < MAX_WANTED ? (int64_t)o.last : MAX_WANTED;
        if (o.chunk > USUAL_STEP)
            engine->max_batched_tokens = (int64_t)o.chunk;
        rc = load_engine(&o.load, NULL, &g, e);
    }
    if (rc == 0 && !o.ids)
        rc = encode_prompt(engine_llm(g), v->args[0], o.no_special, &ids, e);
    if (rc == 0)
        rc = logits_compute(engine_llm(g), &o, &ids, e);
    if (rc == 0 && !o.npy && !o.hidden && !o.top)
        log_warn("there is no output without --npy, --hidden or --top");
    tok_ids_fini(&ids);
    gallop_close(g);
    return rc;
}

const struct verb verb_logits = {
    .name = "logits",
    .summary = "compute the logits of a prompt without generating",
    .arguments = "[options] [\"prompt\"]",
    .manual =
        "Computes the logits, and with --hidden the hidden states, of all positions of a prompt without generating "
        "tokens. An existing output file is replaced when the new file is complete.",
    .options = (const struct opt_part[]){OPT_PART(struct logits_options, load, options_model),
                                         OPT_OWN(struct logits_options, rows),
                                         OPT_PART(struct logits_options, load, options_source),
                                         OPT_PART(struct logits_options, load, options_engine),
                                         OPT_PART(struct logits_options, out, options_json),
                                         OPT_PART(struct logits_options, out, options_help), OPT_END},
    .run = logits_run,
};
