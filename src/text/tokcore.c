/* tokcore.c - the life of a struct tok and of its scratches. */
#include "text/tokcore.h"

#include <stdio.h>
#include <string.h>

struct tok *tokcore_new(void)
{
    struct tok *t = mem_zalloc(1, sizeof(*t), MEM_TEXT);

    if (!t)
        return NULL;
    tokvocab_init(&t->vocab);
    tokadded_init(&t->added);
    return t;
}

static void scratch_free(struct tokcore_scratch *s)
{
    if (!s)
        return;
    normalize_work_fini(&s->norm);
    pretok_work_fini(&s->pre);
    pretokre_work_free(s->re);
    bpeword_work_free(s->bpe);
    unigram_work_fini(&s->uni);
    mem_free(s);
}

void tokcore_free(struct tok *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < TOKCORE_POOL; i++)
        scratch_free(atomic_load(&t->idle[i]));
    tokvocab_fini(&t->vocab);
    tokadded_fini(&t->added);
    normalize_fini(&t->norm);
    pretok_fini(&t->pre);
    bpe_fini(&t->bpe);
    unigram_fini(&t->uni);
    detokchain_fini(&t->chain);
    tok_ids_fini(&t->prefix);
    tok_ids_fini(&t->suffix);
    mem_free(t);
}

int tokcore_add_token(struct tok *t, struct tokadded_token a, const char *content, size_t n, struct err *e)
{
    size_t most = t->added.n_by_id; /* one past the largest added id */

    if (n == 0)
        return 0;
    if (!tokvocab_find(&t->added.names, content, n, &a.id) && !tokvocab_find(&t->vocab, content, n, &a.id))
        a.id = (uint32_t)(most > t->vocab.n ? most : t->vocab.n);
    return tokadded_add(&t->added, a, content, n, e);
}

int tokcore_add_token_at(struct tok *t, struct tokadded_token a, const char *content, size_t n, struct err *e)
{
    if (n == 0)
        return 0;
    tokvocab_find(&t->vocab, content, n, &a.id);
    return tokadded_add(&t->added, a, content, n, e);
}

static int index_added(struct tok *t, struct err *e)
{
    struct tokcore_scratch *s = tokcore_take(t);
    int rc = s ? 0 : err_nomem(e, "tokenizer");

    for (size_t k = 0; k < 2 * t->added.n && rc == 0; k++) {
        size_t i = k % t->added.n, n;
        const char *content;

        if (t->added.token[i].special != (k < t->added.n)) /* of equal patterns a special one wins */
            continue;
        if (!tokvocab_str(&t->added.names, t->added.token[i].id, &content, &n))
            continue;
        if (t->added.token[i].normalized)
            rc = normalize_run(&t->norm, &s->norm, content, n, &content, &n, e);
        if (rc == 0)
            rc = tokadded_index(&t->added, i, content, n, e);
    }
    if (s)
        tokcore_give(t, s);
    return rc;
}

int tokcore_seal(struct tok *t, struct err *e)
{
    int rc;

    pretok_seal(&t->pre, t->spelled);
    if (t->model == TOKCORE_BPE) {
        t->bpe.byte_level = t->pre.bytes;
        if (t->bpe.byte_level && (t->bpe.prefix || t->bpe.suffix))
            return err_set(
                e, ERR_UNSUPPORTED,
                "BPE over bytes with a continuing_subword_prefix or end_of_word_suffix is not understood");
        rc = bpe_seal(&t->bpe, &t->vocab, e);
        snprintf(t->kind, sizeof(t->kind), "bpe%s",
                 t->bpe.byte_level      ? " (byte-level)"
                 : t->bpe.byte_fallback ? " (byte fallback)"
                                        : "");
    } else {
        if (t->pre.bytes)
            return err_set(e, ERR_UNSUPPORTED,
                           "a unigram model behind a ByteLevel pre_tokenizer is not understood");
        rc = unigram_seal(&t->uni, &t->vocab, e);
        snprintf(t->kind, sizeof(t->kind), "unigram%s", t->uni.byte_fallback ? " (byte fallback)" : "");
    }
    return rc ? rc : index_added(t, e);
}

struct tokcore_scratch *tokcore_take(const struct tok *t)
{
    struct tok *m = (struct tok *)(uintptr_t)t; /* the pool is the one part that changes */
    struct tokcore_scratch *s;

    for (size_t i = 0; i < TOKCORE_POOL; i++)
        if (atomic_load_explicit(&m->idle[i], memory_order_relaxed) &&
            (s = atomic_exchange(&m->idle[i], NULL)) != NULL)
            return s;
    s = mem_zalloc(1, sizeof(*s), MEM_TEXT);
    if (!s)
        return NULL;
    s->re = pretokre_work_new();
    if (!s->re || !pretok_work_init(&s->pre, &t->pre, s->re) ||
        (t->model == TOKCORE_BPE && !(s->bpe = bpeword_work_new(&t->bpe)))) {
        scratch_free(s);
        return NULL;
    }
    s->norm.re = s->re;
    return s;
}

void tokcore_give(const struct tok *t, struct tokcore_scratch *s)
{
    struct tok *m = (struct tok *)(uintptr_t)t;

    for (size_t i = 0; i < TOKCORE_POOL && !s->large; i++) {
        struct tokcore_scratch *none = NULL;

        if (atomic_compare_exchange_strong(&m->idle[i], &none, s))
            return;
    }
    scratch_free(s);
}

bool tokcore_string(const struct tok *t, size_t id, const char **s, size_t *n)
{
    if (tokadded_get(&t->added, id))
        return tokvocab_str(&t->added.names, id, s, n);
    return tokvocab_str(&t->vocab, id, s, n);
}
