/* kv_sparse.c - parses the option kv_sparse, and sets the windows and sinks of a model's layers. */
#include "engine/kv_sparse.h"

#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/log.h"
#include "model/model.h"
#include "ops/rope.h"

enum { MOST = 1 << 30 };

/* Parses NAME (such as "sink=") and a number at *P, and moves *P after them. Returns false if the text at *P
 * differs. */
static bool read_number(const char **p, const char *name, size_t *value)
{
    const char *at, *begin;

    if (strncmp(*p, name, strlen(name)) != 0)
        return false;
    at = begin = *p + strlen(name);
    for (*value = 0; *at >= '0' && *at <= '9' && *value <= MOST; at++)
        *value = *value * 10 + (size_t)(*at - '0');
    *p = at;
    return at > begin && *value <= MOST;
}

int kv_sparse_read(struct kv_sparse *s, const char *text, struct err *e)
{
    bool sink = false, window = false, good = true;
    const char *p = text;

    *s = (struct kv_sparse){0};
    if (!text)
        return 0;
    for (int i = 0; i < 2 && good; i++) {
        good = i == 0 || *p++ == ',';
        if (good && !window && read_number(&p, "window=", &s->window))
            window = true;
        else
            good = good && !sink && (sink = read_number(&p, "sink=", &s->sink));
    }
    if (!good || *p || s->window == 0)
        return err_about(
            e, ERR_INPUT, "kv_sparse",
            "found \"%.60s\", expected sink=N,window=N in either order, with a window of 1 or more", text);
    return 0;
}

/* Refuses models whose KV rows depend on absolute positions or on the length of the sequence. */
static int check(const struct model *m, struct err *e)
{
    if (m->info.fixed_positions)
        return err_about(e, ERR_UNSUPPORTED, "kv_sparse",
                         "not supported for %s, whose position embeddings are learned or a fixed table",
                         m->arch->class_name);
    for (size_t r = 0; r < m->info.n_ropes; r++)
        if (m->info.rope[r].type == ROPE_DYNAMIC)
            return err_about(
                e, ERR_UNSUPPORTED, "kv_sparse",
                "not supported for this model, whose RoPE (dynamic NTK) depends on the length of the "
                "sequence");
    return 0;
}

int kv_sparse_apply(const struct kv_sparse *s, struct model *m, struct err *e)
{
    struct model_info *i = &m->info;
    size_t *window, *sink, n = 0;
    int rc;

    if (!s->window)
        return 0;
    if (m->bidirectional)
        return err_about(e, ERR_UNSUPPORTED, "kv_sparse",
                         "not supported for this model, which has bidirectional attention");
    if ((rc = check(m, e)) != 0)
        return rc;
    window = arena_zalloc(&m->arena, i->n_layers, sizeof(*window));
    sink = arena_zalloc(&m->arena, i->n_layers, sizeof(*sink));
    if (!window || !sink)
        return err_nomem(e, "the windows");
    for (size_t l = 0; l < i->n_layers; l++) {
        size_t own = i->window ? i->window[l] : 0;
        bool keeps = own && (own == i->chunk || own <= s->sink + s->window);

        window[l] = keeps ? own : s->window;
        sink[l] = keeps ? 0 : s->sink;
        n += !keeps;
    }
    i->window = window;
    i->sink = sink;
    if (n == 0)
        log_warn("kv_sparse has no effect: every layer of the model has a window that is not longer");
    else
        log_warn("kv_sparse: %zu of %zu layers see only the first %zu and the last %zu rows of a sequence", n,
                 i->n_layers, s->sink, s->window);
    return 0;
}
