/* tokjson.c - the file as a whole, and the model in it.
 *
 * One pass: the vocabulary and the merges go into their tables as they are read. Only members that come
 * before what they need (merges before the vocabulary, added tokens before the model) are remembered as text
 * and read afterwards. "truncation" and "padding" are a caller's choice and not read, as transformers does
 * not apply them either. Format: the JSON of the Hugging Face tokenizers library, version 1.0.
 */
#include "text/tokjson.h"

#include <string.h>

#include "text/tokcomp.h"
#include "text/tokcore.h"
#include "text/tokjsondec.h"
#include "text/tokjsonnorm.h"
#include "text/tokjsonpost.h"
#include "text/tokjsonpre.h"
#include "text/tokmerge.h"

struct model {
    struct json_str type, unk_token, prefix, suffix, merges; /* merges: their text */
    bool has_vocab, list_vocab, has_merges, merges_read, byte_fallback;
    int64_t unk_id;
    bool has_unk_id;
};

static void stop(struct json_pull *j, int rc, const char *where)
{
    tokcomp_stop(j, rc, where);
}

static void read_vocab(struct json_pull *j, struct tok *t)
{
    struct json_str key;

    for (json_pull_enter_object(j); json_pull_key(j, &key);) {
        int64_t id;

        if (json_pull_i64(j, &id))
            stop(j, tokvocab_add(&t->vocab, key.s, key.n, id, j->e), "model.vocab");
    }
}

/* [["piece", -1.5], ...]: the unigram form. */
static void read_scored_vocab(struct json_pull *j, struct tok *t)
{
    struct unigram *u = &t->uni;

    for (json_pull_enter_array(j); json_pull_elem(j);) {
        struct json_str s;
        double score = 0;
        bool pair;

        json_pull_enter_array(j);
        pair = json_pull_elem(j) && json_pull_string(j, &s) && json_pull_elem(j) && json_pull_f64(j, &score);
        if (!pair || json_pull_elem(j)) {
            json_pull_fail(j, "an entry of a unigram vocabulary is a string and a score");
            return;
        }
        if (!mem_grow((void **)&u->score, &u->score_cap, u->n_score + 1, sizeof(*u->score), MEM_TEXT)) {
            stop(j, err_nomem(j->e, "model.vocab"), "model.vocab");
            return;
        }
        u->score[u->n_score] = score;
        stop(j, tokvocab_add(&t->vocab, s.s, s.n, (int64_t)u->n_score, j->e), "model.vocab");
        u->n_score++;
    }
}

/* One merge: "a b", or ["a", "b"]. */
static bool read_merge(struct json_pull *j, struct json_str *left, struct json_str *right)
{
    const char *space;

    if (json_pull_peek(j) == JSON_PULL_ARRAY) {
        json_pull_enter_array(j);
        if (json_pull_elem(j) && json_pull_string(j, left) && json_pull_elem(j) &&
            json_pull_string(j, right) && !json_pull_elem(j))
            return !j->rc;
        json_pull_fail(j, "a merge is a pair of strings");
        return false;
    }
    if (!json_pull_string(j, left))
        return false;
    space = memchr(left->s, ' ', left->n);
    if (!space || memchr(space + 1, ' ', left->n - (size_t)(space + 1 - left->s))) {
        json_pull_fail(j, "the merge \"%.*s\" is not two tokens with a space between",
                       (int)(left->n < 60 ? left->n : 60), left->s);
        return false;
    }
    right->s = space + 1;
    right->n = left->n - (size_t)(space + 1 - left->s);
    left->n = (size_t)(space - left->s);
    return true;
}

static void read_merges(struct json_pull *j, struct tok *t, const struct model *m)
{
    struct tokmerge to;

    t->bpe.n_added = 0;
    tokmerge_init(&to, &t->bpe, &t->vocab, m->prefix.n);
    for (json_pull_enter_array(j); json_pull_elem(j);) {
        struct json_str left, right;

        if (read_merge(j, &left, &right))
            stop(j, tokmerge_add(&to, left.s, left.n, right.s, right.n, j->e), "model.merges");
    }
    if (!j->rc)
        stop(j, tokmerge_end(&to, j->e), "model.merges");
    tokmerge_fini(&to);
}

static void read_flag(struct json_pull *j, bool *f)
{
    if (!json_pull_null(j))
        json_pull_bool(j, f);
}

static void read_name(struct json_pull *j, struct json_str *s)
{
    if (!json_pull_null(j))
        json_pull_string(j, s);
}

static void read_dropout(struct json_pull *j)
{
    double d = 0;

    if (!json_pull_null(j) && json_pull_f64(j, &d) && d != 0)
        json_pull_fail(j, "a BPE dropout of %g makes encoding random, which is not supported", d);
}

static void model_field(struct json_pull *j, struct tok *t, struct model *m, const struct json_str *key)
{
    if (json_str_is(key, "vocab")) {
        m->has_vocab = true;
        m->list_vocab = json_pull_peek(j) == JSON_PULL_ARRAY;
        if (m->list_vocab)
            read_scored_vocab(j, t);
        else
            read_vocab(j, t);
    } else if (json_str_is(key, "merges")) {
        json_pull_peek(j);
        m->has_merges = true;
        m->merges_read = m->has_vocab && !m->list_vocab;
        m->merges.s = j->p;
        if (m->merges_read)
            read_merges(j, t, m);
        else
            json_pull_skip(j);
    } else if (json_str_is(key, "type")) {
        read_name(j, &m->type);
    } else if (json_str_is(key, "unk_token")) {
        read_name(j, &m->unk_token);
    } else if (json_str_is(key, "continuing_subword_prefix")) {
        read_name(j, &m->prefix);
        m->merges_read = m->merges_read && m->prefix.n == 0; /* they were read in ignorance of it */
    } else if (json_str_is(key, "end_of_word_suffix")) {
        read_name(j, &m->suffix);
    } else if (json_str_is(key, "dropout")) {
        read_dropout(j);
    } else if (json_str_is(key, "fuse_unk")) {
        read_flag(j, &t->bpe.fuse_unk);
    } else if (json_str_is(key, "byte_fallback")) {
        read_flag(j, &m->byte_fallback);
    } else if (json_str_is(key, "ignore_merges")) {
        read_flag(j, &t->bpe.ignore_merges);
    } else if (json_str_is(key, "unk_id")) {
        m->has_unk_id = !json_pull_null(j) && json_pull_i64(j, &m->unk_id);
    } else {
        json_pull_skip(j);
    }
}

static bool keep_affix(struct json_pull *j, const struct json_str *s, char **to, size_t *n_to)
{
    if (!s->s || s->n == 0)
        return true;
    if (s->n > BPE_MAX_AFFIX) {
        json_pull_fail(j, "a subword prefix or suffix of %zu bytes; at most %d are read", s->n,
                       (int)BPE_MAX_AFFIX);
        return false;
    }
    *n_to = s->n;
    *to = mem_strndup(s->s, s->n, MEM_TEXT);
    if (!*to)
        stop(j, err_nomem(j->e, "model"), "model");
    return *to != NULL;
}

static void finish_bpe(struct json_pull *j, struct tok *t, const struct model *m)
{
    struct bpe *b = &t->bpe;
    struct json_pull merges;

    t->model = TOKCORE_BPE;
    b->byte_fallback = m->byte_fallback;
    b->has_unk = m->unk_token.s != NULL;
    b->unk = BPE_NONE;
    if (b->has_unk)
        tokvocab_find(&t->vocab, m->unk_token.s, m->unk_token.n, &b->unk);
    if (!keep_affix(j, &m->prefix, &b->prefix, &b->n_prefix) ||
        !keep_affix(j, &m->suffix, &b->suffix, &b->n_suffix))
        return;
    if (j->rc || m->merges_read)
        return;
    merges = *j;
    merges.p = m->merges.s;
    read_merges(&merges, t, m);
    if (merges.rc)
        *j = merges;
}

static void finish_unigram(struct json_pull *j, struct tok *t, const struct model *m)
{
    t->model = TOKCORE_UNIGRAM;
    t->uni.byte_fallback = m->byte_fallback;
    t->uni.has_unk = m->has_unk_id;
    if (m->has_unk_id && (m->unk_id < 0 || (uint64_t)m->unk_id >= t->vocab.n_ids))
        json_pull_fail(j, "unk_id %lld is not in the vocabulary", (long long)m->unk_id);
    t->uni.unk = (uint32_t)m->unk_id;
}

static void read_model(struct json_pull *j, struct tok *t)
{
    struct model m = {0};
    struct json_str key;

    for (json_pull_enter_object(j); json_pull_key(j, &key);)
        model_field(j, t, &m, &key);
    if (j->rc)
        return;
    if (!m.has_vocab)
        json_pull_fail(j, "the model has no vocab");
    else if (m.type.s ? json_str_is(&m.type, "BPE") : m.has_merges) {
        if (m.list_vocab || !m.has_merges)
            json_pull_fail(j, "a BPE model has a vocab object and merges");
        else
            finish_bpe(j, t, &m);
    } else if (m.type.s ? json_str_is(&m.type, "Unigram") : m.list_vocab) {
        if (!m.list_vocab)
            json_pull_fail(j, "a Unigram model has a vocab of pairs");
        else
            finish_unigram(j, t, &m);
    } else {
        struct tokcomp c = {.type = m.type.s ? m.type : (struct json_str){"without type", 12}};
        tokcomp_unknown(j, "model", &c);
    }
}

static void read_added_token(struct json_pull *j, struct tok *t)
{
    struct tokadded_token a = {.normalized = true};
    struct json_str key, content = {NULL, 0};

    for (json_pull_enter_object(j); json_pull_key(j, &key);) {
        if (json_str_is(&key, "content"))
            json_pull_string(j, &content);
        else if (json_str_is(&key, "special"))
            json_pull_bool(j, &a.special);
        else if (json_str_is(&key, "lstrip"))
            json_pull_bool(j, &a.lstrip);
        else if (json_str_is(&key, "rstrip"))
            json_pull_bool(j, &a.rstrip);
        else if (json_str_is(&key, "single_word"))
            json_pull_bool(j, &a.single_word);
        else if (json_str_is(&key, "normalized"))
            json_pull_bool(j, &a.normalized);
        else
            json_pull_skip(j);
    }
    if (!j->rc && !content.s)
        json_pull_fail(j, "an added token without content");
    if (!j->rc)
        stop(j, tokcore_add_token(t, a, content.s, content.n, j->e), "added_tokens");
}

/* Reads the added tokens, whose place in the file is TEXT, once the model is there. */
static void read_added(struct json_pull *j, struct tok *t, const struct json_str *text)
{
    struct json_pull list = *j;

    if (j->rc || !text->s)
        return;
    list.p = text->s;
    if (!json_pull_null(&list))
        for (json_pull_enter_array(&list); json_pull_elem(&list);)
            read_added_token(&list, t);
    if (list.rc)
        *j = list;
}

static int read_file(struct json_pull *j, struct tok *t)
{
    struct json_str key, added = {NULL, 0};
    bool model = false, decoder = false;

    for (json_pull_enter_object(j); json_pull_key(j, &key);) {
        if (json_str_is(&key, "added_tokens")) {
            added = json_pull_raw(j);
        } else if (json_str_is(&key, "normalizer")) {
            tokjsonnorm_read(j, t);
        } else if (json_str_is(&key, "pre_tokenizer")) {
            tokjsonpre_read(j, t);
        } else if (json_str_is(&key, "post_processor")) {
            tokjsonpost_read(j, t);
        } else if (json_str_is(&key, "decoder")) {
            decoder = true;
            tokjsondec_read(j, t);
        } else if (json_str_is(&key, "model") && !model) {
            model = true;
            read_model(j, t);
        } else {
            json_pull_skip(j);
        }
    }
    json_pull_finish(j);
    if (!j->rc && !model)
        json_pull_fail(j, "there is no model in this tokenizer.json");
    if (!j->rc && !decoder)
        stop(j, detokchain_add(&t->chain, (struct detokchain_step){.kind = DETOKCHAIN_JOIN}, j->e),
             "decoder");
    read_added(j, t, &added);
    return j->rc;
}

int tokjson_read(struct tok *t, const char *text, size_t len, const char *path, struct err *e)
{
    struct arena arena;
    struct json_pull j;
    int rc;

    arena_init(&arena, MEM_TEXT);
    rc = json_pull_open(&j, text, len, path, &arena, e);
    if (rc == 0 && len > 1 << 20)
        tokvocab_reserve(&t->vocab, len / 64); /* a guess; if it fails, so will something that reports it */
    if (rc == 0)
        rc = read_file(&j, t);
    if (rc == 0 && (rc = tokcore_seal(t, e)) != 0)
        err_prefix(e, "%s", path);
    arena_fini(&arena);
    return rc;
}
