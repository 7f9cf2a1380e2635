/* schema_value.c - builds values: a regular expression for values that are neither arrays nor objects, and a
 * rule for terms that include arrays or objects. */
#include "text/grammar/schema/schema_value.h"

#include "text/grammar/schema/schema_read.h"

static uint32_t literal(struct schema_compiler *c, unsigned literals, unsigned bit, const char *text,
                        size_t n)
{
    return literals & bit ? regex_literal(c->s, text, n) : REGEX_NOTHING;
}

uint32_t schema_scalars(struct schema_compiler *c, const struct schema_form *f)
{
    uint32_t of[5];

    of[0] = literal(c, f->literals, SCHEMA_NULL, "null", 4);
    of[1] = literal(c, f->literals, SCHEMA_TRUE, "true", 4);
    of[2] = literal(c, f->literals, SCHEMA_FALSE, "false", 5);
    of[3] = f->written_number;
    of[4] = json_text_quoted(&c->text, f->written_string);
    return regex_union(c->s, of, 5);
}

uint32_t schema_value(struct schema_compiler *c, uint32_t term)
{
    const struct schema_form *f;

    if (c->term[term].rule)
        return grammar_call(c->g, c->term[term].rule - 1);
    f = schema_form_of(c, term);
    if (!f)
        return GRAMMAR_NEVER;
    if (f->arrays.n == 0 && f->objects.n == 0)
        return grammar_term(c->g, schema_scalars(c, f));
    if (!schema_reserve(c, (void **)&c->queue, &c->cap_queue, c->n_queue, sizeof(*c->queue)))
        return GRAMMAR_NEVER;
    c->queue[c->n_queue++] = term;
    c->term[term].rule = 1 + grammar_rule(c->g);
    return grammar_call(c->g, c->term[term].rule - 1);
}

uint32_t schema_mark(struct schema_compiler *c, bool before, char mark, bool after)
{
    uint32_t r = regex_concat(c->s, regex_literal(c->s, &mark, 1), after ? c->text.space : REGEX_EMPTY);

    return regex_concat(c->s, before ? c->text.space : REGEX_EMPTY, r);
}
