/* source.c - asks whether the path means GGUF, and calls one reader or the other. */
#include "ckpt/source.h"

#include "base/mem.h"
#include "ckpt/gguf/gguf.h"

typedef int make_fn(json_t **out, struct gguf_set *s, struct err *e);

static int make_conf(json_t **out, struct gguf_set *s, struct err *e)
{
    const struct gguf_arch *arch;
    int rc = gguf_arch_of(&arch, s, e);

    *out = NULL;
    return rc ? rc : gguf_config_make(out, s, arch, e);
}

static int add_text(const char *s, size_t n, void *to)
{
    buf_add(to, s, n);
    return 0;
}

/* What MAKE reads out of the GGUF that IN means, as text. */
static int make_text(make_fn *make, struct folder in, struct buf *out, struct err *e)
{
    struct gguf_set s;
    json_t *o = NULL;
    int rc = gguf_set_open(&s, in, e);

    if (rc)
        return rc;
    rc = make(&o, &s, e);
    if (rc == 0 &&
        (json_dump_callback(o, add_text, out, JSON_COMPACT | JSON_REAL_PRECISION(17)) != 0 || out->oom))
        rc = err_nomem(e, in.path);
    json_decref(o);
    rc = gguf_set_checked(&s, rc, e);
    gguf_set_close(&s);
    return rc;
}

int source_conf(struct config **out, struct folder in, struct err *e)
{
    struct buf text;
    int rc;

    *out = NULL;
    if (!gguf_set_means(in, &rc, e))
        return config_open(out, in, "config.json", e);
    if (rc)
        return rc;
    buf_init(&text, MEM_CKPT);
    if ((rc = make_text(make_conf, in, &text, e)) == 0)
        rc = config_open_text(out, text.data, text.len, in.path, e);
    buf_fini(&text);
    return rc;
}

int source_tok(struct tok **out, struct folder in, struct err *e)
{
    struct gguf_set s;
    int rc;

    *out = NULL;
    if (!gguf_set_means(in, &rc, e))
        return tok_open(out, in, e);
    if (rc || (rc = gguf_set_open(&s, in, e)) != 0)
        return rc;
    if ((rc = gguf_set_checked(&s, gguf_tokenizer_open(out, &s, e), e)) != 0) {
        tok_close(*out);
        *out = NULL;
    }
    gguf_set_close(&s);
    return rc;
}

bool source_has_tok(struct folder in)
{
    struct gguf_set s;
    bool has;
    int rc;

    if (!gguf_set_means(in, &rc, NULL))
        return folder_has(in.path, "tokenizer.json");
    if (rc || gguf_set_open(&s, in, NULL) != 0)
        return false;
    has = gguf_has_tokenizer(&s);
    gguf_set_close(&s);
    return has;
}

int source_chat(struct chat **out, struct folder in, struct err *e)
{
    struct buf text;
    int rc;

    *out = NULL;
    if (!gguf_set_means(in, &rc, e))
        return chat_open(out, in, e);
    if (rc)
        return rc;
    buf_init(&text, MEM_CKPT);
    if ((rc = make_text(gguf_tokenizer_config, in, &text, e)) == 0)
        rc = chat_open_text(out, text.data, text.len, in.path, e);
    buf_fini(&text);
    return rc;
}

int source_generation(struct folder in, struct buf *out, struct err *e)
{
    int rc;

    if (!gguf_set_means(in, &rc, e) || rc)
        return rc;
    return make_text(gguf_generation, in, out, e);
}
