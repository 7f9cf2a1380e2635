/* jinja.c - parses and renders templates: sets up and frees the arenas, and sets the limits. */
#include "text/jinja/jinja.h"

#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/utf8.h"
#include "text/jinja/frame.h"
#include "text/jinja/functions.h"
#include "text/jinja/lex.h"
#include "text/jinja/parse.h"
#include "text/jinja/statement.h"
#include "text/jinja/tree.h"
#include "text/jinja/value/json.h"
#include "text/jinja/value/origin.h"
#include "text/jinja/value/rendering.h"
#include "text/jinja/value/text.h"

enum { TEMPLATE_MAX = 1 << 20, STEPS = 50 * 1000 * 1000, BYTES = 256 << 20, TEXT_MAX = 64 << 20 };

static const struct jinja_limits parse_limits = {.steps = STEPS, .bytes = BYTES, .output = 0, .depth = 1000};

static const struct jinja_limits render_limits = {
    .steps = STEPS, .bytes = BYTES, .output = TEXT_MAX, .depth = 2000};

static int check_source(const char *src, size_t len, const char *name, struct err *e)
{
    size_t good = utf8_valid_prefix(src, len), line = 1;

    if (len > TEMPLATE_MAX)
        return err_set(e, ERR_INPUT, "%s: the template has %zu bytes; the maximum is %d", name, len,
                       TEMPLATE_MAX);
    for (size_t i = 0; i < good; i++)
        line += src[i] == '\n';
    if (good == len)
        return 0;
    err_utf8(e, NULL, src, len);
    err_prefix(e, "%s line %zu", name, line);
    return ERR_INPUT;
}

int jinja_parse(struct jinja **out, const char *src, size_t len, const char *name,
                const struct jinja_limits *limit, struct err *e)
{
    struct rendering r = {.limit = limit ? *limit : parse_limits, .e = e, .name = name};
    int rc = check_source(src, len, name, e);
    struct lex_token *tokens;
    struct jinja *j;
    size_t n;

    *out = NULL;
    if (rc)
        return rc;
    j = mem_zalloc(1, sizeof(*j), MEM_TEXT);
    if (!j)
        return err_nomem(e, "a template");
    arena_init(&r.arena, MEM_TEXT);
    /* Rendering errors are sent to clients of the server, which must not see its folder names. */
    j->name = mem_strdup(strrchr(name, '/') ? strrchr(name, '/') + 1 : name, MEM_TEXT);
    if (!j->name)
        r.rc = err_nomem(e, "a template");
    tokens = jinja_lex(&r, src, len, &n);
    if (!r.rc)
        jinja_parse_tokens(&r, j, tokens, n);
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

/* Sets r->outside [name number] to the variable of CONTEXT with that name, else to the built-in function. */
static void bind_outside(struct rendering *r, const struct value_dict *names,
                         const struct value_dict *context)
{
    const struct builtin *function;

    r->outside = jinja_allocate_array(r, names->count, sizeof(*r->outside));
    for (uint32_t i = 0; i < names->count && !r->rc; i++) {
        if (jinja_dict_get(r, context, names->pairs[i].key, &r->outside[i]))
            continue;
        function = jinja_find_row(jinja_functions, names->pairs[i].key);
        if (function)
            r->outside[i] = (struct value){.kind = VALUE_FUNCTION, .function = function};
    }
}

/* Loads the variables of CONTEXT. A variable that equals the same member of OWN (see jinja_render_marked())
 * counts as text of the template. */
static struct value load_context(struct rendering *r, json_t *context)
{
    struct value_dict *d;

    if (!r->origins)
        return jinja_load(r, context);
    d = jinja_dict(r);
    for (void *i = json_object_iter(context); d && i && !r->rc; i = json_object_iter_next(context, i)) {
        struct value name = jinja_string(json_object_iter_key(i), json_object_iter_key_len(i));
        const json_t *v = json_object_iter_value(i), *own = json_object_get(r->origins->own, name.bytes);

        r->origins->trusted = own && json_equal(own, v);
        jinja_dict_set(r, d, name, jinja_load(r, v));
    }
    return jinja_dict_value(d, VALUE_DICT);
}

/* Appends the text to OUT and the origins of its bytes to ORIGIN, or neither if memory runs out. */
static int give(struct rendering *r, const struct text *text, struct buf *out, struct buf *origin)
{
    size_t before = out->len;

    if (text->size)
        buf_add(out, text->bytes, text->size);
    if (origin && !out->oom && buf_reserve(origin, text->size)) {
        for (size_t i = 0; i < text->size; i++)
            buf_char(origin, jinja_origin(r, text->bytes + i));
    }
    if (!out->oom && !(origin && origin->oom))
        return 0;
    out->len = before;
    return err_nomem(r->e, "a rendered template");
}

static int render(const struct jinja *j, json_t *context, struct origin_map *origins, const struct tm *now,
                  const struct jinja_limits *limit, struct buf *out, struct buf *origin, struct err *e)
{
    struct rendering r = {.limit = limit ? *limit : render_limits,
                          .e = e,
                          .name = j->name,
                          .line = 1,
                          .now = now,
                          .template = j,
                          .origins = origins};
    struct text text = {.r = &r, .most = r.limit.output};
    struct value variables;

    if (!json_is_object(context))
        return err_set(e, ERR_INPUT, "%s: the variables of a template must be a JSON object", j->name);
    arena_init(&r.arena, MEM_TEXT);
    variables = load_context(&r, context);
    if (!r.rc)
        bind_outside(&r, j->names, variables.dict);
    r.frame = jinja_frame_open(&r, NULL);
    r.out = &text;
    if (!r.rc)
        jinja_execute(&r, &j->body);
    if (!r.rc)
        r.rc = give(&r, &text, out, origin);
    arena_fini(&r.arena);
    return r.rc;
}

int jinja_render(const struct jinja *j, json_t *context, const struct tm *now,
                 const struct jinja_limits *limit, struct buf *out, struct err *e)
{
    return render(j, context, NULL, now, limit, out, NULL, e);
}

int jinja_render_marked(const struct jinja *j, json_t *context, const json_t *own, const struct tm *now,
                        struct buf *out, struct buf *origin, struct err *e)
{
    struct origin_map *origins = mem_zalloc(1, sizeof(*origins), MEM_TEXT);
    int rc;

    if (!origins)
        return err_nomem(e, "a rendered template");
    origins->own = own;
    rc = render(j, context, origins, now, NULL, out, origin, e);
    jinja_origins_fini(origins);
    mem_free(origins);
    return rc;
}
