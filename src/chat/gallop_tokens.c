/* gallop_tokens.c - the functions of gallop.h that open and describe a model, tokenize and detokenize. */
#include <string.h>

#include "chat/texts.h"
#include "engine/engine.h"
#include "gallop.h"
#include "text/tok/ids.h"
#include "text/tok/tok.h"

int gallop_open(struct gallop **out, const struct gallop_options *o, char *err)
{
    struct texts *t = NULL;
    struct err e = {0};
    int rc = engine_open(out, o, NULL, &e);

    if (rc == 0 && ((rc = engine_read_embedder(*out, &e)) != 0 || (rc = texts_open(&t, *out, &e)) != 0)) {
        gallop_close(*out);
        *out = NULL;
    }
    if (rc == 0)
        engine_keep_texts(*out, t, texts_close);
    return engine_give(err, &e, rc);
}

void gallop_free(void *p)
{
    mem_free(p);
}

const struct gallop_model_info *gallop_describe(const struct gallop *g)
{
    return &engine_texts(g)->info;
}

/* Checks that FLAGS has only flags of KNOWN. */
static int check_flags(unsigned flags, unsigned known, struct err *e)
{
    return flags & ~known
               ? err_about(e, ERR_INPUT, "flags", "found %u, expected only flags of %u", flags, known)
               : 0;
}

/* ---- tokenizing ---- */

static int tokenize(struct texts *t, const char *text, size_t len, unsigned flags, struct tok_ids *ids,
                    struct err *e)
{
    unsigned how =
        (flags & GALLOP_ADD_SPECIAL ? TOK_ADD_SPECIAL : 0) | (flags & GALLOP_PLAIN_TEXT ? TOK_PLAIN : 0);
    int rc = check_flags(flags, GALLOP_ADD_SPECIAL | GALLOP_PLAIN_TEXT, e);

    if (rc == 0)
        rc = texts_need_tok(t, e);
    return rc ? rc : tok_encode(t->tok, text, len == SIZE_MAX ? strlen(text) : len, how, ids, e);
}

int gallop_tokenize(const struct gallop *g, const char *text, size_t len, unsigned flags, int32_t **ids,
                    size_t *n, char *err)
{
    struct tok_ids list = {0};
    struct err e = {0};
    int rc = tokenize(engine_texts(g), text, len, flags, &list, &e);

    if (rc || list.n == 0)
        tok_ids_fini(&list);
    *ids = rc || list.n == 0 ? NULL : list.id;
    *n = *ids ? list.n : 0;
    return engine_give(err, &e, rc);
}

int32_t gallop_token_id(const struct gallop *g, const char *piece, size_t len)
{
    const struct tok *tok = engine_texts(g)->tok;
    int32_t id;

    return tok && tok_id_of(tok, piece, len == SIZE_MAX ? strlen(piece) : len, &id) ? id : -1;
}

int gallop_token_piece(const struct gallop *g, int32_t id, const char **piece, size_t *len)
{
    const struct tok *tok = engine_texts(g)->tok;

    return tok && tok_piece(tok, id, piece, len);
}

size_t gallop_token_bytes(const struct gallop *g, int32_t id, char *out, size_t size)
{
    const struct tok *tok = engine_texts(g)->tok;

    return tok ? tok_text(tok, id, out, size) : 0;
}

/* ---- detokenizing ---- */

/* Checks FLAGS and that IDS [n] are in the vocabulary. */
static int check_ids(struct texts *t, const int32_t *ids, size_t n, unsigned flags, struct err *e)
{
    int rc = check_flags(flags, GALLOP_KEEP_SPECIAL, e);

    if (rc || (rc = texts_need_tok(t, e)) != 0)
        return rc;
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (size_t)ids[i] >= t->info.vocab_size)
            return err_about(e, ERR_INPUT, "ids",
                             "found the token %d at position %zu, expected one of 0 to %zu", ids[i], i,
                             t->info.vocab_size - 1);
    return 0;
}

int gallop_detokenize(const struct gallop *g, const int32_t *ids, size_t n, unsigned flags, char **text,
                      size_t *len, char *err)
{
    struct texts *t = engine_texts(g);
    struct buf out = {.tag = MEM_ENGINE};
    struct err e = {0};
    int rc = check_ids(t, ids, n, flags, &e);

    *text = NULL;
    *len = 0;
    if (rc == 0)
        rc = tok_decode(t->tok, ids, n, !(flags & GALLOP_KEEP_SPECIAL), &out, &e);
    if (rc == 0)
        rc = texts_give(&out, text, len, &e);
    buf_fini(&out);
    return engine_give(err, &e, rc);
}

struct gallop_detokenizer {
    struct texts *texts;
    struct tok_stream *stream;
    struct buf out; /* the text that the latest call returned */
};

int gallop_detokenizer_new(struct gallop_detokenizer **out, const struct gallop *g, unsigned flags, char *err)
{
    struct texts *t = engine_texts(g);
    struct gallop_detokenizer *d = NULL;
    struct err e = {0};
    int rc = check_ids(t, NULL, 0, flags, &e);

    if (rc == 0 && !(d = mem_zalloc(1, sizeof(*d), MEM_ENGINE)))
        rc = err_nomem(&e, "a detokenizer");
    if (rc == 0) {
        d->texts = t;
        d->out.tag = MEM_ENGINE;
        rc = tok_stream_new(&d->stream, t->tok, !(flags & GALLOP_KEEP_SPECIAL), &e);
    }
    if (rc) {
        gallop_detokenizer_free(d);
        d = NULL;
    }
    *out = d;
    return engine_give(err, &e, rc);
}

void gallop_detokenizer_free(struct gallop_detokenizer *d)
{
    if (!d)
        return;
    tok_stream_free(d->stream);
    buf_fini(&d->out);
    mem_free(d);
}

/* Sets *TEXT and *LEN to the decoded text d->out, or to an empty text if RC is an error. */
static int give_text(struct gallop_detokenizer *d, int rc, const char **text, size_t *len, struct err *e,
                     char *err)
{
    if (rc == 0 && d->out.oom)
        rc = err_nomem(e, "a text");
    *text = rc || !d->out.data ? "" : d->out.data;
    *len = rc ? 0 : d->out.len;
    return engine_give(err, e, rc);
}

int gallop_detokenizer_put(struct gallop_detokenizer *d, const int32_t *ids, size_t n, const char **text,
                           size_t *len, char *err)
{
    struct err e = {0};
    int rc = check_ids(d->texts, ids, n, 0, &e);

    buf_clear(&d->out);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = tok_stream_put(d->stream, ids[i], &d->out, &e);
    return give_text(d, rc, text, len, &e, err);
}

int gallop_detokenizer_end(struct gallop_detokenizer *d, const char **text, size_t *len, char *err)
{
    struct err e = {0};

    buf_clear(&d->out);
    return give_text(d, tok_stream_end(d->stream, &d->out, &e), text, len, &e, err);
}
