/* build.h - the parts of a struct tok, and how the readers of file formats build one.
 *
 * For the files of this folder only. A reader of a format starts with tok_new(), fills the parts, and ends
 * with tok_seal(), after which the tokenizer is immutable. An encoding writes to a scratch; idle scratches
 * wait in a few atomic slots of the tokenizer, so that threads neither share nor allocate much.
 */
#ifndef GALLOP_TEXT_TOK_BUILD_H
#define GALLOP_TEXT_TOK_BUILD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "text/settings.h"
#include "text/tok/added.h"
#include "text/tok/bpe.h"
#include "text/tok/decode.h"
#include "text/tok/normalize.h"
#include "text/tok/pattern.h"
#include "text/tok/split.h"
#include "text/tok/steps.h"
#include "text/tok/tok.h"
#include "text/tok/unigram.h"
#include "text/tok/vocabulary.h"

enum tok_model { TOK_BPE, TOK_UNIGRAM };

enum { TOK_POOL = 8 };

struct tok_scratch {
    struct normalize_work norm;
    struct split_work pre;
    struct pattern_work *re;
    struct bpe_work *bpe;
    struct unigram_work uni;
    bool large; /* it has grown with a large text and is not kept */
};

struct tok {
    struct arena arena;       /* the memory that the steps below point to */
    struct pattern *patterns; /* the patterns of the steps below */
    struct vocab vocab;       /* the model's strings, as the file spells them */
    struct tok_added_set added;
    struct steps norm;
    struct split pre;
    enum tok_model model;
    struct bpe bpe;
    struct unigram uni;
    struct steps chain;
    struct tok_ids prefix, suffix; /* the ids before and after a text with TOK_ADD_SPECIAL */
    int32_t eos;                   /* -1: none is known */
    bool split_special;            /* special tokens are never cut out of a text */
    struct tok_scratch *_Atomic idle[TOK_POOL];
};

struct tok *tok_new(void); /* NULL: out of memory */

/* Adds an added token. Its id is the model's id for that string if it has one, else A.ID. If A.ID is
 * VOCAB_NONE, which tokens of a tokenizer.json have regardless of the ids there, as in the Hugging Face
 * library, the id is that of an added token of that string, else the model's, else the next free id. */
int tok_add_token(struct tok *t, struct tok_added a, const char *content, size_t n, struct err *e);

/* Hugging Face's ByteLevel pre-tokenizer: a space before the text, GPT-2's pattern, and the spelling. */
int tok_add_byte_level(struct tok *t, bool prefix_space, bool use_regex, struct err *e);

/* Adds a step that cuts at the matches of PATTERN. */
int tok_add_split(struct tok *t, const char *pattern, size_t n, struct step step, struct err *e);

/* Adds the added tokens of C to T: with their own ids if they have some, else with the model's or the next
 * free one. */
int tok_add_settings(struct tok *t, const struct settings *c, struct err *e);

/* Puts the id BEFORE before the ids of a text, and AFTER after them; a negative id: none. */
int tok_add_around(struct tok *t, int64_t before, int64_t after, struct err *e);

/* Checks that the parts fit together and builds the tables. T must be closed on failure. */
int tok_seal(struct tok *t, struct err *e);

/* A scratch for one encoding, to be given back; NULL: out of memory. */
struct tok_scratch *tok_scratch_take(const struct tok *t);
void tok_scratch_give(const struct tok *t, struct tok_scratch *s);
void tok_scratch_free(struct tok_scratch *s); /* NULL is fine */

#endif
