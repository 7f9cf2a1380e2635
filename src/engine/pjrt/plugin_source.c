/* plugin_source.c - finds the file of a plugin, and reads its options from JSON. */
#include "engine/pjrt/plugin_source.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/json_pull.h"
#include "engine/pjrt/api.h"

static const char names_variable[] = "PJRT_NAMES_AND_LIBRARY_PATHS";

/* ---- the file ---- */

/* Finds the plugin NAME [n] in LIST, "name:path,name:path". NAME NULL: the first. Returns its path and the length of it
 * in *N_PATH, or NULL. */
static const char *path_in_list(const char *list, const char *name, size_t n, size_t *n_path)
{
    for (const char *p = list; *p; p += *p == ',') {
        size_t len = strcspn(p, ","), colon = strcspn(p, ",:");

        if (colon + 1 < len && (!name || (colon == n && memcmp(p, name, n) == 0))) {
            *n_path = len - colon - 1;
            return p + colon + 1;
        }
        p += len;
    }
    return NULL;
}

static int find_path(struct plugin_source *s, const char *plugin, struct err *e)
{
    const char *list = getenv(names_variable),
               *path = plugin && *plugin ? plugin : getenv("GALLOP_PJRT_PLUGIN");
    const char *found = NULL;
    size_t n = path ? strlen(path) : 0;

    if (list && *list && (!n || !strchr(path, '/')))
        found = path_in_list(list, n ? path : NULL, n, &n);
    if (found)
        path = found;
    else if (!n && list && *list)
        return err_about(e, ERR_INPUT, "pjrt_plugin", "found \"%s\" in %s, expected name:path,name:path",
                         list, names_variable);
    else if (!n)
        return err_about(e, ERR_INPUT, "pjrt_plugin", "executor \"pjrt\" needs the path of a plugin");
    if (n >= sizeof(s->path))
        return err_about(e, ERR_INPUT, "pjrt_plugin", "found a path of %zu bytes, expected at most %zu", n,
                         sizeof(s->path) - 1);
    memcpy(s->path, path, n);
    s->path[n] = 0;
    return 0;
}

/* ---- the options ---- */

static int option_numbers(struct plugin_source *s, const char *name, const json_t *v, struct pjrt_named *o,
                          struct err *e)
{
    size_t n = json_array_size(v);
    int64_t *x;

    if (n > PLUGIN_SOURCE_NUMBERS)
        return err_about(e, ERR_INPUT, "pjrt_options", "%s has %zu numbers, expected at most %d", name, n,
                         PLUGIN_SOURCE_NUMBERS);
    if (!(x = arena_zalloc(&s->arena, n ? n : 1, sizeof(*x))))
        return err_nomem(e, "the options of the plugin");
    for (size_t i = 0; i < n; i++) {
        const json_t *at = json_array_get(v, i);

        if (!json_is_integer(at))
            return err_about(e, ERR_INPUT, "pjrt_options", "%s is a list whose element %zu is no integer",
                             name, i);
        x[i] = json_integer_value(at);
    }
    o->type = PJRT_NAMED_INT64S;
    o->value.integers = x;
    o->value_size = n;
    return 0;
}

static int option_text(struct plugin_source *s, const json_t *v, struct pjrt_named *o, struct err *e)
{
    o->type = PJRT_NAMED_STRING;
    o->value_size = json_string_length(v);
    o->value.text = arena_strndup(&s->arena, json_string_value(v), o->value_size);
    return o->value.text ? 0 : err_nomem(e, "the options of the plugin");
}

/* Reads the value V of the option NAME. */
static int option_value(struct plugin_source *s, const char *name, const json_t *v, struct err *e)
{
    struct pjrt_named *o = &s->option[s->n_options];

    *o = (struct pjrt_named){.struct_size = PJRT_SIZE(struct pjrt_named, value_size),
                             .name = arena_strndup(&s->arena, name, strlen(name)),
                             .name_size = strlen(name),
                             .value_size = 1};
    if (!o->name)
        return err_nomem(e, "the options of the plugin");
    s->n_options++;
    switch (json_typeof(v)) {
    case JSON_STRING: return option_text(s, v, o, e);
    case JSON_ARRAY: return option_numbers(s, name, v, o, e);
    case JSON_INTEGER:
        o->type = PJRT_NAMED_INT64;
        o->value.integer = json_integer_value(v);
        return 0;
    case JSON_TRUE:
    case JSON_FALSE:
        o->type = PJRT_NAMED_BOOL;
        o->value.flag = json_is_true(v);
        return 0;
    case JSON_REAL:
        o->type = PJRT_NAMED_FLOAT;
        o->value.number = (float)json_real_value(v);
        if (isfinite(o->value.number))
            return 0;
        return err_about(e, ERR_INPUT, "pjrt_options", "%s is %g, expected a number of fp32", name,
                         json_real_value(v));
    default:
        return err_about(e, ERR_INPUT, "pjrt_options",
                         "%s is %s, expected a string, a number, a boolean or a list of integers", name,
                         json_is_null(v) ? "null" : "an object");
    }
}

static int options_from(struct plugin_source *s, json_t *object, struct err *e)
{
    size_t n = json_object_size(object);
    const char *name;
    json_t *v;
    int rc;

    if (n > PLUGIN_SOURCE_OPTIONS)
        return err_about(e, ERR_INPUT, "pjrt_options", "found %zu options, expected at most %d", n,
                         PLUGIN_SOURCE_OPTIONS);
    if (!(s->option = arena_zalloc(&s->arena, n ? n : 1, sizeof(*s->option))))
        return err_nomem(e, "the options of the plugin");
    json_object_foreach(object, name, v) if ((rc = option_value(s, name, v, e)) != 0) return rc;
    return 0;
}

static int read_options(struct plugin_source *s, const char *json, struct err *e)
{
    struct err why = {0};
    json_t *tree;
    int rc = json_pull_load(&tree, json, strlen(json), "the text", &why);

    if (rc)
        return err_about(e, rc, "pjrt_options", "%s", why.msg);
    if (!(s->json = arena_strndup(&s->arena, json, strlen(json))))
        rc = err_nomem(e, "the options of the plugin");
    else if (!json_is_object(tree))
        rc = err_about(e, ERR_INPUT, "pjrt_options",
                       "expected a JSON object, such as {\"memory_fraction\":0.9}");
    else
        rc = options_from(s, tree, e);
    json_decref(tree);
    return rc;
}

int plugin_source_read(struct plugin_source *s, const char *plugin, const char *json, size_t device,
                       struct err *e)
{
    int rc;

    memset(s, 0, sizeof(*s));
    arena_init(&s->arena, MEM_ENGINE);
    s->device = device;
    if ((rc = find_path(s, plugin, e)) == 0 && json)
        rc = read_options(s, json, e);
    if (rc)
        plugin_source_fini(s);
    return rc;
}

void plugin_source_fini(struct plugin_source *s)
{
    arena_fini(&s->arena);
    memset(s, 0, sizeof(*s));
}
