/* jinja_macro.c - binds arguments as Jinja's Macro does and runs the body into a string. */
#include "text/jinja_macro.h"

#include "text/jinja_dict.h"
#include "text/jinja_eval.h"
#include "text/jinja_exec.h"
#include "text/jinja_repr.h"
#include "text/jinja_str.h"

struct jv jinja_macro_value(struct jrun *r, const struct jn *node, struct jact *act)
{
    struct jv v = jv_of(JV_MACRO);
    struct jmacro *m = jinja_run_alloc(r, sizeof(*m));

    if (!m)
        return jv_none();
    *m = (struct jmacro){.node = node, .act = act};
    v.u.macro = m;
    return v;
}

/* Keyword arguments of one call, of which parameters take theirs. */
struct keywords {
    const struct jargs *a;
    bool *taken;
};

static struct jv take(struct keywords *k, struct jv name)
{
    for (size_t i = 0; i < k->a->n_kw; i++)
        if (!k->taken[i] && jinja_val_same(k->a->kw[i].name, name)) {
            k->taken[i] = true;
            return k->a->kw[i].value;
        }
    return jv_missing();
}

static void refuse_keyword(struct jrun *r, const struct jn_macro *m, struct jv name)
{
    const char *macro = jinja_repr_brief(r, m->name);

    if (jinja_str_is(name, "caller"))
        jinja_run_fail(
            r,
            "macro %s was invoked with two values for the special caller argument. This is most likely a "
            "bug.",
            macro);
    else
        jinja_run_fail(r, "macro %s takes no keyword argument %s", macro, jinja_repr_brief(r, name));
}

/* What is left of the keyword arguments: a dict for the variable kwargs, or an error. */
static void bind_rest(struct jrun *r, const struct jn_macro *m, struct jact *act, struct keywords *k)
{
    struct jdict *rest = m->uses_kwargs ? jinja_dict_new(r) : NULL;
    size_t n = m->params.n;

    for (size_t i = 0; i < k->a->n_kw && !r->rc; i++) {
        if (k->taken[i])
            continue;
        if (rest)
            jinja_dict_set(r, rest, k->a->kw[i].name, k->a->kw[i].value);
        else
            refuse_keyword(r, m, k->a->kw[i].name);
    }
    if (rest)
        *jinja_act_slot(act, m->kwargs) = jinja_dict_value(rest);
    if (m->uses_varargs)
        *jinja_act_slot(act, m->varargs) =
            k->a->n > n ? jinja_val_tuple(r, k->a->v + n, k->a->n - n) : jinja_val_tuple(r, NULL, 0);
    else if (k->a->n > n)
        jinja_run_fail(r, "macro %s takes not more than %zu argument(s)", jinja_repr_brief(r, m->name), n);
}

static void bind(struct jrun *r, const struct jn_macro *m, struct jact *act, const struct jargs *a)
{
    struct keywords k = {.a = a, .taken = jinja_run_zalloc(r, a->n_kw + 1, sizeof(bool))};
    bool found_caller = a->n >= m->params.n && m->explicit_caller;
    struct jv v;

    if (!k.taken)
        return;
    for (size_t i = 0; i < m->params.n; i++) {
        const struct jn *param = m->params.v[i];

        v = i < a->n ? a->v[i] : take(&k, param->u.name.id);
        found_caller |= i >= a->n && jinja_str_is(param->u.name.id, "caller");
        *jinja_act_slot(act, param->u.name.ref) = v;
    }
    if (m->uses_caller && !found_caller) {
        v = take(&k, jinja_str_lit(r, "caller"));
        if (jv_is(v, JV_MISSING) || jv_is(v, JV_NONE))
            v = jinja_val_undef_hint(r, "No caller defined");
        *jinja_act_slot(act, m->caller) = v;
    }
    bind_rest(r, m, act, &k);
}

static struct jv not_provided(struct jrun *r, struct jv name)
{
    struct jbuf b = {.r = r};

    jinja_str_puts(&b, "parameter ");
    jinja_repr_put(&b, name);
    jinja_str_puts(&b, " was not provided");
    jinja_str_putc(&b, 0);
    return r->rc ? jv_none() : jinja_val_undef_hint(r, b.p);
}

static void fill_defaults(struct jrun *r, const struct jn_macro *m, struct jact *act)
{
    size_t required = m->params.n - m->defaults.n;

    for (size_t i = 0; i < m->params.n && !r->rc; i++) {
        struct jv *slot = jinja_act_slot(act, m->params.v[i]->u.name.ref);

        if (!jv_is(*slot, JV_MISSING))
            continue;
        *slot = i < required ? not_provided(r, m->params.v[i]->u.name.id)
                             : jinja_eval(r, act, m->defaults.v[i - required]);
    }
}

struct jv jinja_macro_call(struct jrun *r, const struct jmacro *macro, const struct jargs *a)
{
    const struct jn_macro *m = macro->node->u.macro;
    struct jv text = jv_none();
    enum jflow flow;
    struct jact *act;

    if (!jinja_run_enter(r))
        return text;
    act = jinja_act_new(r, &m->fn, macro->act);
    if (act)
        bind(r, m, act, a);
    if (!r->rc) {
        jinja_act_enter(r, act, &m->scope);
        fill_defaults(r, m, act);
    }
    if (!r->rc)
        text = jinja_exec_capture(r, act, &m->body, &flow);
    jinja_act_done(r, &m->fn, act);
    jinja_run_leave(r);
    if (r->autoescape && jv_is(text, JV_STR))
        text.flags = JV_MARKUP;
    return text;
}

struct jv jinja_macro_attr(struct jrun *r, const struct jmacro *macro, const struct jstr *name)
{
    const struct jn_macro *m = macro->node->u.macro;
    struct jgrow g = {.r = r};
    struct jv key = jv_of(JV_STR);

    key.u.str = name;
    if (jinja_str_is(key, "name"))
        return m->name;
    if (jinja_str_is(key, "caller"))
        return jv_bool(m->uses_caller);
    if (jinja_str_is(key, "catch_kwargs"))
        return jv_bool(m->uses_kwargs);
    if (jinja_str_is(key, "catch_varargs"))
        return jv_bool(m->uses_varargs);
    if (jinja_str_is(key, "explicit_caller"))
        return jv_bool(m->explicit_caller);
    if (!jinja_str_is(key, "arguments"))
        return jv_missing();
    for (size_t i = 0; i < m->params.n; i++)
        if (!jinja_val_push(&g, m->params.v[i]->u.name.id))
            break;
    return jinja_val_done(&g, JV_TUPLE);
}

void jinja_macro_put(struct jbuf *b, const struct jmacro *macro)
{
    const struct jn_macro *m = macro->node->u.macro;

    jinja_str_puts(b, "<Macro ");
    if (jv_is(m->name, JV_STR))
        jinja_repr_put(b, m->name);
    else
        jinja_str_puts(b, "anonymous");
    jinja_str_putc(b, '>');
}
