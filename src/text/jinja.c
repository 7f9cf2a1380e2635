/* jinja.c - from text to a template, and from a template to text: sets up and takes down the arenas. */
#include "text/jinja.h"

#include <string.h>

#include "base/utf8.h"
#include "text/jinja_act.h"
#include "text/jinja_dict.h"
#include "text/jinja_exec.h"
#include "text/jinja_glob.h"
#include "text/jinja_json.h"
#include "text/jinja_lex.h"
#include "text/jinja_parse.h"
#include "text/jinja_scope.h"
#include "text/jinja_str.h"
#include "text/jinja_tree.h"

enum { TEMPLATE_MAX = 1 << 20, STEPS = 50 * 1000 * 1000, BYTES = 256 << 20, OUTPUT = 64 << 20 };

static const struct jinja_limits parse_limits = {.steps = STEPS, .bytes = BYTES, .output = 0, .depth = 1000};
static const struct jinja_limits render_limits = {
    .steps = STEPS, .bytes = BYTES, .output = OUTPUT, .depth = 2000};

struct jv jinja_tree_block(struct jrun *r, struct jv name)
{
    for (uint32_t i = 0; r->tree && i < r->tree->n_blocks; i++)
        if (jinja_val_same(r->tree->block[i]->u.body->name, name)) {
            struct jv v = jv_of(JV_BLOCK);
            struct jblock *b = jinja_run_alloc(r, sizeof(*b));

            if (!b)
                return jv_none();
            b->index = i;
            v.u.block = b;
            return v;
        }
    return jv_missing();
}

static int check_source(const char *src, size_t len, const char *name, struct err *e)
{
    size_t good = utf8_valid_prefix(src, len), line = 1;

    if (len > TEMPLATE_MAX)
        return err_set(e, ERR_INPUT, "%s: a template of %zu bytes is larger than the %d it may have", name,
                       len, TEMPLATE_MAX);
    for (size_t i = 0; i < good; i++)
        line += src[i] == '\n';
    if (good == len)
        return 0;
    utf8_check(src, len, e);
    err_prefix(e, "%s line %zu", name, line);
    return ERR_INPUT;
}

static void parse(struct jrun *r, struct jinja *j, const char *src, size_t len)
{
    struct jparse *p;
    struct jtoks toks;

    jinja_lex_run(r, src, len, &toks);
    p = jinja_run_zalloc(r, 1, sizeof(*p));
    if (!p)
        return;
    p->r = r;
    p->tok = toks.v;
    p->n = toks.n;
    j->body = jinja_parse_template(p);
    if (!r->rc)
        jinja_scope_resolve(r, j);
}

int jinja_parse(struct jinja **out, const char *src, size_t len, const char *name, struct err *e)
{
    return jinja_parse_within(out, src, len, name, &parse_limits, e);
}

int jinja_parse_within(struct jinja **out, const char *src, size_t len, const char *name,
                       const struct jinja_limits *limit, struct err *e)
{
    struct jrun r = {.limit = *limit, .e = e, .name = name};
    struct jinja *j;
    int rc = check_source(src, len, name, e);

    *out = NULL;
    if (rc)
        return rc;
    j = mem_zalloc(1, sizeof(*j), MEM_TEXT);
    if (!j)
        return err_nomem(e, "a template");
    arena_init(&r.arena, MEM_TEXT);
    j->name = mem_strdup(name, MEM_TEXT);
    if (j->name)
        parse(&r, j, src, len);
    else
        r.rc = err_nomem(e, "a template");
    j->arena = r.arena;
    if (r.rc)
        jinja_free(j);
    else
        *out = j;
    return r.rc;
}

void jinja_free(struct jinja *j)
{
    if (!j)
        return;
    arena_fini(&j->arena);
    mem_free(j->name);
    mem_free(j);
}

static void run(struct jrun *r, const struct jinja *j)
{
    struct jact *a = jinja_act_new(r, &j->fn, NULL);

    if (!a)
        return;
    if (j->uses_self)
        *jinja_act_slot(a, j->self) = jv_of(JV_SELF);
    jinja_act_enter(r, a, &j->scope);
    jinja_exec_list(r, a, &j->body);
}

/* Renders with the variables of CONTEXT, or of the JSON text TEXT where that is NULL. */
static int render(const struct jinja *j, json_t *context, const char *text, size_t len, const char *where,
                  const struct tm *now, const struct jinja_limits *limit, struct buf *out, struct err *e)
{
    struct jrun r = {.limit = *limit, .e = e, .name = j->name, .line = 1, .now = now, .tree = j, .random = 1};
    struct jbuf rendered = {.r = &r, .max = limit->output};
    struct jv variables;

    if (context && !json_is_object(context))
        return err_set(e, ERR_INPUT, "%s: the variables of a template must be a JSON object", j->name);
    arena_init(&r.arena, MEM_TEXT);
    r.globals = jinja_glob_new(&r);
    r.vars = jinja_dict_new(&r);
    variables = r.rc      ? jv_none()
                : context ? jinja_json_load(&r, context)
                          : jinja_json_read(&r, text, len, where);
    if (!r.rc && !jv_is(variables, JV_DICT))
        r.rc = err_set(e, ERR_INPUT, "%s: the variables of a template must be a JSON object",
                       where ? where : j->name);
    r.context = variables.u.dict;
    r.out = &rendered;
    if (!r.rc)
        run(&r, j);
    if (!r.rc && rendered.n)
        buf_add(out, rendered.p, rendered.n);
    if (!r.rc && out->oom)
        r.rc = err_nomem(e, "a rendered template");
    arena_fini(&r.arena);
    return r.rc;
}

int jinja_render(const struct jinja *j, json_t *context, const struct tm *now, struct buf *out, struct err *e)
{
    return render(j, context, NULL, 0, NULL, now, &render_limits, out, e);
}

int jinja_render_text(const struct jinja *j, const char *json, size_t len, const char *where,
                      const struct tm *now, struct buf *out, struct err *e)
{
    return render(j, NULL, json, len, where, now, &render_limits, out, e);
}

int jinja_render_within(const struct jinja *j, json_t *context, const struct tm *now,
                        const struct jinja_limits *limit, struct buf *out, struct err *e)
{
    return render(j, context, NULL, 0, NULL, now, limit, out, e);
}
