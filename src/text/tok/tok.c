/* tok.c - the life of a struct tok and of its scratches, encoding, look-ups and decoding. */
#include "text/tok/tok.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/utf8.h"
#include "text/tok/build.h"

struct tok *tok_new(void)
{
    struct tok *t = mem_zalloc(1, sizeof(*t), MEM_TEXT);

    if (!t)
        return NULL;
    t->eos = -1;
    arena_init(&t->arena, MEM_TEXT);
    vocab_init(&t->vocab);
    vocab_init(&t->added.names);
    return t;
}

static void scratch_free(struct tok_scratch *s)
{
    if (!s)
        return;
    normalize_work_fini(&s->norm);
    split_work_fini(&s->pre);
    pattern_work_free(s->re);
    bpe_work_free(s->bpe);
    unigram_work_fini(&s->uni);
    mem_free(s);
}

void tok_close(struct tok *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < TOK_POOL; i++)
        scratch_free(atomic_load(&t->idle[i]));
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

int tok_add_token(struct tok *t, struct tok_added a, const char *content, size_t n, struct err *e)
{
    size_t most = t->added.n_by_id; /* one past the largest added id */
    bool said = a.id != VOCAB_NONE;

    if (n == 0)
        return 0;
    if ((said || !vocab_find(&t->added.names, content, n, &a.id)) &&
        !vocab_find(&t->vocab, content, n, &a.id) && !said)
        a.id = (uint32_t)(most > t->vocab.n ? most : t->vocab.n);
    return tok_added_add(&t->added, a, content, n, e);
}

int tok_add_around(struct tok *t, int64_t before, int64_t after, struct err *e)
{
    uint32_t first = (uint32_t)before, last = (uint32_t)after;

    if ((before >= 0 && !tok_ids_add(&t->prefix, &first, 1)) ||
        (after >= 0 && !tok_ids_add(&t->suffix, &last, 1)))
        return err_nomem(e, "tokenizer");
    return 0;
}

/* How many times as long a text can become by step P. */
static size_t growth_of(const struct step *p)
{
    switch (p->kind) {
    case NORMALIZE_REPLACE:
    case SPLIT_REPLACE:
    case DECODE_REPLACE: /* an expression may match a byte, or nothing in front of each */
        return p->re ? 1 + p->text.n : 1 + (p->text.n - (p->text.n != 0)) / (p->find.n + !p->find.n);
    case NORMALIZE_PREPEND:
    case SPLIT_PREPEND: return 1 + p->text.n;
    case NORMALIZE_MAP_HF:
    case NORMALIZE_MAP_SPM: return 3; /* as long as a usual map's entries */
    case NORMALIZE_IDEOGRAPHS: return 2;
    default: return 1;
    }
}

int tok_add_step(struct steps *to, struct step step, const char *section, struct err *e)
{
    size_t growth = growth_of(&step), all;

    if (to->n == STEPS_MAX)
        return err_set(e, ERR_INPUT, "there are more than %d steps", (int)STEPS_MAX);
    if (__builtin_mul_overflow(growth, to->growth ? to->growth : 1, &all) || all > STEPS_GROWTH_MAX)
        return err_set(e, ERR_INPUT, "the steps can make a text more than %d times as long",
                       (int)STEPS_GROWTH_MAX);
    to->growth = all;
    if (!mem_grow((void **)&to->step, &to->cap, to->n + 1, sizeof(*to->step), MEM_TEXT))
        return err_nomem(e, section);
    to->step[to->n++] = step;
    return 0;
}

void tok_steps_fini(struct steps *s)
{
    mem_free(s->step);
    *s = (struct steps){0};
}

bool tok_is_among(const char *names, const char *name, size_t n)
{
    char word[80];

    if (n == 0 || n + 3 > sizeof(word) || memchr(name, ' ', n) || memchr(name, 0, n))
        return false;
    snprintf(word, sizeof(word), " %.*s ", (int)n, name);
    return strstr(names, word) != NULL;
}

int tok_add_split(struct tok *t, const char *pattern, size_t n, struct step step, struct err *e)
{
    int rc = pattern_add(&t->patterns, pattern, n, e);

    step.kind = SPLIT_MATCHES;
    step.re = t->patterns;
    return rc ? rc : tok_add_step(&t->pre.steps, step, "pre_tokenizer", e);
}

int tok_add_byte_level(struct tok *t, bool prefix_space, bool use_regex, struct err *e)
{
    static const char gpt2[] =
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    static const struct step space = {.kind = SPLIT_PREPEND, .text = {" ", 1}, .missing = true},
                             spell = {.kind = SPLIT_SPELL};
    int rc = 0;

    if (prefix_space)
        rc = tok_add_step(&t->pre.steps, space, "pre_tokenizer", e);
    if (rc == 0 && use_regex)
        rc = tok_add_split(t, gpt2, strlen(gpt2), (struct step){.behavior = SPLIT_ISOLATED}, e);
    for (size_t i = 0; i < t->pre.steps.n && rc == 0; i++)
        if (t->pre.steps.step[i].kind == SPLIT_SPELL)
            rc = err_set(e, ERR_UNSUPPORTED, "a pre_tokenizer with two ByteLevel steps is not understood");
    return rc ? rc : tok_add_step(&t->pre.steps, spell, "pre_tokenizer", e);
}

static bool is_known(const struct tok *t, const char *s, size_t n)
{
    int32_t id;

    return tok_id_of(t, s, n, &id);
}

int tok_add_settings(struct tok *t, const struct settings *c, struct err *e)
{
    int rc = 0;

    for (size_t i = 0; i < c->n_added && rc == 0; i++) {
        const struct settings_token *x = &c->added[i];
        struct tok_added a = {.special = x->special,
                              .lstrip = x->lstrip,
                              .rstrip = x->rstrip,
                              .single_word = x->single_word,
                              .normalized = x->normalized};

        if (x->id > VOCAB_MAX_ID)
            return err_set(e, ERR_INPUT, "%s: the id %lld of the added token %.*s is larger than %d", c->path,
                           (long long)x->id, (int)(x->n < 60 ? x->n : 60), x->content, (int)VOCAB_MAX_ID);
        if (x->of_class && !is_known(t, x->content, x->n))
            continue;
        a.id = x->id < 0 ? VOCAB_NONE : (uint32_t)x->id;
        rc = tok_add_token(t, a, x->content, x->n, e);
        if (rc)
            err_prefix(e, "%s: added tokens", c->path);
    }
    return rc;
}

static struct tok_scratch *take(const struct tok *t)
{
    struct tok *m = (struct tok *)(uintptr_t)t; /* the pool is the one part that changes */
    struct tok_scratch *s;

    for (size_t i = 0; i < TOK_POOL; i++)
        if (atomic_load_explicit(&m->idle[i], memory_order_relaxed) &&
            (s = atomic_exchange(&m->idle[i], NULL)) != NULL)
            return s;
    s = mem_zalloc(1, sizeof(*s), MEM_TEXT);
    if (!s)
        return NULL;
    s->re = pattern_work_new();
    if (!s->re || !split_work_init(&s->pre, &t->pre, s->re) ||
        (t->model == TOK_BPE && !(s->bpe = bpe_work_new(&t->bpe)))) {
        scratch_free(s);
        return NULL;
    }
    s->norm.re = s->re;
    return s;
}

static void give(const struct tok *t, struct tok_scratch *s)
{
    struct tok *m = (struct tok *)(uintptr_t)t;

    for (size_t i = 0; i < TOK_POOL && !s->large; i++) {
        struct tok_scratch *none = NULL;

        if (atomic_compare_exchange_strong(&m->idle[i], &none, s))
            return;
    }
    scratch_free(s);
}

/* The normal form of the token A, which *CONTENT becomes, is kept where it differs. */
static int normalize_added(struct tok *t, struct tok_scratch *s, struct tok_added *a, const char **content,
                           size_t *n, struct err *e)
{
    const char *made;
    size_t n_made;
    int rc = normalize_run(&t->norm, &s->norm, *content, *n, &made, &n_made, e);

    if (rc || (n_made == *n && memcmp(made, *content, *n) == 0))
        return rc;
    a->normal = (struct json_str){arena_strndup(&t->arena, made, n_made), n_made};
    *content = a->normal.s;
    *n = n_made;
    return a->normal.s ? 0 : err_nomem(e, "added tokens");
}

static int index_added(struct tok *t, struct err *e)
{
    struct tok_scratch *s = take(t);
    int rc = s ? 0 : err_nomem(e, "tokenizer");

    for (size_t k = 0; k < 2 * t->added.n && rc == 0; k++) {
        size_t i = k % t->added.n, n;
        const char *content;

        if (t->added.token[i].special != (k < t->added.n)) /* of equal patterns a special one wins */
            continue;
        if (!vocab_str(&t->added.names, t->added.token[i].id, &content, &n))
            continue;
        if (t->added.token[i].normalized)
            rc = normalize_added(t, s, &t->added.token[i], &content, &n, e);
        if (rc == 0)
            rc = tok_added_index(&t->added, i, content, n, e);
    }
    if (s)
        give(t, s);
    return rc;
}

int tok_seal(struct tok *t, struct err *e)
{
    int rc = decode_check(&t->chain, e);

    if (rc)
        return rc;
    split_seal(&t->pre);
    if (t->model == TOK_BPE) {
        t->bpe.byte_level = t->pre.bytes;
        if (t->bpe.byte_level && t->bpe.suffix.n)
            return err_set(e, ERR_UNSUPPORTED, "BPE over bytes with an end_of_word_suffix is not understood");
        rc = bpe_seal(&t->bpe, &t->vocab, e);
    } else {
        if (t->pre.bytes)
            return err_set(e, ERR_UNSUPPORTED,
                           "a unigram model behind a ByteLevel pre_tokenizer is not understood");
        rc = unigram_seal(&t->uni, &t->vocab, e);
    }
    return rc ? rc : index_added(t, e);
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

/* Bytes of a normalized text shrank from at most so many times as many; 0: from any number. NFC: a canonical
 * decomposition has at least a third of its character's bytes (U+212A), and at most three times as many as
 * its composition (UAX #15). */
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

/* The pre-tokenizer drops nothing of a text. */
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

/* A run of characters that the model does not know becomes one id, or none. */
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
    size_t most = 4 /* an unknown character */, times = shrinkage(&t->norm);

    if (!times || !keeps_all(&t->pre.steps) || swallows_unknown(t))
        return SIZE_MAX;
    for (size_t i = 0; i < a->n; i++)
        if (a->token[i].lstrip || a->token[i].rstrip) /* takes the blanks beside it, too */
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

bool tok_is_special(const struct tok *t, int32_t id)
{
    const struct tok_added *a = id >= 0 ? tok_added_get(&t->added, (size_t)id) : NULL;

    return a && a->special;
}

enum { LARGE_TEXT = 1 << 20 }; /* bytes; one hostile word of these needs 30 times as many */

/* One encoding on its way. */
struct encoding {
    const struct tok *t;
    struct tok_scratch *s;
    struct tok_ids *out;
    bool plain;
};

static int add_word(void *ctx, const char *word, size_t n, struct err *e)
{
    struct encoding *x = ctx;

    if (x->t->model == TOK_BPE)
        return bpe_encode(&x->t->bpe, x->s->bpe, word, n, x->out, e);
    return unigram_encode(&x->t->uni, &x->s->uni, word, n, x->out, e);
}

/* Cuts out the tokens of the first set; what lies between them is normalized, and the tokens of the second
 * set are cut out of that; the rest is words. FIRST: the user's text begins at S. */
static int add_text(struct encoding *x, bool normalized, const char *s, const char *origin, size_t n,
                    bool first, struct err *e)
{
    struct tok_added_iter it;
    struct tok_added_cut cut;
    size_t n_raw = n;
    int rc = normalized ? normalize_run(&x->t->norm, &x->s->norm, s, n, &s, &n, e) : 0;

    if (rc)
        return rc;
    tok_added_start(&it, &x->t->added, normalized, x->plain, s, n);
    if (normalized)
        it.plain |= origin && memchr(origin, 1, n_raw);
    else
        it.origin = origin;
    while (rc == 0 && tok_added_next(&it, &cut)) {
        const char *part = s + cut.begin;
        size_t len = cut.end - cut.begin;
        bool begins = first && cut.begin == 0;

        if (cut.token)
            rc = tok_ids_add(x->out, &cut.token->id, 1) ? 0 : err_nomem(e, "ids");
        else if (normalized)
            rc = split_run(&x->t->pre, &x->s->pre, part, len, begins, add_word, x, e);
        else
            rc = add_text(x, true, part, origin ? origin + cut.begin : NULL, len, begins, e);
    }
    return rc;
}

static int add_fixed(const struct tok_ids *ids, bool wanted, struct tok_ids *out, struct err *e)
{
    return !wanted || tok_ids_add(out, (const uint32_t *)ids->id, ids->n) ? 0 : err_nomem(e, "ids");
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
    size_t before = out->n;
    int rc = err_utf8(e, NULL, text, len);

    if (rc)
        return rc;
    x.s = take(t);
    if (!x.s)
        return err_nomem(e, "tokenizer");
    x.s->large = len > LARGE_TEXT;
    if ((rc = add_fixed(&t->prefix, special, out, e)) != 0 ||
        (rc = add_text(&x, false, text, origin, len, true, e)) != 0 ||
        (rc = add_fixed(&t->suffix, special, out, e)) != 0)
        out->n = before;
    give(t, x.s);
    return rc;
}

struct tok_stream {
    const struct tok *t; /* borrowed */
    bool skip_special;
    struct decode_run *run;
};

int tok_stream_new(struct tok_stream **out, const struct tok *t, bool skip_special, struct err *e)
{
    struct tok_stream *d = mem_zalloc(1, sizeof(*d), MEM_TEXT);

    *out = NULL;
    if (!d || !(d->run = decode_run_new(&t->chain))) {
        mem_free(d);
        return err_nomem(e, "decoder");
    }
    d->t = t;
    d->skip_special = skip_special;
    *out = d;
    return 0;
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
    const char *s;
    size_t n;

    if ((d->skip_special && tok_is_special(d->t, id)) || !tok_piece(d->t, id, &s, &n))
        return 0;
    return decode_put(d->run, s, n, out, e);
}

int tok_stream_end(struct tok_stream *d, struct buf *out, struct err *e)
{
    return decode_end(d->run, out, e);
}

int tok_decode(const struct tok *t, const int32_t *ids, size_t n, bool skip_special, struct buf *out,
               struct err *e)
{
    struct tok_stream *d;
    int rc = tok_stream_new(&d, t, skip_special, e);

    for (size_t i = 0; i < n && rc == 0; i++)
        rc = tok_stream_put(d, ids[i], out, e);
    if (rc == 0)
        rc = tok_stream_end(d, out, e);
    tok_stream_free(d);
    return rc;
}
