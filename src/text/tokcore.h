/* tokcore.h - what a struct tok is made of; for the files that build one (tokjson, spm, toktik, tokgpt2) and
 * the facade.
 *
 * A builder starts with tokcore_new(), fills the parts, and ends with tokcore_seal(), after which nothing
 * changes any more. What an encoding writes lies in a scratch; idle ones wait in a few atomic places of the
 * tokenizer, so that threads neither share nor allocate much.
 */
#ifndef GALLOP_TEXT_TOKCORE_H
#define GALLOP_TEXT_TOKCORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/bpe.h"
#include "text/bpeword.h"
#include "text/detokchain.h"
#include "text/normalize.h"
#include "text/pretok.h"
#include "text/tok.h"
#include "text/tokadded.h"
#include "text/tokvocab.h"
#include "text/unigram.h"

enum tokcore_model { TOKCORE_BPE, TOKCORE_UNIGRAM };

enum { TOKCORE_POOL = 8 };

struct tokcore_scratch {
    struct normalize_work norm;
    struct pretok_work pre;
    struct pretokre_work *re;
    struct bpeword_work *bpe;
    struct unigram_work uni;
    bool large; /* has grown with a large text: not to be kept */
};

struct tok {
    struct tokvocab vocab; /* the model's strings, as the file spells them */
    struct tokadded added;
    struct normalize norm;
    struct pretok pre;
    enum tokcore_model model;
    struct bpe bpe;
    struct unigram uni;
    struct detokchain chain;
    struct tok_ids prefix, suffix; /* around a text with TOK_ADD_SPECIAL */
    bool spelled;                  /* the normalizer spells bytes in the GPT-2 alphabet */
    char kind[64];
    struct tokcore_scratch *_Atomic idle[TOKCORE_POOL];
};

struct tok *tokcore_new(void);    /* NULL: out of memory */
void tokcore_free(struct tok *t); /* NULL is fine */

/* Adds an added token. Its id is the model's for that string, else that of an added token of that string,
 * else the next free one; what a file declares does not decide, as in the Hugging Face library. */
int tokcore_add_token(struct tok *t, struct tokadded_token a, const char *content, size_t n, struct err *e);

/* Adds an added token whose id is A.ID, or the model's for that string where it has one. */
int tokcore_add_token_at(struct tok *t, struct tokadded_token a, const char *content, size_t n,
                         struct err *e);

/* Proves that the parts fit and builds the tables. T must be closed on failure. */
int tokcore_seal(struct tok *t, struct err *e);

/* A scratch for one call; NULL: out of memory. Must be given back. */
struct tokcore_scratch *tokcore_take(const struct tok *t);
void tokcore_give(const struct tok *t, struct tokcore_scratch *s);

/* The text of ID: an added token's content, else the model's string. */
bool tokcore_string(const struct tok *t, size_t id, const char **s, size_t *n);

#endif
