/* structured.c - reads each field of a constraint, and checks that at most one constraint is given. */
#include "engine/constraints/structured.h"

#include <string.h>

#include "base/buf.h"
#include "base/json/json_tree.h"
#include "base/mem.h"
#include "gallop.h"

struct reader {
    struct gallop_structured_outputs *s;
    struct arena *arena;
    struct err *e;
    const char *field; /* path of the current value, for error messages */
};

static int refuse_type(const struct reader *r, const char *expected)
{
    return err_about(r->e, ERR_INPUT, r->field, "expected %s", expected);
}

/* Copies the string V to the arena. With TAKES_TREE, V may also be an object or boolean, which is written as JSON. */
static int read_text(const struct reader *r, const json_t *v, bool takes_tree, const char **out)
{
    struct buf text = {.tag = MEM_ENGINE};

    if (json_is_string(v) && strlen(json_string_value(v)) != json_string_length(v))
        return err_about(r->e, ERR_INPUT, r->field, "found a NUL character in the text");
    if (!json_is_string(v) && !(takes_tree && (json_is_object(v) || json_is_boolean(v))))
        return refuse_type(r, takes_tree ? "a string or an object" : "a string");
    if (json_is_string(v))
        buf_str(&text, json_string_value(v));
    else
        buf_json_tree(&text, v, false);
    *out = text.oom ? NULL : arena_strndup(r->arena, text.data ? text.data : "", text.len);
    buf_fini(&text);
    return *out ? 0 : err_nomem(r->e, "a request");
}

static int read_choice(const struct reader *r, const json_t *v)
{
    size_t n = json_array_size(v);
    const char **texts = arena_zalloc(r->arena, n + 1, sizeof(*texts));
    int rc = 0;

    if (!json_is_array(v) || n == 0)
        return refuse_type(r, "a list of one or more strings");
    if (!texts)
        return err_nomem(r->e, "a request");
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = read_text(r, json_array_get(v, i), false, &texts[i]);
    r->s->choice = texts;
    r->s->n_choice = n;
    return rc;
}

static int read_flag(const struct reader *r, const json_t *v, int *out)
{
    *out = json_is_true(v);
    return json_is_boolean(v) ? 0 : refuse_type(r, "true or false");
}

bool structured_is_given(const struct gallop_structured_outputs *s)
{
    return s->json || s->regex || s->choice || s->grammar || s->structural_tag || s->json_object;
}

/* Reads the member KEY of structured_outputs, or the field guided_KEY. */
static int read_member(struct reader *r, const char *key, const json_t *v)
{
    struct gallop_structured_outputs *s = r->s;
    bool is_option = strcmp(key, "whitespace_pattern") == 0 || strncmp(key, "disable_", 8) == 0;

    if (json_is_null(v))
        return 0;
    if (!is_option && structured_is_given(s) && !json_is_false(v))
        return err_about(r->e, ERR_INPUT, r->field, "found a second constraint on the answer, expected one");
    if (strcmp(key, "json") == 0)
        return read_text(r, v, true, &s->json);
    if (strcmp(key, "regex") == 0)
        return read_text(r, v, false, &s->regex);
    if (strcmp(key, "choice") == 0)
        return read_choice(r, v);
    if (strcmp(key, "grammar") == 0)
        return read_text(r, v, false, &s->grammar);
    if (strcmp(key, "structural_tag") == 0)
        return read_text(r, v, true, &s->structural_tag);
    if (strcmp(key, "json_object") == 0)
        return read_flag(r, v, &s->json_object);
    if (strcmp(key, "disable_any_whitespace") == 0)
        return read_flag(r, v, &s->disable_any_whitespace);
    if (strcmp(key, "whitespace_pattern") == 0)
        return read_text(r, v, false, &s->whitespace_pattern);
    if (strcmp(key, "disable_additional_properties") == 0) {
        s->allow_additional_properties = json_is_false(v);
        return json_is_boolean(v) ? 0 : refuse_type(r, "true or false");
    }
    return err_about(r->e, ERR_INPUT, r->field, "unknown field");
}

/* Reads the object structured_outputs. */
static int read_members(struct reader *r, const json_t *object)
{
    char field[ERR_SUBJECT_BYTES];
    const char *key;
    json_t *v;
    int rc = 0;

    if (!json_is_object(object))
        return refuse_type(r, "an object");
    json_object_foreach((json_t *)(uintptr_t)object, key, v)
    {
        snprintf(field, sizeof(field), "structured_outputs.%s", key);
        r->field = field;
        if (rc == 0)
            rc = read_member(r, key, v);
    }
    return rc;
}

static int read_json_schema(struct reader *r, const json_t *v)
{
    const json_t *schema = json_object_get(v, "schema"), *strict = json_object_get(v, "strict");

    r->field = "response_format.json_schema";
    if (!json_is_object(v))
        return refuse_type(r, "an object with a schema");
    r->field = "response_format.json_schema.strict";
    if (strict && !json_is_null(strict) && !json_is_boolean(strict))
        return refuse_type(r, "true or false");
    r->s->ignore_unsupported = json_is_false(strict);
    r->field = "response_format.json_schema.schema";
    return schema ? read_member(r, "json", schema) : refuse_type(r, "a JSON schema");
}

/* Reads response_format. As in llama.cpp's server, the schema may stand beside the type. */
static int read_response_format(struct reader *r, const json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    const json_t *schema = json_object_get(v, "schema"), *wrapped = json_object_get(v, "json_schema");

    if (!json_is_object(v))
        return refuse_type(r, "an object with a type");
    if (type && strcmp(type, "text") == 0)
        return 0;
    if (type && strcmp(type, "json_object") == 0 && (!schema || json_is_null(schema)))
        return read_member(r, "json_object", json_true());
    if (type &&
        (strcmp(type, "json_object") == 0 || (strcmp(type, "json_schema") == 0 && !wrapped && schema))) {
        r->field = "response_format.schema";
        return read_member(r, "json", schema);
    }
    if (type && strcmp(type, "json_schema") == 0)
        return read_json_schema(r, wrapped);
    if (type && strcmp(type, "structural_tag") == 0)
        return read_member(r, "structural_tag", v);
    return err_about(r->e, ERR_INPUT, "response_format.type",
                     "found %s, expected text, json_object, json_schema or structural_tag",
                     type ? type : "no text");
}

/* Returns the member of structured_outputs that the deprecated field NAME, "guided_MEMBER", sets, or NULL. */
static const char *guided_member(const char *name)
{
    static const char *const names[] = {"json", "regex", "choice", "grammar", "whitespace_pattern"};

    for (size_t i = 0; strncmp(name, "guided_", 7) == 0 && i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name + 7, names[i]) == 0)
            return names[i];
    return NULL;
}

bool structured_is_field(const char *name)
{
    return strcmp(name, "response_format") == 0 || strcmp(name, "structured_outputs") == 0 ||
           guided_member(name);
}

int structured_set_json(struct gallop_structured_outputs *s, const char *name, const json_t *value,
                        struct arena *a, struct err *e)
{
    struct reader r = {.s = s, .arena = a, .e = e, .field = name};

    ASSERT(structured_is_field(name), "%s", name);
    if (json_is_null(value))
        return 0;
    if (strcmp(name, "response_format") == 0)
        return read_response_format(&r, value);
    return strcmp(name, "structured_outputs") == 0 ? read_members(&r, value)
                                                   : read_member(&r, guided_member(name), value);
}
