/* schema.c - compiles a schema: reads the options, defines the rules of all terms, and reports the result. */
#include "text/grammar/schema/schema.h"

#include <string.h>

#include "base/mem.h"
#include "text/grammar/automata/pattern.h"
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

        of = schema_alloc(c, 1 + f->n_arrays + f->n_objects, sizeof(*of));
        if (!of)
            return;
        c->at = c->term[term].kind == SCHEMA_TERM_RAW ? c->term[term].json : c->root;
        of[n++] = grammar_term(c->g, schema_scalars(c, f));
        for (size_t i = 0; i < f->n_arrays; i++)
            of[n++] = schema_items(c, f->array[i]);
        for (size_t i = 0; i < f->n_objects; i++)
            of[n++] = schema_properties(c, f->object[i]);
        grammar_define(c->g, c->term[term].rule - 1, grammar_choice(c->g, of, n));
    }
}

/* True if TERM certainly has no value. Only intersections are searched, because the search is costly. */
static bool is_contradiction(struct schema_compiler *c, uint32_t term)
{
    return term == SCHEMA_NONE || (c->term[term].kind == SCHEMA_TERM_AND && schema_is_empty(c, term, 1));
}

static void compiler_fini(struct schema_compiler *c)
{
    arena_fini(&c->arena);
    mem_free(c->term);
    mem_free(c->slot);
    mem_free(c->key);
    mem_free(c->key_slot);
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

/* True if the keyword `type` of SCHEMA allows objects only. */
static bool is_object_schema(const json_t *schema)
{
    const char *type = json_string_value(json_object_get(schema, "type"));

    return type && strcmp(type, "object") == 0;
}

int schema_compile(struct grammar *g, const json_t *schema, const struct schema_options *o, uint32_t *start,
                   struct schema_report *report, struct err *e)
{
    struct schema_compiler c = {.g = g,
                                .s = &g->regex,
                                .root = schema,
                                .at = schema,
                                .report = report,
                                .e = e,
                                .is_empty = is_contradiction};
    bool has_multiples = false, is_object = o && o->is_object && !is_object_schema(schema);
    json_t *object = is_object ? json_pack("{s:s}", "type", "object") : NULL;

    *start = GRAMMAR_NEVER;
    c.is_loose = o && o->is_loose;
    c.pointer = o ? o->pointer : NULL;
    arena_init(&c.arena, MEM_TEXT);
    json_text_init(&c.text, c.s, o && o->without_space);
    if (o && o->space_pattern)
        set_space(&c, o->space_pattern);
    schema_terms_init(&c);
    schema_refs_scan(&c, &has_multiples);
    json_number_init(&c.number, c.s, !has_multiples);
    if (is_object && !object)
        schema_no_memory(&c);
    if (!c.rc)
        *start =
            schema_value(&c, is_object ? schema_and(&c, schema_raw(&c, schema, 0), schema_raw(&c, object, 0))
                                       : schema_raw(&c, schema, 0));
    define_rules(&c);
    schema_work(&c, 0); /* turns a fault of the grammar into an error */
    compiler_fini(&c);
    json_decref(object);
    return c.rc;
}

void schema_report_fini(struct schema_report *report)
{
    mem_free(report->warning);
    *report = (struct schema_report){0};
}
