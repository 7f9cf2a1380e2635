/* build.h - the parts of a struct tok, and the functions by which readers of file formats build one.
 *
 * Only files of this folder include it. A reader starts with tok_new(), fills the parts, and ends with
 * tok_seal(), after which the tokenizer is immutable. Each encoding takes a scratch; idle scratches are kept
 * in a few atomic slots of the tokenizer, so that threads share no scratch and rarely allocate one.
 */
#ifndef GALLOP_TEXT_TOK_BUILD_H
#define GALLOP_TEXT_TOK_BUILD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "text/tok/added.h"
#include "text/tok/bpe.h"
#include "text/tok/ids.h"
#include "text/tok/normalize.h"
#include "text/tok/split.h"
#include "text/tok/steps.h"
#include "text/tok/unigram.h"
#include "text/tok/vocabulary.h"

struct settings;

enum tok_model { TOK_BPE, TOK_UNIGRAM };

enum { TOK_POOL = 8 };

struct tok_scratch {
    struct normalize_work norm;
    struct split_work pre;
    struct pattern_work *re;
    struct bpe_work *bpe;
    struct unigram_work uni;
    bool large; /* the scratch has grown with a large text: it is freed after use */
};

struct tok {
    struct arena arena;       /* owns the strings of the steps below */
    struct pattern *patterns; /* owns the patterns of the steps below */
    struct vocab vocab;       /* the model's strings in the spelling of the file */
    struct tok_added_set added;
    struct steps norm; /* the normalizer */
    struct split pre;  /* the pre-tokenizer */
    size_t n_first; /* steps of the first member of a Sequence of pre-tokenizers; 0: there is no Sequence */
    enum tok_model model;
    struct bpe bpe;
    struct unigram uni;
    struct steps chain;            /* the decoder */
    struct tok_ids prefix, suffix; /* ids before and after a text with TOK_ADD_SPECIAL */
    int32_t eos;                   /* id of the end-of-sequence token; -1: unknown */
    /* The file names the fill-in-the-middle tokens (infill.h): before the prefix, before the suffix, and at the end of
     * the prompt. */
    bool has_infill;
    int32_t infill[3];
    bool split_special; /* special tokens in a text are always encoded as ordinary text */
    struct tok_scratch *_Atomic idle[TOK_POOL];
};

struct tok *tok_new(void); /* NULL: out of memory */

/* Adds an added token. If A.ID is VOCAB_NONE, the token gets the id of the added token that has this content,
 * else the model's id for this content, else the next free id. (The reader of tokenizer.json does this and
 * ignores the ids in the file, as the Hugging Face library does.) If A.ID is an id, the token gets the
 * model's id for this content, else A.ID. */
int tok_add_token(struct tok *t, struct tok_added a, const char *content, size_t n, struct err *e);

/* Adds Hugging Face's ByteLevel pre-tokenizer: a space before the text (PREFIX_SPACE), GPT-2's pattern
 * (USE_REGEX), and the step that spells bytes as letters. */
int tok_add_byte_level(struct tok *t, bool prefix_space, bool use_regex, struct err *e);

/* Adds the pre-tokenizer step STEP, which cuts at the matches of PATTERN. */
int tok_add_split(struct tok *t, const char *pattern, size_t n, struct step step, struct err *e);

/* Adds the added tokens of C to T. A token without an id gets the model's id or the next free id. */
int tok_add_settings(struct tok *t, const struct settings *c, struct err *e);

/* Adds the id BEFORE before the ids of each text, and AFTER after them. A negative id means none. */
int tok_add_around(struct tok *t, int64_t before, int64_t after, struct err *e);

/* Checks that the parts fit together and builds the tables. T must be closed on failure. */
int tok_seal(struct tok *t, struct err *e);

/* Takes a scratch for one encoding, which tok_scratch_give() returns. NULL: out of memory. */
struct tok_scratch *tok_scratch_take(const struct tok *t);
void tok_scratch_give(const struct tok *t, struct tok_scratch *s);
void tok_scratch_free(struct tok_scratch *s); /* may be NULL */

#endif
