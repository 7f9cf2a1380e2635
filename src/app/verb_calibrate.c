/* verb_calibrate.c - `gallop calibrate`: reads a text with int8 linears, and writes for each of them the size
 * that 127 shall stand for in its inputs (model/scales.h). */
#include <string.h>

#include "app/app.h"
#include "base/mem.h"
#include "engine/score.h"

enum { WANTED = 64 }; /* rows of logits in a step */

static const struct opt_row rows[] = {
    {"file", 0, OPT_STRING, "F", EVERYDAY, .help = "a text like those that will be read (-: standard input)"},
    {"output", 'o', OPT_STRING, "SCALES", EVERYDAY, .help = "the file that is written"},
    {"ctx", 0, OPT_INT, "N", EVERYDAY, .help = "tokens that are read at a time", .fallback = "512",
     .range = "[2,1048576]"},
    {"max-tokens", 0, OPT_INT, "N", EVERYDAY, .help = "only the first N tokens of the text",
     .fallback = "20000", .range = "[2,2147483647]"},
    {0}};

struct calibrate {
    struct llm *m;
    struct linear_seen *seen; /* [linears of the model]; those of one name, as experts, share the first */
    struct err *e;
};

static bool is_counted(const struct linear *l)
{
    return l->dtype == DT_I8 && !l->part_panels[0] && !l->group;
}

/* The first linear that has the name of linear I. */
static size_t first_of(const struct model *m, size_t i)
{
    size_t first = i;

    while (first > 0 && strcmp(m->linear[first - 1]->name, m->linear[i]->name) == 0)
        first--;
    return first;
}

static int watch(struct calibrate *c)
{
    const struct model *m = &c->m->model;

    c->seen = mem_zalloc(m->n_linears, sizeof(*c->seen), MEM_APP);
    if (!c->seen)
        return err_nomem(c->e, "what is counted");
    for (size_t i = 0; i < m->n_linears; i++) {
        if (!is_counted(m->linear[i]))
            continue;
        if (m->linear[i]->backend->own_in)
            return err_set(c->e, ERR_UNSUPPORTED,
                           "%s: backend %s counts no rows of the input; calibrate with gallop or native",
                           m->linear[i]->name, m->linear[i]->backend->name);
        m->linear[i]->seen = &c->seen[first_of(m, i)];
    }
    return 0;
}

/* The head is counted too, so logits are asked for. */
static int ignore(void *ctx, size_t pos, size_t n, const float *logits)
{
    (void)ctx;
    (void)pos;
    (void)n;
    (void)logits;
    return 0;
}

/* Windows of CTX tokens with PREFIX in front; what they count stays in C. */
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
        print_progress(&bar, at + window.n, ids->n);
    }
    print_bar_end(&bar);
    tok_ids_fini(&window);
    return rc;
}

static int read_file(struct calibrate *c, const struct buf *text, const struct opt_values *v, size_t *n)
{
    size_t ctx = (size_t)opt_int(v, "ctx"), most = (size_t)opt_int(v, "max-tokens");
    struct tok_ids ids = {0}, prefix = {0};
    int rc;

    if (!c->m->tok)
        rc = err_set(c->e, ERR_INPUT, "%s", c->m->tok_missing.msg);
    else if ((rc = tok_encode(c->m->tok, text->data, text->len, 0, &ids, c->e)) == 0 &&
             (rc = input_bos(c->m->tok, &prefix, c->e)) == 0) {
        ids.n = ids.n < most ? ids.n : most;
        *n = ids.n;
        if (ids.n == 0)
            rc = err_set(c->e, ERR_INPUT, "%s: the text is empty", opt_string(v, "file"));
        else if (prefix.n >= ctx)
            rc = err_set(c->e, ERR_INPUT, "--ctx %zu has no room for text", ctx);
        else
            rc = read_text(c, &ids, &prefix, ctx);
    }
    tok_ids_fini(&ids);
    tok_ids_fini(&prefix);
    return rc;
}

/* What was found, as the file has it; *OPEN counts the linears whose rows keep scales of their own. */
static json_t *found(const struct calibrate *c, size_t n_tokens, size_t *n, size_t *open)
{
    const struct model *m = &c->m->model;
    json_t *linears = json_object();

    *n = *open = 0;
    for (size_t i = 0; i < m->n_linears; i++) {
        float largest;

        if (!is_counted(m->linear[i]) || first_of(m, i) != i)
            continue;
        largest = scales_find(&c->seen[i], m->linear[i]->k);
        *n += 1;
        *open += largest <= 0;
        json_object_set_new(
            linears, m->linear[i]->name,
            json_pack("{s:I,s:f}", "columns", (json_int_t)m->linear[i]->k, "largest", (double)largest));
    }
    return json_pack("{s:s,s:i,s:I,s:o}", "format", "gallop scales", "version", 1, "tokens",
                     (json_int_t)n_tokens, "linears", linears);
}

static int write_file(const struct calibrate *c, size_t n_tokens, const struct opt_values *v)
{
    const char *path = opt_string(v, "output");
    size_t n, open;
    json_t *o = found(c, n_tokens, &n, &open);
    char *text = json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    struct save s;
    int rc = text ? save_open(&s, path, opt_flag(v, "force"), c->e) : err_nomem(c->e, path);

    if (rc == 0 && ((rc = save_write(&s, text, strlen(text), c->e)) != 0 ||
                    (rc = save_write(&s, "\n", 1, c->e)) != 0 || (rc = save_commit(&s, c->e)) != 0))
        save_abort(&s);
    if (rc == 0 && opt_flag(v, "json"))
        print_json(json_pack("{s:s,s:I,s:I,s:I}", "file", path, "tokens", (json_int_t)n_tokens, "linears",
                             (json_int_t)n, "dynamic", (json_int_t)open));
    else if (rc == 0 && !opt_flag(v, "quiet"))
        print_fmt("%s: %zu linears from %zu tokens; %zu keep a scale for each row\n", path, n, n_tokens,
                  open);
    mem_free(text);
    json_decref(o);
    return rc;
}

static int open_model(struct gallop **g, const struct opt_values *v, struct err *e)
{
    struct load l;
    int rc = load_options(v, &l, e);

    if (rc)
        return rc;
    l.o.max_num_seqs = 1;
    l.o.max_logits = WANTED;
    l.o.quant = "int8";
    return load_engine(&l, NULL, g, e);
}

static int run(const struct opt_values *v, struct err *e)
{
    struct calibrate c = {.e = e};
    struct gallop *g = NULL;
    size_t n_tokens = 0;
    struct buf text;
    int rc;

    if (!opt_given(v, "file") || !opt_given(v, "output"))
        return err_set(e, ERR_USAGE, "calibrate: --file and -o are needed");
    if (opt_given(v, "quant"))
        return err_set(e, ERR_USAGE,
                       "calibrate: --quant is that of what runs with the scales; it is int8 here");
    buf_init(&text, MEM_APP);
    if ((rc = input_text(opt_string(v, "file"), &text, e)) == 0 && (rc = open_model(&g, v, e)) == 0) {
        c.m = gallop_llm(g);
        if ((rc = watch(&c)) == 0 && (rc = read_file(&c, &text, v, &n_tokens)) == 0)
            rc = write_file(&c, n_tokens, v);
    }
    buf_fini(&text);
    gallop_close(g);
    mem_free(c.seen);
    return rc;
}

const struct verb verb_calibrate = {
    .name = "calibrate",
    .summary = "scales for --quant int8-static, from a text",
    .arguments = "-m MODEL --file F -o SCALES [options]",
    .no_words = "options only",
    .manual =
        "Reads a text with int8 linears and writes for each of them the size of its inputs that the largest integer "
        "shall stand for: the one at which rounding all rows and cutting off the largest errs least. Where a few rows "
        "are many times as large as the rest, as a first token's often are, rows keep scales of their own. The file "
        "is JSON; --scales names it.",
    .options = (const struct opt_row *const[]){options_model, rows, options_source, options_engine,
                                               options_force, options_json, options_help, NULL},
    .run = run,
};
