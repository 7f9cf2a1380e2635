/* source.c - asks whether the path means GGUF, and calls one reader or the other. */
#include "ckpt/source.h"

#include "base/mem.h"
#include "ckpt/ggufconf.h"
#include "ckpt/gguftok.h"
#include "ckpt/hfdir.h"

typedef int make_fn(json_t **out, struct ggufset *s, struct err *e);

static bool is_gguf(const char *path, int *rc, struct err *e)
{
    char file[HFDIR_PATH_MAX];

    return ggufset_means(path, file, sizeof(file), rc, e);
}

static int make_conf(json_t **out, struct ggufset *s, struct err *e)
{
    const struct ggufarch *arch;
    int rc = ggufarch_of(&arch, s, e);

    *out = NULL;
    return rc ? rc : ggufconf_make(out, s, arch, e);
}

static int add_text(const char *s, size_t n, void *to)
{
    buf_add(to, s, n);
    return 0;
}

/* What MAKE reads out of the GGUF at PATH, as text. */
static int make_text(make_fn *make, const char *path, struct buf *out, struct err *e)
{
    struct ggufset s;
    json_t *o = NULL;
    int rc = ggufset_open(&s, path, e);

    if (rc)
        return rc;
    rc = make(&o, &s, e);
    if (rc == 0 &&
        (json_dump_callback(o, add_text, out, JSON_COMPACT | JSON_REAL_PRECISION(17)) != 0 || out->oom))
        rc = err_nomem(e, path);
    json_decref(o);
    ggufset_close(&s);
    return rc;
}

int source_conf(struct conf **out, const char *path, struct err *e)
{
    struct buf text;
    int rc;

    *out = NULL;
    if (!is_gguf(path, &rc, e))
        return conf_open(out, path, "config.json", e);
    if (rc)
        return rc;
    buf_init(&text, MEM_CKPT);
    if ((rc = make_text(make_conf, path, &text, e)) == 0)
        rc = conf_open_text(out, text.data, text.len, path, e);
    buf_fini(&text);
    return rc;
}

int source_tok(struct tok **out, const char *path, struct err *e)
{
    struct ggufset s;
    int rc;

    *out = NULL;
    if (!is_gguf(path, &rc, e))
        return tok_open(out, path, e);
    if (rc || (rc = ggufset_open(&s, path, e)) != 0)
        return rc;
    rc = gguftok_open(out, &s, e);
    ggufset_close(&s);
    return rc;
}

bool source_has_tok(const char *path)
{
    struct ggufset s;
    bool has;
    int rc;

    if (!is_gguf(path, &rc, NULL))
        return hfdir_has(path, "tokenizer.json");
    if (rc || ggufset_open(&s, path, NULL) != 0)
        return false;
    has = gguftok_has(&s);
    ggufset_close(&s);
    return has;
}

int source_chat(struct chat **out, const char *path, struct err *e)
{
    struct buf text;
    int rc;

    *out = NULL;
    if (!is_gguf(path, &rc, e))
        return chat_open(out, path, e);
    if (rc)
        return rc;
    buf_init(&text, MEM_CKPT);
    if ((rc = make_text(gguftok_config, path, &text, e)) == 0)
        rc = chat_open_text(out, text.data, text.len, path, e);
    buf_fini(&text);
    return rc;
}

int source_generation(const char *path, struct buf *out, struct err *e)
{
    int rc;

    if (!is_gguf(path, &rc, e) || rc)
        return rc;
    return make_text(gguftok_generation, path, out, e);
}
