/* gguf.c - builds a tokenizer from the metadata of a GGUF file: first the vocabulary and the types, then the
 * parts that depend on the kind of model.
 *
 * The kinds are "gpt2" (byte-level BPE with merges; tokenizer.ggml.pre names the pre-tokenizer, and family.c
 * must have that name) and "llama" (SentencePiece BPE with scores and byte pieces). The ids of a text are the
 * same as in the Hugging Face library with the tokenizer from which the file was converted, as far as the
 * metadata describe that tokenizer.
 */
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/utf8.h"
#include "text/tok/added.h"
#include "text/tok/bpe.h"
#include "text/tok/build.h"
#include "text/tok/formats/family.h"
#include "text/tok/formats/readers.h"
#include "text/tok/tok.h"
#include "text/tok/vocabulary.h"

enum { MAX_TOKEN = 1024 };

static const char meta_space[] = "\xe2\x96\x81";

struct work {
    const struct tok_gguf *g;
    struct tok *t;
    unsigned char *type; /* [n_tokens] */
    float *score;        /* [n_tokens] */
    struct err *e;
};

static int read_types(struct work *w)
{
    const struct tok_gguf *g = w->g;

    w->type = mem_zalloc(g->n_tokens, 1, MEM_TEXT);
    w->score = mem_zalloc(g->n_tokens, sizeof(float), MEM_TEXT);
    if (!w->type || !w->score)
        return err_nomem(w->e, "tokenizer.ggml.tokens");
    for (size_t i = 0; i < g->n_tokens; i++) {
        uint32_t type = TOK_PIECE_NORMAL;

        if (g->type) /* little-endian, like the supported machines */
            memcpy(&type, g->type + 4 * i, 4);
        if (g->score)
            memcpy(&w->score[i], g->score + 4 * i, 4);
        if (type > TOK_PIECE_BYTE)
            return err_set(w->e, ERR_INPUT, "tokenizer.ggml.token_type of token %zu is %u; expected 0 to %d",
                           i, type, TOK_PIECE_BYTE);
        w->type[i] = (unsigned char)(type ? type : TOK_PIECE_NORMAL);
        if (isnan(w->score[i]))
            return err_set(w->e, ERR_INPUT, "tokenizer.ggml.scores of token %zu is NaN", i);
    }
    return 0;
}

static int check_token(const struct work *w, size_t i)
{
    const struct json_str *s = &w->g->token[i];

    if (s->n > MAX_TOKEN || utf8_valid_prefix(s->s, s->n) != s->n)
        return err_set(w->e, ERR_INPUT, "tokenizer.ggml.tokens: token %zu is not UTF-8 of at most %d bytes",
                       i, MAX_TOKEN);
    return 0;
}

/* True if the special token S includes the blanks after it (rstrip). Some special tokens of Phi-3 do not. */
static bool strips(const struct tok_gguf *g, const struct json_str *s)
{
    static const char *const silent[] = {"<unk>", "<s>", "<|endoftext|>", "<|endofprompt|>",
                                         "<|startoftext|>"};

    if (!g->rstrip || g->lstrip)
        return g->rstrip;
    for (size_t i = 0; i < sizeof(silent) / sizeof(*silent); i++)
        if (json_str_is(s, silent[i]))
            return false;
    return true;
}

/* ---- gpt2 ---- */

static int add_tokens(struct work *w)
{
    int rc = 0;

    for (size_t i = 0; i < w->g->n_tokens && rc == 0; i++) {
        const struct json_str *s = &w->g->token[i];
        struct tok_added a = {.id = (uint32_t)i, .special = w->type[i] != TOK_PIECE_USER_DEFINED};

        if (s->n == 0 || w->type[i] == TOK_PIECE_UNUSED)
            continue;
        if ((rc = check_token(w, i)) != 0)
            return rc;
        a.lstrip = w->g->lstrip;
        a.rstrip = strips(w->g, s);
        if (w->type[i] == TOK_PIECE_NORMAL || w->type[i] == TOK_PIECE_BYTE)
            rc = vocab_add_new(&w->t->vocab, s->s, s->n, (int64_t)i, w->e);
        else
            rc = tok_added_add(&w->t->added, a, s->s, s->n, w->e);
    }
    return rc;
}

static int add_merges(struct work *w)
{
    struct bpe_merges to;
    int rc = 0;

    if (w->g->n_merges == 0) /* without merges every text would become single bytes */
        return err_set(w->e, ERR_INPUT,
                       "tokenizer.ggml.merges is missing or empty; tokenizer.ggml.model \"gpt2\" "
                       "needs it");
    bpe_merges_init(&to, &w->t->bpe, &w->t->vocab);
    for (size_t i = 0; i < w->g->n_merges && rc == 0; i++)
        rc = bpe_merges_add_line(&to, w->g->merge[i].s, w->g->merge[i].n, w->e);
    if (rc == 0)
        rc = bpe_merges_end(&to, w->e);
    if (rc)
        err_prefix(w->e, "tokenizer.ggml.merges");
    bpe_merges_fini(&to);
    return rc;
}

static int choose_family(const struct work *w, const struct family **f)
{
    const struct json_str *pre = &w->g->pre;

    if (!pre->s)
        log_warn(
            "%s: tokenizer.ggml.pre is missing: text is cut into words by llama.cpp's default pre-tokenizer",
            w->g->path);
    *f = pre->s ? family_known_as(FAMILY_PRE, pre->s, pre->n) : family_known_as(FAMILY_PRE, "default", 7);
    if (*f)
        return 0;
    return err_set(w->e, ERR_UNSUPPORTED, "tokenizer.ggml.pre \"%.*s\" is not supported",
                   pre->n < 60 ? (int)pre->n : 60, pre->s);
}

/* Sets the ids around a text. BOS_WANTED: whether a text begins with BOS if the file does not set add_bos_token. */
static int add_around(struct work *w, bool bos_wanted)
{
    const struct tok_gguf *g = w->g;
    const char *missing;

    if (g->add_bos != TOK_UNSET)
        bos_wanted = g->add_bos;
    missing = bos_wanted && g->bos < 0 ? "bos" : g->add_eos == 1 && g->eos < 0 ? "eos" : NULL;
    if (missing)
        return err_set(w->e, ERR_INPUT, "tokenizer.ggml.add_%s_token is true, but there is no %s_token_id",
                       missing, missing);
    return tok_add_around(w->t, bos_wanted ? g->bos : -1, g->add_eos == 1 ? g->eos : -1, w->e);
}

static int build_gpt2(struct work *w)
{
    const struct family *f;
    int rc;

    w->t->model = TOK_BPE;
    if ((rc = choose_family(w, &f)) != 0 || (rc = add_tokens(w)) != 0 || (rc = add_merges(w)) != 0)
        return rc;
    w->t->bpe.ignore_merges = f->ignore_merges;
    rc = family_apply(f, w->t, w->g->add_space == 1, w->e);
    return rc ? rc : add_around(w, f->pre_bos && w->g->bos >= 0);
}

/* ---- llama ---- */

/* Adds a user-defined piece. GGUF's converter replaced U+2581 in such pieces by spaces. A piece of spaces
 * only is SentencePiece's piece for a run of spaces, so its spaces become U+2581 again. */
static int add_user_defined(struct work *w, size_t i)
{
    const struct json_str *s = &w->g->token[i];
    struct buf piece;
    int rc;

    for (size_t k = 0; k < s->n; k++)
        if (s->s[k] != ' ')
            return vocab_add_new(&w->t->vocab, s->s, s->n, (int64_t)i, w->e);
    buf_init(&piece, MEM_TEXT);
    for (size_t k = 0; k < s->n; k++)
        buf_str(&piece, meta_space);
    rc = piece.oom ? err_nomem(w->e, "tokenizer.ggml.tokens")
                   : vocab_add_new(&w->t->vocab, piece.data, piece.len, (int64_t)i, w->e);
    w->type[i] = TOK_PIECE_BLANKS;
    buf_fini(&piece);
    return rc;
}

static int build_llama(struct work *w)
{
    const struct tok_gguf *g = w->g;
    struct tok_pieces b = {.t = w->t,
                           .score = w->score,
                           .type = w->type,
                           .n = g->n_tokens,
                           .dummy_prefix = g->add_space != 0,
                           .every_stretch = true,
                           .squeeze = g->squeeze == 1,
                           .unk_id = g->unk,
                           .bos_id = TOK_UNSET,
                           .eos_id = TOK_UNSET,
                           .e = w->e};
    int rc = 0;

    if (!g->score)
        return err_set(w->e, ERR_INPUT, "tokenizer.ggml.scores is missing");
    for (size_t i = 0; i < g->n_tokens && rc == 0; i++) {
        const struct json_str *s = &g->token[i];

        b.byte_fallback |= w->type[i] == TOK_PIECE_BYTE;
        if (s->n == 0) {
            w->type[i] = TOK_PIECE_UNUSED;
            continue;
        }
        if ((rc = check_token(w, i)) == 0)
            rc = w->type[i] == TOK_PIECE_USER_DEFINED
                     ? add_user_defined(w, i)
                     : vocab_add_new(&w->t->vocab, s->s, s->n, (int64_t)i, w->e);
    }
    if (rc == 0 && (rc = tok_build_pieces(&b)) == 0)
        rc = add_around(w, g->bos >= 0);
    for (size_t i = 0; rc == 0 && i < w->t->added.n; i++) {
        struct tok_added *a = &w->t->added.token[i];

        a->lstrip = g->lstrip;
        a->rstrip = strips(g, &g->token[a->id]);
    }
    return rc;
}

/* ---- the tokenizer ---- */

static int check_ids(const struct tok_gguf *g, struct err *e)
{
    const struct {
        const char *name;
        int64_t id;
    } ids[] = {{"bos", g->bos}, {"eos", g->eos}, {"unknown", g->unk}};

    if (g->n_tokens == 0)
        return err_set(e, ERR_INPUT, "tokenizer.ggml.tokens is missing or empty");
    for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++)
        if (ids[i].id >= 0 && (size_t)ids[i].id >= g->n_tokens)
            return err_set(e, ERR_INPUT,
                           "tokenizer.ggml.%s_token_id is %lld, but the vocabulary has %zu tokens",
                           ids[i].name, (long long)ids[i].id, g->n_tokens);
    return 0;
}

static int build(struct work *w)
{
    const struct tok_gguf *g = w->g;
    int rc;

    if ((rc = check_ids(g, w->e)) != 0 || (rc = read_types(w)) != 0)
        return rc;
    if (json_str_is(&g->model, "gpt2"))
        rc = build_gpt2(w);
    else if (json_str_is(&g->model, "llama"))
        rc = build_llama(w);
    else
        rc = err_set(w->e, ERR_UNSUPPORTED, "tokenizer.ggml.model \"%.*s\" is not supported (gpt2, llama)",
                     g->model.n < 60 ? (int)g->model.n : 60, g->model.s ? g->model.s : "");
    w->t->eos = g->eos >= 0 ? (int32_t)g->eos : -1;
    w->t->has_infill =
        g->infill[0] != g->infill[1] && g->infill[0] != g->infill[2] && g->infill[1] != g->infill[2];
    for (size_t i = 0; i < 3; i++) {
        w->t->has_infill &= g->infill[i] >= 0 && (size_t)g->infill[i] < g->n_tokens;
        w->t->infill[i] = (int32_t)g->infill[i];
    }
    return rc ? rc : tok_seal(w->t, w->e);
}

int tok_open_gguf(struct tok **out, const struct tok_gguf *g, struct err *e)
{
    struct work w = {.g = g, .t = tok_new(), .e = e};
    int rc = w.t ? build(&w) : err_nomem(e, "tokenizer");

    *out = NULL;
    if (rc)
        err_prefix(e, "%s", g->path);
    mem_free(w.type);
    mem_free(w.score);
    if (rc)
        tok_close(w.t);
    else
        *out = w.t;
    return rc;
}
