/* build.h - what a struct tok is made of, and the functions that make one from each format of file.
 *
 * For the files of this folder alone. A reader of a format starts with tok_new(), fills the parts, and ends
 * with tok_seal(), after which nothing changes any more. What an encoding writes lies in a scratch; idle ones
 * wait in a few atomic places of the tokenizer, so that threads neither share nor allocate much.
 */
#ifndef GALLOP_TEXT_TOK_BUILD_H
#define GALLOP_TEXT_TOK_BUILD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/folder.h"
#include "text/settings.h"
#include "text/tok/model.h"
#include "text/tok/steps.h"
#include "text/tok/tok.h"

enum tok_model { TOK_BPE, TOK_UNIGRAM };

enum { TOK_POOL = 8 };

struct tok_scratch {
    struct normalize_work norm;
    struct split_work pre;
    struct pattern_work *re;
    struct bpe_work *bpe;
    struct unigram_work uni;
    bool large; /* has grown with a large text: not to be kept */
};

struct tok {
    struct arena arena;       /* what the steps of the parts below point to, but for */
    struct pattern *patterns; /* their patterns */
    struct vocab vocab;       /* the model's strings, as the file spells them */
    struct tok_added_set added;
    struct steps norm;
    struct split pre;
    enum tok_model model;
    struct bpe bpe;
    struct unigram uni;
    struct steps chain;
    struct tok_ids prefix, suffix; /* around a text with TOK_ADD_SPECIAL */
    int32_t eos;                   /* -1: none is known */
    bool split_special;            /* special tokens are never cut out of a text */
    struct tok_scratch *_Atomic idle[TOK_POOL];
};

struct tok *tok_new(void); /* NULL: out of memory */

/* Adds an added token. Its id is the model's for that string, where it has one, else A.ID. With A.ID
 * VOCAB_NONE, which is what a tokenizer.json comes to, whatever it declares, as in the Hugging Face library,
 * it is that of an added token of that string, else the model's, else the next free one. */
int tok_add_token(struct tok *t, struct tok_added a, const char *content, size_t n, struct err *e);

/* Hugging Face's ByteLevel pre-tokenizer: a space in front, GPT-2's pattern, spelling. */
int tok_add_byte_level(struct tok *t, bool prefix_space, bool use_regex, struct err *e);

/* Adds a step that cuts at the matches of PATTERN. */
int tok_add_split(struct tok *t, const char *pattern, size_t n, struct step step, struct err *e);

/* Proves that the parts fit and builds the tables. T must be closed on failure. */
int tok_seal(struct tok *t, struct err *e);

/* Adds the added tokens of C to T: at their id where one is said, else at the model's or the next free
 * one. */
int tok_add_settings(struct tok *t, const struct settings *c, struct err *e);

/* A SentencePiece vocabulary, whatever file it came in.
 *
 * A BPE model merges the two neighbours whose union is the piece with the highest score: each way to cut a
 * piece into two pieces becomes a rule, and pieces of equal score have equal rank. A unigram model sums its
 * scores in float. Control and user-defined pieces are cut out of the text first, as transformers does with
 * such a model; SentencePiece itself would read control pieces as plain text. */
struct tok_pieces {
    struct tok *t;             /* its vocabulary holds the pieces, by number */
    const float *score;        /* [n] */
    const unsigned char *type; /* [n] enum tok_piece_type */
    size_t n;
    bool unigram, byte_fallback;
    bool dummy_prefix;      /* a space in front of the text, */
    bool every_stretch;     /* and behind each special token in it */
    bool squeeze;           /* runs of spaces become one */
    int64_t unk_id;         /* -1: none */
    int64_t bos_id, eos_id; /* put around a text; -1: not */
    struct json_str map;    /* precompiled_charsmap */
    struct err *e;
};

/* Gives b->t its model, normalizer, pre-tokenizer, decoder, added tokens and what stands around a text. The
 * caller adds what it knows beyond that and seals. */
int tok_build_pieces(const struct tok_pieces *b);

/* Puts the id BEFORE in front of the ids around a text, and AFTER behind them; negative: none. */
int tok_add_around(struct tok *t, int64_t before, int64_t after, struct err *e);

/* Does the file begin as such a model does? */
bool tok_is_sentencepiece(const char *bytes, size_t n);

/* Fills and seals the new T; messages lack the file's name. Control and user-defined pieces become added
 * tokens; BOS stands before a text where CONF asks for it, or says nothing and the model has one.
 * ERR_UNSUPPORTED for word and character models and what else is not understood. T must be freed on
 * failure. */
int tok_read_sentencepiece(struct tok *t, const char *bytes, size_t n, const struct settings *conf,
                           struct err *e);

/* Does the text begin as such a file does? */
bool tok_is_tiktoken(const char *text, size_t len);

/* Fills and seals the new T; messages lack the file's name. The file does not hold the pattern that cuts
 * words; it is known from CONF's tokenizer_class or the number of ranks, and an unknown one is
 * ERR_UNSUPPORTED. T must be freed on failure. */
int tok_read_tiktoken(struct tok *t, const char *text, size_t len, const struct settings *conf,
                      struct err *e);

/* Fills and seals the new T from the two files of the folder IN. How words are cut is known from CONF's
 * tokenizer_class or model type; without either it is GPT-2's way, an unknown one is ERR_UNSUPPORTED. T must
 * be freed on failure. */
int tok_read_gpt2(struct tok *t, struct folder in, const struct settings *conf, struct err *e);

/* Fills and seals the new T from the bytes of a tokenizer.json; PATH is for messages. CONF: what stands
 * beside it, or NULL. T must be freed on failure. */
int tok_read_json(struct tok *t, const char *text, size_t len, const char *path, const struct settings *conf,
                  struct err *e);

/* What the settings beside a tokenizer.json change of T, which is read and not sealed: added tokens of
 * added_tokens_decoder with their flags, special tokens that are named, a space in front of texts, and
 * whether special tokens are cut out of texts. The order and the ids are those of transformers 5. */
int tok_configure(struct tok *t, const struct settings *conf, struct err *e);

/* Reads base64 (RFC 4648): writes the bytes of S to OUT, which has room for N; false: that is no base64.
 * Padding may be missing. */
bool tok_from_base64(const char *s, size_t n, char *out, size_t *n_out);

/* The length of the line at S, without its end; *NEXT is where the next one begins. */
size_t tok_line(const char *s, const char *end, const char **next);

/* ---- families (family.c): the pre-tokenizer patterns of the tokenizers whose files do not hold them
 * (tiktoken files, vocab.json with merges.txt, GGUF), and how such a file is recognised. What is not listed
 * there is refused, never guessed. ---- */

struct family_special {
    const char *content; /* with one %u where it stands for a row of tokens */
    uint32_t id, n;      /* N tokens from ID on */
    uint32_t first;      /* the number in the first of them */
};

enum family_name {
    FAMILY_CLASS, /* a tokenizer_class, */
    FAMILY_MODEL, /* a config.json's model_type, */
    FAMILY_PRE,   /* GGUF's tokenizer.ggml.pre */
    FAMILY_NAMES
};

struct family {
    const char *name, *pattern; /* pattern NULL: GPT-2's, by ByteLevel's own splitting */
    bool nfc;
    size_t n_ranks;                       /* entries of its tiktoken file; 0: it has none */
    const char *bos;                      /* put in front of a text; NULL: nothing */
    const char *known_as[FAMILY_NAMES];   /* names with a blank before and after each; NULL: none */
    const struct family_special *special; /* where no settings name added tokens; ends with content NULL */
    const char *before[3];                /* patterns whose matches are cut out first; NULL: no more */
    bool ignore_merges; /* a word that is in the vocabulary is not merged; GGUF does not say it */
    bool pre_bos;       /* BOS where a GGUF does not say whether */
};

const struct family *family_of_ranks(size_t n_ranks);                                  /* NULL: unknown */
const struct family *family_known_as(enum family_name by, const char *name, size_t n); /* NULL: unknown */

/* Gives T the normalizer, pre-tokenizer and decoder of F. PREFIX_SPACE: a space in front of every text. */
int family_apply(const struct family *f, struct tok *t, bool prefix_space, struct err *e);

/* Adds F's own special tokens to T. */
int family_add_special(const struct family *f, struct tok *t, struct err *e);

#endif
