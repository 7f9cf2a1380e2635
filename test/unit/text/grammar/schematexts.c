/* schematexts.c - compiles a schema to a recognizer, as constraint.c does, without a vocabulary. */
#include "schematexts.h"

#include "base/json/json_pull.h"

const struct schema_options schematexts_valid = {.every_spelling = true, .is_open = true};

void schematexts_compile(struct compiled *x, const char *schema, const struct schema_options *o)
{
    uint32_t start;

    *x = (struct compiled){0};
    x->rc = json_pull_load_exact(&x->json, schema, strlen(schema), "schema", &x->e);
    if (x->rc)
        fail_msg("%s: %s", schema, x->e.msg);
    x->rc = grammar_open(&x->grammar, SCHEMATEXTS_MEMORY, SCHEMATEXTS_STEPS);
    if (x->rc == 0)
        x->rc = schema_compile(&x->grammar, x->json, o, &start, &x->report, &x->e);
    if (x->rc == 0)
        x->rc = grammar_finish(&x->grammar, start, &x->e);
    if (x->rc == 0)
        x->rc = recognizer_open(&x->recognizer, &x->grammar, &x->e);
}

void schematexts_drop(struct compiled *x)
{
    if (x->rc == 0)
        recognizer_close(&x->recognizer);
    grammar_close(&x->grammar);
    schema_report_fini(&x->report);
    json_decref(x->json);
}

bool schematexts_accepts(struct compiled *x, const char *text)
{
    return recognizer_matches(&x->recognizer, text, strlen(text));
}

void schematexts_check(const struct example *example, size_t n, const struct schema_options *o)
{
    for (size_t i = 0; i < n; i++) {
        struct compiled x;
        bool expected = true;

        schematexts_compile(&x, example[i].schema, o);
        if (x.rc)
            fail_msg("%s: %s", example[i].schema, x.e.msg);
        for (const char *const *text = example[i].text; *text || expected; text++) {
            if (!*text) {
                expected = false;
                continue;
            }
            if (schematexts_accepts(&x, *text) != expected)
                fail_msg("%s: %s is %s", example[i].schema, *text, expected ? "refused" : "accepted");
        }
        assert_int_equal(x.grammar.regex.fault, REGEX_FINE);
        schematexts_drop(&x);
    }
}
