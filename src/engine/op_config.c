/* op_config.c - reads the backends of operator kinds, and checks that this build has them. */
#include "engine/op_config.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json/json_pull.h"
#include "base/log.h"
#include "ops/linear_backend.h"

/* PACE's names of operator kinds, without "_backend", where they differ from Gallop's. */
static const struct {
    const char *name;
    enum op_kind kind;
} pace_kinds[] = {{"qkv_proj", OP_QKV}, {"out_proj", OP_OUT}};

/* Sets *K to the operator kind that has NAME in Gallop or in PACE. Returns false if there is none. */
static bool kind_of(const char *name, enum op_kind *k)
{
    static const char behind[] = "_backend";
    size_t n = strlen(name), tail = sizeof(behind) - 1;

    if (n > tail && strcmp(name + n - tail, behind) == 0)
        n -= tail;
    for (int i = 0; i < OP_N_KINDS; i++) {
        const char *kind = linear_kind_name((enum op_kind)i);

        if (strlen(kind) == n && strncmp(kind, name, n) == 0) {
            *k = (enum op_kind)i;
            return true;
        }
    }
    for (size_t i = 0; i < sizeof(pace_kinds) / sizeof(pace_kinds[0]); i++)
        if (strlen(pace_kinds[i].name) == n && strncmp(pace_kinds[i].name, name, n) == 0) {
            *k = pace_kinds[i].kind;
            return true;
        }
    return false;
}

/* PACE's attention backends, and the KV cache types that each supports in PACE. "gallop" and "native" support all. */
static const struct {
    const char *backend, *types[2];
} pace_attention[] = {{"jit", {"dynamic", "bmc"}}, {"slab", {"slab_pool", NULL}}, {"paged", {"paged", NULL}}};
enum { N_ATTENTION = sizeof(pace_attention) / sizeof(pace_attention[0]) };

static bool is_linear(enum op_kind k)
{
    return k != OP_NORM && k != OP_ROPE && k != OP_ATTENTION;
}

/* Returns true if kind K has the backend BACKEND. Kinds other than linears have "gallop" and "native";
 * attention also accepts PACE's names. */
static bool known(enum op_kind k, const char *backend)
{
    if (strcmp(backend, "auto") == 0)
        return true;
    for (int i = 0; k == OP_ATTENTION && i < N_ATTENTION; i++)
        if (strcmp(pace_attention[i].backend, backend) == 0)
            return true;
    if (!is_linear(k))
        return strcmp(backend, "gallop") == 0 || strcmp(backend, "native") == 0;
    return linear_backend_known(backend);
}

/* Returns true if one of the first N linear backends has the name NAME. Several backends can have the same name. */
static bool is_listed(const char *name, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(linear_backend_at(i)->name, name) == 0)
            return true;
    return false;
}

/* Writes the names of all backends of kind K to out[size], separated by commas. */
static void list_known(enum op_kind k, char *out, size_t size)
{
    const struct linear_backend *b;
    size_t at = (size_t)snprintf(out, size, "auto");

    for (int i = 0; is_linear(k) && (b = linear_backend_at(i)) != NULL && at < size; i++)
        if (!is_listed(b->name, i) && linear_backend_serves(b->name, k))
            at += (size_t)snprintf(out + at, size - at, ", %s", b->name);
    if (!is_linear(k))
        at += (size_t)snprintf(out + at, size - at, ", gallop, native");
    for (int i = 0; k == OP_ATTENTION && i < N_ATTENTION && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, ", %s", pace_attention[i].backend);
}

/* Sets the backend of operator kind K to BACKEND, in lower or upper case (AMD PACE writes "TPP"). ABOUT is
 * the name of the option, for messages. */
static int set(struct op_config *c, enum op_kind k, const char *backend, const char *about, struct err *e)
{
    char *name = arena_strndup(&c->arena, backend, strlen(backend)), list[256];
    const char *lacks;

    if (!name)
        return err_nomem(e, "the operator configuration");
    for (char *p = name; *p; p++)
        *p = (char)(*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p);
    list_known(k, list, sizeof(list));
    if (is_linear(k) && (lacks = linear_backend_lacks(name)) != NULL)
        return err_about(e, ERR_UNSUPPORTED, about,
                         "backend %s for %s needs %s, which this build lacks; available are %s", name,
                         linear_kind_name(k), lacks, list);
    if (is_linear(k) && !linear_backend_serves(name, k))
        return err_about(e, ERR_INPUT, about, "backend %s supports mlp only, not %s; available are %s", name,
                         linear_kind_name(k), list);
    if (!known(k, name))
        return err_about(e, ERR_INPUT, about, "%s is not a backend of %s; available are %s", backend,
                         linear_kind_name(k), list);
    c->backend[k] = name;
    return 0;
}

static int read_object(struct op_config *c, json_t *o, struct err *e)
{
    const char *key;
    json_t *v;

    if (!json_is_object(o))
        return err_about(e, ERR_INPUT, "op_config",
                         "expected a JSON object that maps operator kinds to backends");
    json_object_foreach(o, key, v)
    {
        enum op_kind k;
        int rc;

        if (!kind_of(key, &k))
            return err_about(e, ERR_INPUT, "op_config", "found the operator kind \"%s\", which is unknown",
                             key);
        if (c->backend[k])
            return err_about(e, ERR_INPUT, "op_config", "the operator kind %s appears twice",
                             linear_kind_name(k));
        if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
            return err_about(e, ERR_INPUT, "op_config", "the backend of %s is not a string%s", key,
                             json_is_string(v) ? " without NUL" : "");
        if ((rc = set(c, k, json_string_value(v), "op_config", e)) != 0)
            return rc;
    }
    return 0;
}

int op_config_read(struct op_config *c, const char *json, const char *attention, struct err *e)
{
    int rc = 0;

    arena_init(&c->arena, MEM_ENGINE);
    if (json) {
        json_t *o;

        if (json_pull_load(&o, json, strlen(json), NULL, e) != 0)
            return err_subject(e, "op_config");
        rc = read_object(c, o, e);
        json_decref(o);
    }
    if (rc == 0 && attention)
        rc = set(c, OP_ATTENTION, attention, "attention_backend", e);
    return rc;
}

void op_config_fit_attention(struct op_config *c, const char *kv_type)
{
    const char *wish = c->backend[OP_ATTENTION];

    for (int i = 0; wish && i < N_ATTENTION; i++) {
        if (strcmp(pace_attention[i].backend, wish) != 0)
            continue;
        for (int t = 0; t < 2; t++)
            if (pace_attention[i].types[t] && strcmp(pace_attention[i].types[t], kv_type) == 0)
                return;
        log_warn("attention backend %s does not support the KV cache type %s: using gallop", wish, kv_type);
        c->backend[OP_ATTENTION] = "gallop";
    }
}

void op_config_fini(struct op_config *c)
{
    arena_fini(&c->arena);
}
