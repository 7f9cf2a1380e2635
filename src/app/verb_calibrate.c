/* verb_calibrate.c - `gallop calibrate`: runs the model with int8 linears on a text, and writes statistics of
 * the inputs of each linear (model/calibration.h): for int8-static the absolute maximum that maps to 127, for
 * int4 the covariances that GPTQ needs. */
#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#include "app/input.h"
#include "app/load.h"
#include "app/options.h"
#include "app/print.h"
#include "app/save.h"
#include "app/verb.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/opt.h"
#include "base/strmap.h"
#include "engine/engine.h"
#include "engine/engine_priv.h"
#include "engine/llm.h"
#include "engine/score.h"
#include "model/calibration.h"
#include "model/model.h"
#include "ops/gptq.h"
#include "ops/linear.h"
#include "ops/linear_backend.h"
#include "tensor/dtype.h"
#include "text/tok/tok.h"

enum { WANTED = 64 }; /* maximum number of tokens in a step whose logits are computed */

struct calibrate_options {
    struct load load;
    struct options_output out;
    const char *file, *output;
    size_t ctx, max_tokens;
    bool ctx_given;
};

#define INTO(member) OPT_INTO(struct calibrate_options, member)

static const struct opt_row rows[] = {
    {"file", 0, PARAM_TEXT, "F", EVERYDAY,
     .help = "file with text like that which the model will process later (-: standard input)", INTO(file)},
    {"output", 'o', PARAM_TEXT, "SCALES", EVERYDAY, .help = "file to write the statistics to", INTO(output)},
    {"ctx", 0, PARAM_INT, "N", EVERYDAY, .help = "number of tokens of the windows that the text is cut into",
     .fallback = "512", .values = "[2,1048576]", OPT_INTO(struct calibrate_options, ctx),
     OPT_SOURCE(struct calibrate_options, ctx_given)},
    {"max-tokens", 0, PARAM_INT, "N", EVERYDAY, .help = "read only the first N tokens of the text",
     .fallback = "20000", .values = "[2,2147483647]", INTO(max_tokens)},
    {0}};

/* A run of the verb. */
struct calibrate {
    const struct calibrate_options *o;
    struct llm *m;
    size_t *first; /* [n_linears] index of the first linear with the same name; experts share names */
    struct linear_seen *seen; /* [n_linears] statistics, shared by linears of one name: at index first[i] */
    bool rounding;            /* int4: collect the sums in GPTQ */
    float **gptq;             /* [n_linears] GPTQ's sums, at the same indices as SEEN */
    struct err *e;
};

static bool is_counted(const struct linear *l)
{
    return l->dtype == DT_I8 && !l->part_panels[0] && !l->group;
}

/* Finds the first linear of each name; the linears of experts alternate between two names. */
static int find_first(struct calibrate *c)
{
    const struct model *m = &c->m->model;
    struct strmap names;
    bool room = true;

    strmap_init(&names, MEM_APP);
    for (size_t i = 0; i < m->n_linears && room; i++) {
        const char *name = m->linear[i]->name;
        uint64_t first = i;

        room = strmap_put(&names, name, strlen(name), i) >= 0;
        strmap_get(&names, name, strlen(name), &first);
        c->first[i] = (size_t)first;
    }
    strmap_fini(&names);
    return room ? 0 : err_nomem(c->e, "the names of linears");
}

/* Allocates GPTQ's sums for linear I, and memory for its input vectors of CTX tokens. */
static int open_gptq(struct calibrate *c, size_t i, size_t ctx)
{
    size_t k = c->m->model.linear[i]->k;

    c->gptq[i] = mem_zalloc(gptq_numbers(k), sizeof(float), MEM_APP);
    c->seen[i].kept = mem_alloc(ctx * k * sizeof(float), MEM_APP);
    c->seen[i].most = ctx;
    return c->gptq[i] && c->seen[i].kept ? 0 : err_nomem(c->e, "the covariances of inputs");
}

static int watch(struct calibrate *c, size_t ctx)
{
    const struct model *m = &c->m->model;
    int rc;

    c->first = mem_zalloc(m->n_linears, sizeof(*c->first), MEM_APP);
    c->seen = mem_zalloc(m->n_linears, sizeof(*c->seen), MEM_APP);
    c->gptq = mem_zalloc(m->n_linears, sizeof(*c->gptq), MEM_APP);
    if (!c->first || !c->seen || !c->gptq)
        return err_nomem(c->e, "statistics of linears");
    if ((rc = find_first(c)) != 0)
        return rc;
    for (size_t i = 0; i < m->n_linears; i++) {
        if (!is_counted(m->linear[i]))
            continue;
        if (m->linear[i]->backend->flags & LINEAR_OWN_INPUT)
            return err_set(c->e, ERR_UNSUPPORTED,
                           "%s: backend %s collects no statistics; expected gallop or native in --op-config",
                           m->linear[i]->name, m->linear[i]->backend->name);
        m->linear[i]->seen = &c->seen[c->first[i]];
        if (c->rounding && c->first[i] == i && (rc = open_gptq(c, i, ctx)) != 0)
            return rc;
    }
    return 0;
}

/* Adds the input vectors that the linears got in a window to GPTQ's sums. Experts that share a name may
 * together get more vectors than the window has tokens; the excess vectors are left out. */
static void add_rows(struct calibrate *c)
{
    const struct model *m = &c->m->model;

    for (size_t i = 0; i < m->n_linears; i++) {
        struct linear_seen *s = &c->seen[i];

        if (!c->gptq[i])
            continue;
        gptq_add(c->m->pool, c->gptq[i], s->kept, s->n < s->most ? s->n : s->most, m->linear[i]->k);
        s->n = 0;
    }
}

/* Receives logits and ignores them. They are computed for the statistics of the language model head. */
static int ignore(void *ctx, size_t pos, size_t n, const float *logits)
{
    (void)ctx;
    (void)pos;
    (void)n;
    (void)logits;
    return 0;
}

/* Runs the model on IDS in windows of CTX tokens, each of which begins with PREFIX. */
static int read_text(struct calibrate *c, const struct tok_ids *ids, const struct tok_ids *prefix, size_t ctx)
{
    struct print_bar bar = {.what = "reading"};
    struct tok_ids window = {0};
    int rc = 0;

    for (size_t at = 0; at < ids->n && rc == 0; at += ctx - prefix->n) {
        window.n = 0;
        for (size_t i = 0; i < ctx && rc == 0; i++) {
            if (i >= prefix->n && at + i - prefix->n >= ids->n)
                break;
            if (!input_add_id(&window, i < prefix->n ? prefix->id[i] : ids->id[at + i - prefix->n]))
                rc = err_nomem(c->e, "a window");
        }
        if (rc == 0)
            rc = score_run(
                c->m,
                &(struct score_request){.ids = window.id, .n = window.n, .last = window.n, .rows = ignore},
                c->e);
        add_rows(c);
        print_progress(&bar, at + window.n, ids->n);
    }
    print_bar_end(&bar);
    tok_ids_fini(&window);
    return rc;
}

/* Returns the window length: at most the context length, unless --ctx is given. */
static size_t window_tokens(const struct calibrate *c)
{
    return !c->o->ctx_given && c->o->ctx > c->m->max_len ? c->m->max_len : c->o->ctx;
}

static int read_file(struct calibrate *c, const struct buf *text, size_t *n)
{
    size_t ctx = window_tokens(c), most = c->o->max_tokens;
    struct tok_ids ids = {0}, prefix = {0};
    int rc;

    if (!c->m->tok)
        rc = err_set(c->e, ERR_INPUT, "%s", c->m->tok_missing.msg);
    else if ((rc = tok_encode(c->m->tok, text->data, text->len, 0, &ids, c->e)) == 0 &&
             (rc = input_bos(c->m->tok, &prefix, c->e)) == 0) {
        ids.n = ids.n < most ? ids.n : most;
        *n = ids.n;
        if (ids.n == 0)
            rc = err_set(c->e, ERR_INPUT, "%s: the text is empty", c->o->file);
        else if ((rc = input_check_window(ctx, prefix.n, c->m->max_len, c->e)) == 0)
            rc = read_text(c, &ids, &prefix, ctx);
    }
    tok_ids_fini(&ids);
    tok_ids_fini(&prefix);
    return rc;
}

/* Returns the contents of the file for int8-static. Sets *N to the number of linears in the file, and *OPEN
 * to the number of them without a static scale, whose inputs keep a dynamic scale for each token. */
static json_t *found(const struct calibrate *c, size_t n_tokens, size_t *n, size_t *open)
{
    const struct model *m = &c->m->model;
    json_t *linears = json_object();

    *n = *open = 0;
    for (size_t i = 0; i < m->n_linears; i++) {
        float largest;

        if (!is_counted(m->linear[i]) || c->first[i] != i)
            continue;
        largest = calibration_find(&c->seen[i], m->linear[i]->k);
        *n += 1;
        *open += largest <= 0;
        json_object_set_new(
            linears, m->linear[i]->name,
            json_pack("{s:I,s:f}", "columns", (json_int_t)m->linear[i]->k, "largest", (double)largest));
    }
    return json_pack("{s:s,s:i,s:I,s:o}", "format", "gallop scales", "version", 1, "tokens",
                     (json_int_t)n_tokens, "linears", linears);
}

static int write_file(const struct calibrate *c, size_t n_tokens)
{
    const char *path = c->o->output;
    size_t n, open;
    json_t *o = found(c, n_tokens, &n, &open);
    char *text = json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    struct save s;
    int rc = text ? save_open(&s, path, c->o->out.force, c->e) : err_nomem(c->e, path);

    if (rc == 0 && ((rc = save_write(&s, text, strlen(text), c->e)) != 0 ||
                    (rc = save_write(&s, "\n", 1, c->e)) != 0 || (rc = save_commit(&s, c->e)) != 0))
        save_abort(&s);
    if (rc == 0 && c->o->out.json)
        print_json(json_pack("{s:o,s:I,s:I,s:I}", "file", print_json_text(path), "tokens",
                             (json_int_t)n_tokens, "linears", (json_int_t)n, "dynamic", (json_int_t)open));
    else if (rc == 0 && !c->o->out.quiet)
        print_fmt("%s: %zu linears from %zu tokens; %zu keep a scale for each row\n", path, n, n_tokens,
                  open);
    mem_free(text);
    json_decref(o);
    return rc;
}

/* ---- the file for int4 ---- */

/* Describes the tensor with GPTQ's sums for the linear L in the safetensors HEADER, at the offset *BYTES, and
 * advances *BYTES by its size. */
static int add_header(json_t *header, const struct linear *l, size_t *bytes, struct err *e)
{
    char name[256];
    size_t n = gptq_numbers(l->k) * sizeof(float);
    json_t *o = json_pack("{s:s,s:[I],s:[I,I]}", "dtype", "F32", "shape", (json_int_t)(n / sizeof(float)),
                          "data_offsets", (json_int_t)*bytes, (json_int_t)(*bytes + n));

    *bytes += n;
    snprintf(name, sizeof(name), "%s" CALIBRATION_GPTQ, l->name);
    return json_object_set_new(header, name, o) == 0 ? 0 : err_nomem(e, "the header");
}

static int write_header(const struct calibrate *c, struct save *s, size_t n_tokens, size_t *n)
{
    const struct model *m = &c->m->model;
    json_t *header = json_object();
    size_t bytes = 0;
    char tokens[24];
    int rc = 0;

    *n = 0;
    for (size_t i = 0; i < m->n_linears && rc == 0; i++)
        if (c->gptq[i]) {
            rc = add_header(header, m->linear[i], &bytes, c->e);
            *n += 1;
        }
    snprintf(tokens, sizeof(tokens), "%zu", n_tokens);
    json_object_set_new(header, "__metadata__",
                        json_pack("{s:s,s:s}", "format", "gallop feedback", "tokens", tokens));
    if (rc == 0)
        rc = save_safetensors_header(s, header, c->e);
    json_decref(header);
    return rc;
}

static int write_gptq(const struct calibrate *c, size_t n_tokens)
{
    const char *path = c->o->output;
    const struct model *m = &c->m->model;
    struct save s;
    size_t n = 0;
    int rc = save_open(&s, path, c->o->out.force, c->e);

    if (rc)
        return rc;
    rc = write_header(c, &s, n_tokens, &n);
    for (size_t i = 0; i < m->n_linears && rc == 0; i++)
        if (c->gptq[i]) {
            gptq_make(c->m->pool, c->gptq[i], m->linear[i]->k);
            rc = save_write(&s, c->gptq[i], gptq_numbers(m->linear[i]->k) * sizeof(float), c->e);
        }
    if (rc || (rc = save_commit(&s, c->e)) != 0)
        save_abort(&s);
    if (rc == 0 && c->o->out.json)
        print_json(json_pack("{s:o,s:I,s:I}", "file", print_json_text(path), "tokens", (json_int_t)n_tokens,
                             "linears", (json_int_t)n));
    else if (rc == 0 && !c->o->out.quiet)
        print_fmt("%s: %zu linears from %zu tokens\n", path, n, n_tokens);
    return rc;
}

static void forget(struct calibrate *c)
{
    for (size_t i = 0; i < c->m->model.n_linears; i++) {
        if (c->seen)
            mem_free(c->seen[i].kept);
        if (c->gptq)
            mem_free(c->gptq[i]);
    }
    mem_free(c->gptq);
    mem_free(c->seen);
    mem_free(c->first);
}

static int calibrate_file(struct calibrate *c, struct load *l, const struct buf *text)
{
    struct gallop *g = NULL;
    size_t n_tokens = 0;
    int rc = load_prepare(l, c->e);

    l->o.max_num_seqs = 1;
    l->o.max_logits = WANTED;
    l->o.quant = "int8";
    if (rc == 0 && (rc = load_engine(l, NULL, &g, c->e)) == 0) {
        c->m = engine_llm(g);
        if ((rc = watch(c, window_tokens(c))) == 0 && (rc = read_file(c, text, &n_tokens)) == 0)
            rc = c->rounding ? write_gptq(c, n_tokens) : write_file(c, n_tokens);
        forget(c);
    }
    gallop_close(g);
    return rc;
}

static int calibrate_run(const struct opt_values *v, struct err *e)
{
    struct calibrate_options o = {.file = NULL};
    struct calibrate c = {.o = &o, .e = e};
    struct buf text = {.tag = MEM_APP};
    const char *quant;
    int rc;

    load_init(&o.load);
    opt_read(v, &o, sizeof(o));
    quant = o.load.o.quant;
    if (!o.file || !o.output)
        return err_set(e, ERR_USAGE, "calibrate: --file and -o are needed");
    c.rounding = quant && strncmp(quant, "int4", 4) == 0;
    if (quant && !c.rounding && strcmp(quant, "int8-static") != 0)
        return err_set(e, ERR_USAGE, "calibrate: --quant: found '%s', expected int8-static or int4", quant);
    if ((rc = input_text(o.file, &text, e)) == 0)
        rc = calibrate_file(&c, &o.load, &text);
    buf_fini(&text);
    return rc;
}

const struct verb verb_calibrate = {
    .name = "calibrate",
    .summary = "collect activation statistics for --quant int8-static and int4",
    .arguments = "-m MODEL --file F -o SCALES [--quant int4] [options]",
    .no_words = "options only",
    .manual =
        "Runs the model on a text and writes statistics of the inputs of each linear to a file, which is given to "
        "--scales later. The text should resemble the later use and have 10000 tokens or more.\n"
        "For int8-static (the default) the file is JSON and holds one input scale for each linear, namely the scale "
        "with the smallest total error of rounding and clipping. A linear with a few inputs that are many times "
        "larger than the rest, as those of the first token often are, gets none: its inputs keep a scale for each "
        "row. With --quant int4 the file is in the safetensors format and holds the covariances of the inputs, with "
        "which GPTQ carries the rounding error of a weight to the weights after it.",
    .options = (const struct opt_part[]){OPT_PART(struct calibrate_options, load, options_model),
                                         OPT_OWN(struct calibrate_options, rows),
                                         OPT_PART(struct calibrate_options, load, options_source),
                                         OPT_PART(struct calibrate_options, load, options_engine),
                                         OPT_PART(struct calibrate_options, out, options_force),
                                         OPT_PART(struct calibrate_options, out, options_json),
                                         OPT_PART(struct calibrate_options, out, options_help), OPT_END},
    .run = calibrate_run,
};
