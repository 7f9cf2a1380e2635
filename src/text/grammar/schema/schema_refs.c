/* schema_refs.c - resolves references within one document (RFC 3986, RFC 6901). */
#include "text/grammar/schema/schema_refs.h"

#include <string.h>

#include "base/utf8.h"

enum { MOST_URI = 1024 };

/* The values of applicators: a schema, an array of schemas, or an object whose members are schemas. */
enum holds { HOLDS_SCHEMA = 1, HOLDS_LIST = 2, HOLDS_MAP = 4 };

static const struct {
    const char *keyword;
    unsigned holds;
} applicator[] = {
    {"$defs", HOLDS_MAP},
    {"additionalItems", HOLDS_SCHEMA},
    {"additionalProperties", HOLDS_SCHEMA},
    {"allOf", HOLDS_LIST},
    {"anyOf", HOLDS_LIST},
    {"contains", HOLDS_SCHEMA},
    {"definitions", HOLDS_MAP},
    {"dependencies", HOLDS_MAP},
    {"dependentSchemas", HOLDS_MAP},
    {"else", HOLDS_SCHEMA},
    {"if", HOLDS_SCHEMA},
    {"items", HOLDS_SCHEMA | HOLDS_LIST},
    {"not", HOLDS_SCHEMA},
    {"oneOf", HOLDS_LIST},
    {"patternProperties", HOLDS_MAP},
    {"prefixItems", HOLDS_LIST},
    {"properties", HOLDS_MAP},
    {"propertyNames", HOLDS_SCHEMA},
    {"then", HOLDS_SCHEMA},
    {"unevaluatedItems", HOLDS_SCHEMA},
    {"unevaluatedProperties", HOLDS_SCHEMA},
};

/* ---- URIs ---- */

static size_t scheme_length(const char *uri)
{
    size_t n = strcspn(uri, ":/?#");

    return uri[n] == ':' && n > 0 ? n + 1 : 0;
}

/* Removes "." and ".." segments from the path at TEXT. */
static void remove_dots(char *text)
{
    char *out = text, *at = text;

    while (*at) {
        if (strncmp(at, "/./", 3) == 0 || strcmp(at, "/.") == 0) {
            at += 2;
        } else if (strncmp(at, "/../", 4) == 0 || strcmp(at, "/..") == 0) {
            at += 3;
            while (out > text && *--out != '/')
                ;
        } else {
            do
                *out++ = *at++;
            while (*at && *at != '/');
        }
    }
    *out = 0;
}

/* Resolves REF against BASE, and writes it without a fragment to OUT. False: the result is too long. */
static bool resolve(const char *base, const char *ref, char out[MOST_URI])
{
    size_t n_ref = strcspn(ref, "#"), n_base = strcspn(base, "#"), scheme = scheme_length(base),
           authority = scheme;

    if (n_ref + n_base + 2 > MOST_URI)
        return false;
    if (strncmp(base + scheme, "//", 2) == 0)
        authority = scheme + 2 + strcspn(base + scheme + 2, "/?#");
    if (scheme_length(ref) && scheme_length(ref) <= n_ref)
        n_base = 0;
    else if (n_ref >= 2 && ref[0] == '/' && ref[1] == '/')
        n_base = scheme;
    else if (n_ref >= 1 && ref[0] == '/')
        n_base = authority;
    else if (n_ref > 0)
        while (n_base > authority && base[n_base - 1] != '/')
            n_base--;
    memcpy(out, base, n_base);
    if (n_ref > 0 && n_base > 0 && n_base == authority && authority > scheme && ref[0] != '/')
        out[n_base++] = '/';
    memcpy(out + n_base, ref, n_ref);
    out[n_base + n_ref] = 0;
    if (n_base >= authority && authority > 0 && strncmp(out, base, authority) == 0)
        remove_dots(out + authority);
    return true;
}

/* ---- scanning ---- */

static const char *identifier(const struct schema_compiler *c, const json_t *json)
{
    const char *id = json_string_value(json_object_get(json, c->draft == SCHEMA_DRAFT_4 ? "id" : "$id"));

    /* Before 2019-09, keywords beside `$ref` are ignored. */
    return c->draft <= SCHEMA_DRAFT_7 && json_object_get(json, "$ref") ? NULL : id;
}

/* Adds resource I to the maps by which references find it. */
static void index_resource(struct schema_compiler *c, uint32_t i)
{
    const struct schema_resource *x = &c->resource[i];
    const char *mark = strchr(x->uri, '#'),
               *own = json_string_value(json_object_get(x->json, "$dynamicAnchor"));
    uint64_t n = 0;
    bool fine = strmap_put(&c->by_uri, x->uri, strlen(x->uri), i) >= 0;

    if (!mark && i > 0) {
        const json_t **key = schema_alloc(c, 1, sizeof(*key));

        if (!key)
            return;
        *key = x->json;
        fine = fine && strmap_put(&c->by_schema, (const char *)key, sizeof(*key), i) >= 0;
    }
    if (own && mark && strcmp(own, mark + 1) == 0) {
        strmap_get(&c->dynamic, own, strlen(own), &n);
        fine = fine && strmap_set(&c->dynamic, own, strlen(own), n + 1);
    }
    if (!fine)
        schema_no_memory(c);
}

static void add_resource(struct schema_compiler *c, const char *base, const char *id, const json_t *json)
{
    char uri[MOST_URI];
    size_t n = 0;
    char *copy;

    if (*id != '#') {
        if (!resolve(base, id, uri))
            return;
    } else {
        n = strcspn(base, "#");
        if (n + strlen(id) + 1 > sizeof(uri))
            return;
        memcpy(uri, base, n);
        memcpy(uri + n, id, strlen(id) + 1);
    }
    copy = schema_alloc(c, strlen(uri) + 1, 1);
    if (!copy ||
        !schema_reserve(c, (void **)&c->resource, &c->cap_resources, c->n_resources, sizeof(*c->resource)))
        return;
    memcpy(copy, uri, strlen(uri) + 1);
    c->resource[c->n_resources++] = (struct schema_resource){copy, json};
    index_resource(c, (uint32_t)c->n_resources - 1);
}

/* Registers the anchor "#NAME" within BASE. */
static void add_anchor(struct schema_compiler *c, const char *base, const char *name, const json_t *json)
{
    char anchor[MOST_URI];

    if (!name || strlen(name) + 2 > sizeof(anchor))
        return;
    anchor[0] = '#';
    memcpy(anchor + 1, name, strlen(name) + 1);
    add_resource(c, base, anchor, json);
}

static void scan_schema(struct schema_compiler *c, const json_t *json, const char *base);

static void scan_keyword(struct schema_compiler *c, const json_t *v, unsigned holds, const char *base)
{
    const char *key;
    json_t *one;
    size_t i;

    if (json_is_array(v) && holds & HOLDS_LIST)
        json_array_foreach((json_t *)v, i, one) scan_schema(c, one, base);
    else if (json_is_object(v) && holds & HOLDS_MAP)
        json_object_foreach((json_t *)v, key, one) scan_schema(c, one, base);
    else if (holds & HOLDS_SCHEMA)
        scan_schema(c, v, base);
}

static void scan_schema(struct schema_compiler *c, const json_t *json, const char *base)
{
    const char *id;

    if (!json_is_object(json) || c->rc)
        return;
    id = identifier(c, json);
    if (id && json != c->root && json_object_get(json, "$ref") && !json_object_get(c->root, "$schema"))
        schema_unserved(c, json, "$id",
                        "$id beside $ref has another meaning since draft 2019-09: expected a $schema that "
                        "names the draft");
    if (id && json != c->root) {
        size_t before = c->n_resources;

        add_resource(c, base, id, json);
        if (c->n_resources > before && *id != '#')
            base = c->resource[before].uri;
    }
    add_anchor(c, base, json_string_value(json_object_get(json, "$anchor")), json);
    add_anchor(c, base, json_string_value(json_object_get(json, "$dynamicAnchor")), json);
    for (size_t i = 0; i < sizeof(applicator) / sizeof(*applicator); i++) {
        const json_t *v = json_object_get(json, applicator[i].keyword);

        if (v)
            scan_keyword(c, v, applicator[i].holds, base);
    }
}

struct scan {
    bool has_multiples, has_identifiers, has_anchors;
};

static void scan_words(const json_t *json, struct scan *found)
{
    const char *key;
    json_t *v;
    size_t i;

    if (json_is_array(json))
        json_array_foreach((json_t *)json, i, v) scan_words(v, found);
    else if (json_is_object(json))
        json_object_foreach((json_t *)json, key, v)
        {
            if (strcmp(key, "multipleOf") == 0)
                found->has_multiples = true;
            if (strcmp(key, "$recursiveAnchor") == 0 && json_is_true(v))
                found->has_anchors = true;
            if (strcmp(key, "id") == 0 || strcmp(key, "$id") == 0 || strcmp(key, "$anchor") == 0 ||
                strcmp(key, "$dynamicAnchor") == 0)
                found->has_identifiers = true;
            scan_words(v, found);
        }
}

static void find_draft(struct schema_compiler *c)
{
    static const struct {
        const char *mark;
        enum schema_draft draft;
    } known[] = {{"json-schema.org/draft-04/schema", SCHEMA_DRAFT_4},
                 {"json-schema.org/draft-06/schema", SCHEMA_DRAFT_6},
                 {"json-schema.org/draft-07/schema", SCHEMA_DRAFT_7},
                 {"json-schema.org/draft/2019-09/schema", SCHEMA_2019_09},
                 {"json-schema.org/draft/2020-12/schema", SCHEMA_2020_12}};
    const char *name = json_string_value(json_object_get(c->root, "$schema"));

    c->draft = SCHEMA_2020_12;
    for (size_t i = 0; name && i < sizeof(known) / sizeof(*known); i++)
        if (strstr(name, known[i].mark)) {
            c->draft = known[i].draft;
            c->has_draft = true;
        }
    /* A metaschema derived from these drafts may omit vocabularies. Other values are ignored. */
    if (name && !c->has_draft && (strstr(name, "2019-09") || strstr(name, "2020-12")))
        schema_unserved(c, c->root, "$schema", "the vocabularies of %.80s are unknown", name);
}

void schema_refs_scan(struct schema_compiler *c, bool *has_multiples)
{
    struct scan found = {0};
    const char *id;

    find_draft(c);
    scan_words(c->root, &found);
    *has_multiples = found.has_multiples;
    c->has_recursive_anchors = found.has_anchors;
    id = identifier(c, c->root);
    add_resource(c, "", id && *id != '#' ? id : "", c->root);
    if (found.has_identifiers && !c->rc) {
        if (id && *id == '#')
            add_resource(c, "", id, c->root);
        scan_schema(c, c->root, c->resource[0].uri);
    }
}

uint32_t schema_resource_of(const struct schema_compiler *c, const json_t *json, uint32_t resource)
{
    uint64_t i;

    if (strmap_get(&c->by_schema, (const char *)&json, sizeof(json), &i))
        return (uint32_t)i;
    return json == c->root ? 0 : resource;
}

uint32_t schema_subschema(struct schema_compiler *c, const json_t *json, uint32_t resource)
{
    return schema_raw(c, json, c->n_resources > 1 ? schema_resource_of(c, json, resource) : resource);
}

/* ---- references ---- */

/* Decodes percent escapes in TEXT [n], in place. Returns the new length. */
static size_t decode_percent(char *text, size_t n)
{
    size_t out = 0;

    for (size_t i = 0; i < n; i++) {
        if (text[i] == '%' && i + 2 < n && utf8_hex_digit(text[i + 1]) >= 0 &&
            utf8_hex_digit(text[i + 2]) >= 0) {
            text[out++] = (char)(utf8_hex_digit(text[i + 1]) * 16 + utf8_hex_digit(text[i + 2]));
            i += 2;
        } else {
            text[out++] = text[i];
        }
    }
    return out;
}

/* Decodes ~0 and ~1 in TEXT [n], a segment of a JSON pointer, in place. Returns the new length. */
static size_t decode_token(char *text, size_t n)
{
    size_t out = 0;

    for (size_t i = 0; i < n; i++) {
        bool is_escape = text[i] == '~' && i + 1 < n && (text[i + 1] == '0' || text[i + 1] == '1');

        text[out++] = is_escape ? (text[i + 1] == '0' ? '~' : '/') : text[i];
        i += is_escape;
    }
    return out;
}

/* Returns the value in JSON to which the JSON pointer TEXT [n] leads. Changes *RESOURCE from the resource of JSON to
 * the resource of the result. */
static const json_t *follow(const struct schema_compiler *c, const json_t *json, char *text, size_t n,
                            uint32_t *resource)
{
    size_t at = 0;

    n = decode_percent(text, n);
    while (at < n && json) {
        size_t end = ++at, size;

        while (end < n && text[end] != '/')
            end++;
        size = decode_token(text + at, end - at);
        if (json_is_array(json)) {
            size_t index = 0;

            for (size_t i = 0; i < size; i++)
                index = text[at + i] < '0' || text[at + i] > '9' || index > 1000000
                            ? SIZE_MAX / 16
                            : 10 * index + (size_t)(text[at + i] - '0');
            json = size ? json_array_get(json, index) : NULL;
        } else {
            json = json_object_getn(json, text + at, size);
        }
        if (json)
            *resource = schema_resource_of(c, json, *resource);
        at = end;
    }
    return json;
}

/* Returns the number of schemas with the `$dynamicAnchor` NAME. */
static uint64_t n_dynamic(const struct schema_compiler *c, const char *name)
{
    uint64_t n = 0;

    strmap_get(&c->dynamic, name, strlen(name), &n);
    return n;
}

/* Returns the schema that URI and FRAGMENT (an anchor or a JSON pointer) identify, or NULL. */
static const json_t *reference_find(const struct schema_compiler *c, const char *uri, const char *fragment,
                                    uint32_t *resource)
{
    char text[MOST_URI];
    size_t n = strlen(uri), m = strlen(fragment);
    uint64_t i, own;

    if (n + m + 2 > sizeof(text))
        return NULL;
    if (*fragment && *fragment != '/') {
        memcpy(text, uri, n);
        text[n] = '#';
        memcpy(text + n + 1, fragment, m + 1);
        uri = text;
    }
    if (!strmap_get(&c->by_uri, uri, strlen(uri), &i))
        return NULL;
    *resource = (uint32_t)i;
    if (uri == text) {
        /* The URI of the anchor's resource is the anchor's URI without the fragment. */
        if (strmap_get(&c->by_uri, uri, n, &own))
            *resource = (uint32_t)own;
        return c->resource[i].json;
    }
    memcpy(text, fragment, m + 1);
    return follow(c, c->resource[i].json, text, m, resource);
}

uint32_t schema_reference(struct schema_compiler *c, const json_t *at, const char *keyword, uint32_t resource)
{
    const char *ref = json_string_value(json_object_get(at, keyword)), *fragment;
    const json_t *target = NULL;
    char uri[MOST_URI];

    if (!ref) {
        schema_wrong(c, at, keyword, "expected a string");
        return SCHEMA_NONE;
    }
    fragment = strchr(ref, '#');
    fragment = fragment ? fragment + 1 : "";
    if (strcmp(keyword, "$dynamicRef") == 0 && *fragment && *fragment != '/' && n_dynamic(c, fragment) > 1) {
        schema_unserved(c, at, keyword, "several schemas have the dynamic anchor %.80s", fragment);
        return SCHEMA_ANY;
    }
    if (strcmp(keyword, "$recursiveRef") == 0 && c->has_recursive_anchors && c->n_resources > 1) {
        schema_unserved(c, at, keyword, "the reference may mean several schemas");
        return SCHEMA_ANY;
    }
    if (resolve(c->resource[resource].uri, ref, uri))
        target = reference_find(c, uri, fragment, &resource);
    if (!target && (*ref == '#' || !*ref))
        schema_wrong(c, at, keyword, "%.120s refers to a schema that does not exist", ref);
    else if (!target)
        schema_unserved(c, at, keyword, "%.120s refers to another document", ref);
    if (!target)
        return SCHEMA_ANY;
    c->at = at;
    return schema_subschema(c, target, resource);
}
