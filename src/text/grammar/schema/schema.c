/* schema.c - compiles a schema: reads the options, defines the rules of all terms, and reports the result. */
#include "text/grammar/schema/schema.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "text/grammar/automata/pattern.h"
#include "text/grammar/free_text.h"
#include "text/grammar/schema/schema_items.h"
#include "text/grammar/schema/schema_properties.h"
#include "text/grammar/schema/schema_read.h"
#include "text/grammar/schema/schema_refs.h"
#include "text/grammar/schema/schema_value.h"

/* Defines the bodies of all rules that expressions call. */
static void define_rules(struct schema_compiler *c)
{
    while (c->n_queue > 0 && schema_work(c, 1)) {
        uint32_t term = c->queue[--c->n_queue], *of;
        const struct schema_form *f = c->term[term].form;
        size_t n = 0;

        of = schema_alloc(c, 1 + f->arrays.n + f->objects.n, sizeof(*of));
        if (!of)
            return;
        c->at = c->term[term].kind == SCHEMA_TERM_RAW ? c->term[term].json : c->root;
        of[n++] = grammar_term(c->g, schema_scalars(c, f));
        for (size_t i = 0; i < f->arrays.n; i++)
            of[n++] = schema_items(c, f->arrays.of[i]);
        for (size_t i = 0; i < f->objects.n; i++)
            of[n++] = schema_properties(c, f->objects.of[i]);
        grammar_define(c->g, c->term[term].rule - 1, grammar_choice(c->g, of, n));
    }
}

/* ---- the places of rules ---- */

/* The rule of a schema. */
struct origin {
    const json_t *json;
    uint32_t rule;
};

struct origins {
    struct schema_compiler *c;
    struct origin *of; /* [n] sorted by JSON */
    size_t n, n_visited;
    size_t n_bytes; /* bytes of the pointers so far */
};

static int compare_origins(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const struct origin *)a)->json,
              y = (uintptr_t)((const struct origin *)b)->json;

    return (x > y) - (x < y);
}

/* Appends RULE, whose schema is at the JSON pointer B, to the report of C. */
static void report_rule(struct schema_compiler *c, uint32_t rule, const struct buf *b)
{
    struct schema_report *r = c->report;
    size_t n = b->len < SCHEMA_POINTER_BYTES ? b->len : SCHEMA_POINTER_BYTES - 1;
    char *pointer = mem_strndup(b->len ? b->data : "", n, MEM_TEXT);

    if (!pointer || !schema_reserve(c, (void **)&r->rule, &r->cap_rules, r->n_rules, sizeof(*r->rule))) {
        mem_free(pointer);
        schema_no_memory(c);
        return;
    }
    r->rule[r->n_rules++] = (struct schema_rule){rule, pointer};
}

/* Reports the rules of the schema V at the JSON pointer B. True: no further rules are reported. */
static bool visit_schema(void *ctx, const json_t *v, struct buf *b)
{
    struct origins *o = ctx;
    size_t low = 0, high = o->n;

    o->n_visited += 1 + json_array_size(v) + json_object_size(v);
    while (low < high) {
        size_t middle = (low + high) / 2;

        if ((uintptr_t)o->of[middle].json < (uintptr_t)v)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < o->n && o->of[low].json == v; low++) {
        report_rule(o->c, o->of[low].rule, b);
        o->n_bytes += b->len + 1;
    }
    return o->c->rc || b->oom || o->n_bytes > SCHEMA_RULES_BYTES;
}

/* Reports the rules of the terms that are schemas of the document. */
static void report_rules(struct schema_compiler *c)
{
    struct origins o = {.c = c, .of = schema_alloc(c, 1 + c->g->n_rules, sizeof(*o.of))};
    struct buf b = {.tag = MEM_TEXT};

    for (size_t i = 0; o.of && i < c->n; i++)
        if (c->term[i].rule && c->term[i].kind == SCHEMA_TERM_RAW)
            o.of[o.n++] = (struct origin){c->term[i].json, c->term[i].rule - 1};
    if (o.n) {
        qsort(o.of, o.n, sizeof(*o.of), compare_origins);
        buf_str(&b, c->pointer ? c->pointer : "");
        schema_walk(&b, c->root, visit_schema, &o);
        regex_charge(c->s, o.n_visited / 4);
    }
    if (b.oom)
        schema_no_memory(c);
    buf_fini(&b);
}

static void compiler_fini(struct schema_compiler *c)
{
    strmap_fini(&c->by_name);
    strmap_fini(&c->by_uri);
    strmap_fini(&c->by_schema);
    strmap_fini(&c->dynamic);
    arena_fini(&c->arena);
    mem_free(c->term);
    mem_free(c->slot);
    mem_free(c->key);
    mem_free(c->resource);
    mem_free(c->queue);
}

/* Sets the white space between tokens to the matches of the regex TEXT that JSON allows as white space. */
static void set_space(struct schema_compiler *c, const char *text)
{
    struct regex_set blank = {{0}};
    struct err e = {0};
    uint32_t set;
    int rc;

    for (const char *b = " \t\n\r"; *b; b++)
        regex_set_add(&blank, (uint8_t)*b);
    rc = pattern_read(c->s, text, strlen(text), regex_characters, PATTERN_WHOLE, &set, &e);
    c->text.space =
        rc ? REGEX_EMPTY
           : regex_and(c->s, set, regex_repeat(c->s, regex_bytes(c->s, &blank), 0, REGEX_NO_LIMIT));
    if (rc)
        c->rc = err_set(c->e, rc, "the white space between tokens: %.200s", e.msg);
    else if (regex_is_empty(c->s, c->text.space) && schema_work(c, 0))
        c->rc =
            err_set(c->e, ERR_INPUT,
                    "the white space between tokens: %.200s matches no white space that JSON allows", text);
}

/* Returns the expression of the values of TERM, the term of the whole schema. */
static uint32_t whole(struct schema_compiler *c, uint32_t term, bool is_object)
{
    if (!c->rc && schema_is_empty(c, term, SCHEMA_EMPTY_DEPTH))
        schema_wrong(c, c->root, "", "no text matches the schema%s",
                     is_object ? ", which must allow an object" : "");
    return c->rc ? GRAMMAR_NEVER : schema_value(c, term);
}

/* True if the keyword `type` of SCHEMA allows objects only. */
static bool is_object_schema(const json_t *schema)
{
    const char *type = json_string_value(json_object_get(schema, "type"));

    return type && strcmp(type, "object") == 0;
}

int schema_compile(struct grammar *g, const json_t *schema, const struct schema_options *o, uint32_t *start,
                   struct schema_report *report, struct err *e)
{
    struct schema_compiler c = {
        .g = g, .s = &g->regex, .root = schema, .at = schema, .report = report, .e = e};
    bool has_multiples = false, is_object = o && o->is_object && !is_object_schema(schema);
    json_t *object = is_object ? json_pack("{s:s}", "type", "object") : NULL;

    *start = GRAMMAR_NEVER;
    c.is_loose = o && o->is_loose;
    c.is_open = o && o->is_open;
    c.spelling = o && o->every_spelling ? JSON_EVERY_SPELLING : JSON_PLAIN_SPELLING;
    c.pointer = o ? o->pointer : NULL;
    arena_init(&c.arena, MEM_TEXT);
    strmap_init(&c.by_name, MEM_TEXT);
    strmap_init(&c.by_uri, MEM_TEXT);
    strmap_init(&c.by_schema, MEM_TEXT);
    strmap_init(&c.dynamic, MEM_TEXT);
    json_text_init(&c.text, c.s, o && o->without_space);
    if (o && o->space_pattern)
        set_space(&c, o->space_pattern);
    if (o && o->excluded)
        c.text.string = regex_and(c.s, c.text.string,
                                  free_text(c.s, regex_literal(c.s, o->excluded, strlen(o->excluded))));
    schema_terms_init(&c);
    schema_refs_scan(&c, &has_multiples);
    json_number_init(&c.number, c.s, !has_multiples);
    if (is_object && !object)
        schema_no_memory(&c);
    if (!c.rc)
        *start = whole(&c,
                       is_object ? schema_and(&c, schema_raw(&c, schema, 0), schema_raw(&c, object, 0))
                                 : schema_raw(&c, schema, 0),
                       is_object);
    define_rules(&c);
    if (!c.rc)
        report_rules(&c);
    schema_work(&c, 0); /* turns a fault of the grammar into an error */
    compiler_fini(&c);
    json_decref(object);
    return c.rc;
}

void schema_report_fini(struct schema_report *report)
{
    mem_free(report->warning);
    for (size_t i = 0; i < report->n_rules; i++)
        mem_free(report->rule[i].pointer);
    mem_free(report->rule);
    *report = (struct schema_report){0};
}
