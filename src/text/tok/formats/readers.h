/* readers.h - the readers of tokenizer file formats that have no headers of their own. The reader of GGUF
 * (gguf.c) and the choice of a reader (open.c) are declared in tok.h. */
#ifndef GALLOP_TEXT_TOK_READERS_H
#define GALLOP_TEXT_TOK_READERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/files/folder.h"
#include "base/json/json_pull.h"

struct settings;
struct tok;

/* ---- SentencePiece (sentencepiece.c) ---- */

/* A SentencePiece vocabulary, from a .model or a GGUF file.
 *
 * A BPE model merges the two neighbours whose union is the piece with the highest score: each way to cut a
 * piece into two pieces becomes a rule, and pieces of equal score have equal rank. A unigram model adds the
 * scores as float, as SentencePiece does. Control and user-defined pieces are cut out of the text first, as
 * transformers does with such a model; SentencePiece itself would read control pieces as plain text.
 */
struct tok_pieces {
    struct tok *t;             /* the tokenizer, whose vocabulary holds the pieces; ids are their indices */
    const float *score;        /* [n] */
    const unsigned char *type; /* [n] enum tok_piece_type */
    size_t n;
    bool unigram, byte_fallback;
    bool dummy_prefix;      /* a space is put in front of the text */
    bool every_stretch;     /* with dummy_prefix: a space is also put after each special token */
    bool squeeze;           /* each run of spaces becomes one space */
    int64_t unk_id;         /* -1: none */
    int64_t bos_id, eos_id; /* ids before and after a text; -1: none */
    struct json_str map;    /* the precompiled_charsmap; n 0: none */
    struct err *e;
};

/* Builds the model, normalizer, pre-tokenizer, decoder, added tokens and the ids around a text of b->t. The
 * caller adds the tokens of configuration files and then seals b->t. */
int tok_build_pieces(const struct tok_pieces *b);

/* True if the file begins like a SentencePiece model. */
bool tok_is_sentencepiece(const char *bytes, size_t n);

/* Fills and seals the new T from a SentencePiece model; messages lack the file's name. Control and
 * user-defined pieces become added tokens. BOS is put before a text if the model has it, unless CONF says no.
 * ERR_UNSUPPORTED: a word or character model, or another unsupported part. T must be closed on failure. */
int tok_read_sentencepiece(struct tok *t, const char *bytes, size_t n, const struct settings *conf,
                           struct err *e);

/* ---- tiktoken (tiktoken.c) ---- */

/* True if TEXT begins like a tiktoken file. */
bool tok_is_tiktoken(const char *text, size_t len);

/* Fills and seals the new T from a tiktoken file; messages lack the file's name. The file lacks the
 * pre-tokenizer's pattern, so the number of ranks or CONF's tokenizer_class selects it; ERR_UNSUPPORTED if
 * both are unknown. T must be closed on failure. */
int tok_read_tiktoken(struct tok *t, const char *text, size_t len, const struct settings *conf,
                      struct err *e);

/* Decodes base64 (RFC 4648): writes the bytes of S to OUT, which has room for N bytes. False: S is not
 * base64. Padding may be missing. */
bool tok_from_base64(const char *s, size_t n, char *out, size_t *n_out);

/* Returns the length of the line at S, without its line end; *NEXT is the start of the next line. */
size_t tok_line(const char *s, const char *end, const char **next);

/* ---- vocab.json with merges.txt (gpt2.c) ---- */

/* Fills and seals the new T from the two files of the folder IN. CONF's tokenizer_class or model_type selects
 * the pattern (without either: GPT-2's; unknown: ERR_UNSUPPORTED). T must be closed on failure. */
int tok_read_gpt2(struct tok *t, struct folder in, const struct settings *conf, struct err *e);

/* ---- tokenizer.json (json.c, configure.c) ---- */

/* Fills and seals the new T from TEXT, the contents of a tokenizer.json; PATH is for messages. CONF: the
 * settings beside it, or NULL. With a class that builds its own steps and with added_tokens_decoder, the
 * added tokens of the tokenizer.json do not count, as in transformers. T must be closed on failure. */
int tok_read_json(struct tok *t, const char *text, size_t len, const char *path, const struct settings *conf,
                  struct err *e);

/* Applies CONF, the settings beside a tokenizer.json, to T before T is sealed: the added tokens of
 * added_tokens_decoder with their flags, named special tokens, add_prefix_space, fix_mistral_regex, and
 * whether special tokens are cut out of texts. New tokens get the same order and ids as in transformers 5. */
int tok_configure(struct tok *t, const struct settings *conf, struct err *e);

#endif
