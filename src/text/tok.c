/* tok.c - the facade: encoding, look-ups, and the choice of the form that a path holds. */
#include "text/tok.h"

#include <string.h>

#include "base/utf8.h"
#include "text/detok.h"
#include "text/tokcore.h"
#include "text/tokfile.h"
#include "text/tokids.h"
#include "text/tokjson.h"

void tok_ids_fini(struct tok_ids *ids)
{
    mem_free(ids->id);
    *ids = (struct tok_ids){0};
}

void tok_close(struct tok *t)
{
    tokcore_free(t);
}

size_t tok_n_ids(const struct tok *t)
{
    return t->vocab.n_ids > t->added.n_by_id ? t->vocab.n_ids : t->added.n_by_id;
}

const char *tok_kind(const struct tok *t)
{
    return t->kind;
}

bool tok_id_of(const struct tok *t, const char *piece, size_t len, int32_t *id)
{
    uint32_t found;

    if (!tokvocab_find(&t->added.names, piece, len, &found) && !tokvocab_find(&t->vocab, piece, len, &found))
        return false;
    *id = (int32_t)found;
    return true;
}

bool tok_piece(const struct tok *t, int32_t id, const char **s, size_t *n)
{
    return id >= 0 && tokcore_string(t, (size_t)id, s, n);
}

bool tok_is_special(const struct tok *t, int32_t id)
{
    const struct tokadded_token *a = id >= 0 ? tokadded_get(&t->added, (size_t)id) : NULL;

    return a && a->special;
}

enum { LARGE_TEXT = 1 << 20 }; /* bytes; one hostile word of these needs 30 times as many */

/* One encoding on its way. */
struct encoding {
    const struct tok *t;
    struct tokcore_scratch *s;
    struct tok_ids *out;
    bool plain;
};

static int add_word(void *ctx, const char *word, size_t n, struct err *e)
{
    struct encoding *x = ctx;

    if (x->t->model == TOKCORE_BPE)
        return bpeword_encode(&x->t->bpe, x->s->bpe, word, n, x->out, e);
    return unigram_encode(&x->t->uni, &x->s->uni, word, n, x->out, e);
}

/* A stretch between tokens of the first set: normalises it, cuts out the second set, and encodes the rest. */
static int add_stretch(struct encoding *x, const char *s, size_t n, bool first, struct err *e)
{
    struct tokadded_iter it;
    struct tokadded_cut cut;
    int rc = normalize_run(&x->t->norm, &x->s->norm, s, n, &s, &n, e);

    if (rc)
        return rc;
    tokadded_start(&it, &x->t->added, true, x->plain, s, n);
    while (rc == 0 && tokadded_next(&it, &cut)) {
        if (!cut.token)
            rc = pretok_run(&x->t->pre, &x->s->pre, s + cut.begin, cut.end - cut.begin,
                            first && cut.begin == 0, add_word, x, e);
        else if (!tokids_add(x->out, &cut.token->id, 1))
            rc = err_nomem(e, "ids");
    }
    return rc;
}

static int add_text(struct encoding *x, const char *s, size_t n, struct err *e)
{
    struct tokadded_iter it;
    struct tokadded_cut cut;
    int rc = 0;

    tokadded_start(&it, &x->t->added, false, x->plain, s, n);
    while (rc == 0 && tokadded_next(&it, &cut)) {
        if (!cut.token)
            rc = add_stretch(x, s + cut.begin, cut.end - cut.begin, cut.begin == 0, e);
        else if (!tokids_add(x->out, &cut.token->id, 1))
            rc = err_nomem(e, "ids");
    }
    return rc;
}

static bool add_fixed(struct tok_ids *out, const struct tok_ids *ids)
{
    return ids->n == 0 || tokids_add(out, (const uint32_t *)ids->id, ids->n);
}

int tok_encode(const struct tok *t, const char *text, size_t len, unsigned flags, struct tok_ids *out,
               struct err *e)
{
    struct encoding x = {.t = t, .out = out, .plain = flags & TOK_PLAIN};
    bool special = flags & TOK_ADD_SPECIAL;
    size_t before = out->n;
    int rc = utf8_check(text, len, e);

    if (rc)
        return rc;
    x.s = tokcore_take(t);
    if (!x.s)
        return err_nomem(e, "tokenizer");
    x.s->large = len > LARGE_TEXT;
    if (special && !add_fixed(out, &t->prefix))
        rc = err_nomem(e, "ids");
    if (rc == 0)
        rc = add_text(&x, text, len, e);
    if (rc == 0 && special && !add_fixed(out, &t->suffix))
        rc = err_nomem(e, "ids");
    if (rc)
        out->n = before;
    tokcore_give(t, x.s);
    return rc;
}

int tok_decode(const struct tok *t, const int32_t *ids, size_t n, bool skip_special, struct buf *out,
               struct err *e)
{
    struct detok *d;
    int rc = detok_new(&d, t, skip_special, e);

    for (size_t i = 0; i < n && rc == 0; i++)
        rc = detok_put(d, ids[i], out, e);
    if (rc == 0)
        rc = detok_end(d, out, e);
    detok_free(d);
    return rc;
}

int tok_open_json(struct tok **out, const char *text, size_t len, const char *path, struct err *e)
{
    struct tok *t = tokcore_new();
    int rc = t ? tokjson_read(t, text, len, path, e) : err_nomem(e, path);

    *out = NULL;
    if (rc)
        tokcore_free(t);
    else
        *out = t;
    return rc;
}

int tok_open(struct tok **out, struct folder in, struct err *e)
{
    struct tok *t = tokcore_new();
    int rc = t ? tokfile_read(t, in, e) : err_nomem(e, in.path);

    *out = NULL;
    if (rc)
        tokcore_free(t);
    else
        *out = t;
    return rc;
}
