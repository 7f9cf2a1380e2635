/* quant.c - parses and prints the option quant. */
#include "model/quant.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/json/json_pull.h"

static const char *const names[QUANT_N] = {NULL, "none", "int8", "int8-static", "int4", "int4-g128", "mxfp4"};

static const enum op_kind linears[] = {OP_QKV, OP_OUT, OP_MLP, OP_LM_HEAD};
enum { N_LINEARS = sizeof(linears) / sizeof(linears[0]) };

static bool quant_of(const char *name, enum quant *q)
{
    for (int i = QUANT_NONE; i < QUANT_N; i++)
        if (strcmp(names[i], name) == 0) {
            *q = (enum quant)i;
            return true;
        }
    return false;
}

/* Returns the map for Q as a single name: Q for all kinds, but int8 for the head with int4 and mxfp4. */
static struct quant_map all_of(enum quant q)
{
    struct quant_map m;

    for (int i = 0; i < OP_N_KINDS; i++)
        m.of[i] = i == OP_LM_HEAD && q > QUANT_INT8_STATIC ? QUANT_INT8 : q;
    return m;
}

static int refuse_name(const char *found, const char *where, struct err *e)
{
    return err_about(e, ERR_INPUT, "quant",
                     "found '%.60s'%s, expected none, int8, int8-static, int4, int4-g128 or mxfp4", found,
                     where);
}

static int read_kind(struct quant_map *q, const char *kind, const json_t *v, struct err *e)
{
    char where[80];

    for (int i = 0; i < N_LINEARS; i++)
        if (strcmp(linear_kind_name(linears[i]), kind) == 0) {
            const char *name = json_is_string(v) ? json_string_value(v) : "no string";

            snprintf(where, sizeof(where), " for %s", kind);
            return quant_of(name, &q->of[linears[i]]) ? 0 : refuse_name(name, where, e);
        }
    return err_about(e, ERR_INPUT, "quant",
                     "found operator kind '%.60s', expected qkv_projection, out_projection, mlp or lm_head",
                     kind);
}

int quant_read(struct quant_map *q, const char *text, struct err *e)
{
    enum quant all = QUANT_AS_STORED;
    const char *kind;
    json_t *o, *v;
    int rc = 0;

    *q = all_of(QUANT_AS_STORED);
    if (!text || quant_of(text, &all)) {
        *q = all_of(all);
        return 0;
    }
    if (*text != '{')
        return refuse_name(text, "", e);
    if (json_pull_load(&o, text, strlen(text), NULL, e) != 0)
        return err_subject(e, "quant");
    json_object_foreach(o, kind, v) if (rc == 0) rc = read_kind(q, kind, v, e);
    json_decref(o);
    return rc;
}

static bool same_map(const struct quant_map *a, const struct quant_map *b)
{
    bool same = true;

    for (int i = 0; i < N_LINEARS; i++)
        same &= a->of[linears[i]] == b->of[linears[i]];
    return same;
}

bool quant_is(const struct quant_map *q, enum quant all)
{
    const struct quant_map m = all_of(all);

    return same_map(q, &m);
}

void quant_text(const struct quant_map *q, const char *stored, char out[QUANT_TEXT_MAX])
{
    size_t at = 0;

    for (int i = 0; i < QUANT_N; i++)
        if (quant_is(q, (enum quant)i)) {
            snprintf(out, QUANT_TEXT_MAX, "%s", i ? names[i] : stored);
            return;
        }
    for (int i = 0; i < N_LINEARS; i++)
        if (q->of[linears[i]])
            at += (size_t)snprintf(out + at, QUANT_TEXT_MAX - at, "%s\"%s\":\"%s\"", at ? "," : "{",
                                   linear_kind_name(linears[i]), names[q->of[linears[i]]]);
    snprintf(out + at, QUANT_TEXT_MAX - at, "}");
}
