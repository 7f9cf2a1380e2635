/* opconf.c - reads the operator configuration. */
#include "engine/opconf.h"

#include <jansson.h>
#include <string.h>

#include "base/err.h"
#include "base/json_pull.h"

static bool kind_of(const char *name, enum op_kind *k)
{
    for (int i = 0; i < OP_N_KINDS; i++)
        if (strcmp(linear_kind_name((enum op_kind)i), name) == 0) {
            *k = (enum op_kind)i;
            return true;
        }
    return false;
}

/* PACE's names of attention and the cache types each of them serves there; "gallop" and "native" serve
 * all. */
static const struct {
    const char *backend, *types[2];
} pace_attention[] = {{"jit", {"dynamic", "bmc"}}, {"slab", {"slab_pool", NULL}}, {"paged", {"paged", NULL}}};
enum { N_ATTENTION = sizeof(pace_attention) / sizeof(pace_attention[0]) };

/* Kinds that are no linears know "gallop" and "native", attention also PACE's names. */
static bool known(enum op_kind k, const char *backend)
{
    if (strcmp(backend, "auto") == 0)
        return true;
    for (int i = 0; k == OP_ATTENTION && i < N_ATTENTION; i++)
        if (strcmp(pace_attention[i].backend, backend) == 0)
            return true;
    if (k == OP_NORM || k == OP_ROPE || k == OP_ATTENTION)
        return strcmp(backend, "gallop") == 0 || strcmp(backend, "native") == 0;
    return linear_backend_known(backend);
}

static int set(struct opconf *c, enum op_kind k, const char *backend, struct err *e)
{
    if (!known(k, backend))
        return err_set(e, ERR_UNSUPPORTED, "backend %s for %s is not built in (gallop, native%s)", backend,
                       linear_kind_name(k), k == OP_ATTENTION ? ", jit, slab, paged" : "");
    c->backend[k] = arena_strndup(&c->arena, backend, strlen(backend));
    return c->backend[k] ? 0 : err_nomem(e, "the operator configuration");
}

static int read_object(struct opconf *c, json_t *o, struct err *e)
{
    const char *key;
    json_t *v;

    if (!json_is_object(o))
        return err_set(e, ERR_INPUT, "--op-config: an object of operator kind to backend is expected");
    json_object_foreach(o, key, v)
    {
        enum op_kind k;
        int rc;

        if (!kind_of(key, &k))
            return err_set(e, ERR_INPUT, "--op-config: operator kind \"%s\" is not known", key);
        if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
            return err_set(e, ERR_INPUT, "--op-config: the backend of %s is not a string%s", key,
                           json_is_string(v) ? " without NUL" : "");
        if ((rc = set(c, k, json_string_value(v), e)) != 0)
            return rc;
    }
    return 0;
}

int opconf_read(struct opconf *c, const char *json, const char *attention, struct err *e)
{
    int rc = 0;

    arena_init(&c->arena, MEM_ENGINE);
    if (json) {
        json_t *o;

        if ((rc = json_pull_load(&o, json, strlen(json), "--op-config", e)) != 0)
            return rc;
        rc = read_object(c, o, e);
        json_decref(o);
    }
    if (rc == 0 && attention)
        rc = set(c, OP_ATTENTION, attention, e);
    return rc;
}

void opconf_fit_attention(struct opconf *c, const char *kv_type)
{
    const char *wish = c->backend[OP_ATTENTION];

    for (int i = 0; wish && i < N_ATTENTION; i++) {
        if (strcmp(pace_attention[i].backend, wish) != 0)
            continue;
        for (int t = 0; t < 2; t++)
            if (pace_attention[i].types[t] && strcmp(pace_attention[i].types[t], kv_type) == 0)
                return;
        log_warn("attention backend %s does not serve the KV cache type %s: gallop is used", wish, kv_type);
        c->backend[OP_ATTENTION] = "gallop";
    }
}

void opconf_fini(struct opconf *c)
{
    arena_fini(&c->arena);
}
