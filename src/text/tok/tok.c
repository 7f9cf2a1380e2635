/* tok.c - encodes texts, decodes ids, and looks up the strings of a vocabulary. */
#include "text/tok/tok.h"

#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/utf8.h"
#include "text/tok/build.h"
#include "text/tok/decode.h"
#include "text/tok/pattern.h"

void tok_ids_fini(struct tok_ids *ids)
{
    mem_free(ids->id);
    *ids = (struct tok_ids){0};
}

void tok_close(struct tok *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < TOK_POOL; i++)
        tok_scratch_free(atomic_load(&t->idle[i]));
    vocab_fini(&t->vocab);
    tok_added_fini(&t->added);
    pattern_free(t->patterns);
    arena_fini(&t->arena);
    tok_steps_fini(&t->norm);
    tok_steps_fini(&t->pre.steps);
    bpe_fini(&t->bpe);
    unigram_fini(&t->uni);
    tok_steps_fini(&t->chain);
    tok_ids_fini(&t->prefix);
    tok_ids_fini(&t->suffix);
    mem_free(t);
}

static bool string_of(const struct tok *t, size_t id, const char **s, size_t *n)
{
    const struct tok_added *a = tok_added_get(&t->added, id);

    if (a && a->normal.s) {
        *s = a->normal.s;
        *n = a->normal.n;
        return true;
    }
    if (a)
        return vocab_str(&t->added.names, id, s, n);
    return vocab_str(&t->vocab, id, s, n);
}

/* Returns the largest factor by which normalization makes a text shorter; 0: no bound is known. NFC: a
 * canonical decomposition has at least a third of its character's bytes (U+212A), and at most three times the
 * bytes of its composition (UAX #15). */
static size_t shrinkage(const struct steps *norm)
{
    size_t times = 1;

    for (size_t i = 0; i < norm->n; i++) {
        const struct step *s = &norm->step[i];

        if (s->kind == NORMALIZE_FORM && s->form == NORMALIZE_NFC && times == 1)
            times = 9;
        else if (s->kind != NORMALIZE_PREPEND &&
                 !(s->kind == NORMALIZE_REPLACE && !s->re && s->text.n >= s->find.n))
            return 0;
    }
    return times;
}

/* True if the pre-tokenizer removes no part of a text. */
static bool keeps_all(const struct steps *pre)
{
    for (size_t i = 0; i < pre->n; i++) {
        const struct step *s = &pre->step[i];

        if (s->kind == SPLIT_REPLACE
                ? s->re || s->text.n < s->find.n
                : s->kind != SPLIT_PREPEND && s->kind != SPLIT_SPELL && s->behavior == SPLIT_REMOVED)
            return false;
    }
    return true;
}

/* True if the model may encode a run of unknown characters as one id, or as no id. */
static bool swallows_unknown(const struct tok *t)
{
    const uint32_t *id = t->model == TOK_UNIGRAM ? t->uni.fallback : t->bpe.symbol;
    bool all = t->model == TOK_UNIGRAM ? t->uni.byte_fallback : t->bpe.byte_level;

    if (t->model == TOK_BPE && (t->bpe.all_fallback || (t->bpe.has_unk && !t->bpe.fuse_unk)))
        return false;
    for (size_t i = 0; i < 256; i++)
        all = all && id[i] != VOCAB_NONE;
    return !all;
}

size_t tok_most_bytes(const struct tok *t)
{
    const struct tok_added_set *a = &t->added;
    size_t most = 4 /* bytes of an unknown character */, times = shrinkage(&t->norm);

    if (!times || !keeps_all(&t->pre.steps) || swallows_unknown(t))
        return SIZE_MAX;
    for (size_t i = 0; i < a->n; i++)
        if (a->token[i].lstrip || a->token[i].rstrip) /* the token also includes the blanks beside it */
            return SIZE_MAX;
    most = t->vocab.longest > most ? t->vocab.longest : most;
    most = a->raw.longest > most ? a->raw.longest : most;
    most = a->normalized.longest > most ? a->normalized.longest : most;
    return most * times;
}

const char *tok_kind(const struct tok *t)
{
    if (t->model == TOK_UNIGRAM)
        return t->uni.byte_fallback ? "unigram (byte fallback)" : "unigram";
    return t->bpe.byte_level ? "bpe (byte-level)" : t->bpe.byte_fallback ? "bpe (byte fallback)" : "bpe";
}

bool tok_id_of(const struct tok *t, const char *piece, size_t len, int32_t *id)
{
    uint32_t found;

    if (!vocab_find(&t->added.names, piece, len, &found) && !vocab_find(&t->vocab, piece, len, &found))
        return false;
    *id = (int32_t)found;
    return true;
}

int32_t tok_eos(const struct tok *t)
{
    return t->eos;
}

bool tok_piece(const struct tok *t, int32_t id, const char **s, size_t *n)
{
    return id >= 0 && string_of(t, (size_t)id, s, n);
}

size_t tok_n_ids(const struct tok *t)
{
    return t->vocab.n_ids > t->added.names.n_ids ? t->vocab.n_ids : t->added.names.n_ids;
}

void tok_bytes(const struct tok *t, int32_t id, struct buf *out)
{
    struct buf bytes = {.tag = MEM_TEXT};
    const char *s;
    size_t n;

    if (tok_piece(t, id, &s, &n) && decode_part_of_character(&t->chain, s, n, &bytes)) {
        buf_clear(out);
        buf_add(out, bytes.data, bytes.len);
    }
    out->oom |= bytes.oom;
    buf_fini(&bytes);
}

size_t tok_text(const struct tok *t, int32_t id, char *out, size_t size)
{
    const char *s;
    size_t n;

    return tok_piece(t, id, &s, &n) ? decode_inside(&t->chain, s, n, out, size) : 0;
}

bool tok_is_special(const struct tok *t, int32_t id)
{
    const struct tok_added *a = id >= 0 ? tok_added_get(&t->added, (size_t)id) : NULL;

    return a && a->special;
}

size_t tok_special_prefix(const struct tok *t, const char *text)
{
    size_t n = strlen(text);
    int32_t id;

    while (n > 0 && !(tok_id_of(t, text, n, &id) && tok_is_special(t, id)))
        n--;
    return n;
}

/* In bytes. A hostile word of this size needs 30 times as much memory to encode. */
enum { LARGE_TEXT = 1 << 20 };

/* The state of one encoding. */
struct encoding {
    const struct tok *t;
    struct tok_scratch *s;
    struct tok_ids *out;
    bool plain;
};

static int encode_word(void *ctx, const char *word, size_t n, struct err *e)
{
    struct encoding *x = ctx;

    if (x->t->model == TOK_BPE)
        return bpe_encode(&x->t->bpe, x->s->bpe, word, n, x->out, e);
    return unigram_encode(&x->t->uni, &x->s->uni, word, n, x->out, e);
}

/* Encodes S. NORMALIZED false: cuts out the added tokens that are searched in original text, and encodes the
 * parts between them recursively. NORMALIZED true: normalizes S, cuts out the added tokens that are searched
 * in normalized text, and encodes the rest as words. START: see split_run(). */
static int encode_text(struct encoding *x, bool normalized, const char *s, const char *origin, size_t n,
                       size_t start, struct err *e)
{
    struct tok_added_iter it;
    struct tok_added_cut cut;
    struct json_str text = {s, n};
    int rc = normalized ? normalize_run(&x->t->norm, &x->s->norm, &text, start ? &start : NULL, e) : 0;

    if (rc)
        return rc;
    tok_added_start(&it, &x->t->added, normalized, x->plain, text.s, text.n);
    if (normalized)
        it.plain |= origin && memchr(origin, 1, n);
    else
        it.origin = origin;
    while (rc == 0 && tok_added_next(&it, &cut)) {
        const char *part = text.s + cut.begin;
        size_t len = cut.end - cut.begin, begins = start > cut.begin ? start - cut.begin : 0;

        if (cut.token)
            rc = tok_ids_add(x->out, &cut.token->id, 1) ? 0 : err_nomem(e, "ids");
        else if (normalized)
            rc = split_run(&x->t->pre, &x->s->pre, part, len, begins, encode_word, x, e);
        else
            rc = encode_text(x, true, part, origin ? origin + cut.begin : NULL, len, begins, e);
    }
    return rc;
}

static int add_fixed(const struct tok_ids *ids, bool wanted, struct tok_ids *out, struct err *e)
{
    return !wanted || tok_ids_add(out, (const uint32_t *)ids->id, ids->n) ? 0 : err_nomem(e, "ids");
}

void tok_n_around(const struct tok *t, size_t *before, size_t *behind)
{
    *before = t->prefix.n;
    *behind = t->suffix.n;
}

int tok_encode(const struct tok *t, const char *text, size_t len, unsigned flags, struct tok_ids *out,
               struct err *e)
{
    return tok_encode_marked(t, text, NULL, len, flags, out, e);
}

int tok_encode_marked(const struct tok *t, const char *text, const char *origin, size_t len, unsigned flags,
                      struct tok_ids *out, struct err *e)
{
    struct encoding x = {.t = t, .out = out, .plain = (flags & TOK_PLAIN) || t->split_special};
    bool special = flags & TOK_ADD_SPECIAL;
    size_t before = out->n, start = 0;
    int rc = err_utf8(e, NULL, text, len);

    if (rc)
        return rc;
    x.s = tok_scratch_take(t);
    if (!x.s)
        return err_nomem(e, "tokenizer");
    x.s->large = len > LARGE_TEXT;
    if (len)
        utf8_decode(text, &start);
    if ((rc = add_fixed(&t->prefix, special, out, e)) != 0 ||
        (rc = encode_text(&x, false, text, origin, len, start, e)) != 0 ||
        (rc = add_fixed(&t->suffix, special, out, e)) != 0)
        out->n = before;
    tok_scratch_give(t, x.s);
    return rc;
}

struct tok_stream {
    const struct tok *t; /* borrowed */
    bool skip_special;
    struct decode_run *run;
    size_t n_special; /* the number of special tokens that tok_stream_n_special() returns */
};

static int stream_new(struct tok_stream **out, const struct tok *t, bool skip_special, bool whole,
                      struct err *e)
{
    struct tok_stream *d = mem_zalloc(1, sizeof(*d), MEM_TEXT);

    *out = NULL;
    if (!d || !(d->run = decode_run_new(&t->chain, whole))) {
        mem_free(d);
        return err_nomem(e, "decoder");
    }
    d->t = t;
    d->skip_special = skip_special;
    *out = d;
    return 0;
}

int tok_stream_new(struct tok_stream **out, const struct tok *t, bool skip_special, struct err *e)
{
    return stream_new(out, t, skip_special, false, e);
}

void tok_stream_free(struct tok_stream *d)
{
    if (!d)
        return;
    decode_run_free(d->run);
    mem_free(d);
}

int tok_stream_put(struct tok_stream *d, int32_t id, struct buf *out, struct err *e)
{
    bool special = tok_is_special(d->t, id);
    const char *s;
    size_t n;
    int rc;

    d->n_special = 0;
    if ((d->skip_special && special) || !tok_piece(d->t, id, &s, &n))
        return 0;
    rc = decode_put(d->run, s, n, special, out, e);
    d->n_special = decode_n_special(d->run);
    return rc;
}

int tok_stream_end(struct tok_stream *d, struct buf *out, struct err *e)
{
    int rc = decode_end(d->run, out, e);

    d->n_special = decode_n_special(d->run);
    return rc;
}

size_t tok_stream_n_special(const struct tok_stream *d)
{
    return d->n_special;
}

int tok_stream_copy(struct tok_stream *to, const struct tok_stream *from, struct err *e)
{
    return decode_copy(to->run, from->run, e);
}

int tok_decode(const struct tok *t, const int32_t *ids, size_t n, bool skip_special, struct buf *out,
               struct err *e)
{
    struct tok_stream *d;
    int rc = stream_new(&d, t, skip_special, true, e);

    for (size_t i = 0; i < n && rc == 0; i++)
        rc = tok_stream_put(d, ids[i], out, e);
    if (rc == 0)
        rc = tok_stream_end(d, out, e);
    tok_stream_free(d);
    return rc;
}
