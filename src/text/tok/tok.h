/* tok.h - a tokenizer: text to token ids, and ids to text, at once or one id at a time.
 *
 * This is the interface of the folder, and the contract of open.c and gguf.c. Its answers are those of the
 * Hugging Face `tokenizers` library for the same tokenizer.json, id for id and byte for byte; opening fails
 * with the name of a component or pattern that is not supported. An open tokenizer is immutable and may be
 * used by many threads at once.
 */
#ifndef GALLOP_TEXT_TOK_TOK_H
#define GALLOP_TEXT_TOK_TOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_pull.h"
#include "text/tok/ids.h"

struct folder;
struct tok;

enum {
    TOK_ADD_SPECIAL = 1, /* add the ids that the post-processor puts around a text (BOS, EOS) */
    TOK_PLAIN = 2,       /* special tokens in the text are read as ordinary text */
};

/* Opens IN: a checkpoint folder (tokenizer.json first, then tokenizer.model, a tiktoken file, vocab.json with
 * merges.txt) or one such file. Errors (ERR_INPUT, ERR_UNSUPPORTED, ERR_OS or ERR_NOMEM) name the file and
 * the fault. */
int tok_open(struct tok **out, struct folder in, struct err *e);

/* Opens the bytes of a tokenizer.json; PATH is for messages only. TEXT may be freed afterwards. */
int tok_open_json(struct tok **out, const char *text, size_t len, const char *path, struct err *e);

enum { TOK_UNSET = -1 };

/* The type of a piece of a SentencePiece or GGUF vocabulary. The first six are numbered as in
 * sentencepiece_model.proto and in GGUF. */
enum tok_piece_type {
    TOK_PIECE_NORMAL = 1,
    TOK_PIECE_UNKNOWN,
    TOK_PIECE_CONTROL,
    TOK_PIECE_USER_DEFINED,
    TOK_PIECE_UNUSED, /* never a result of merging and never found in a text */
    TOK_PIECE_BYTE,
    TOK_PIECE_BLANKS, /* a user-defined run of the marker for spaces: merged first of all */
};

/* The tokenizer in the metadata of a GGUF file; everything is borrowed for the call. */
struct tok_gguf {
    const char *path; /* for messages */
    struct json_str model, pre;
    const struct json_str *token; /* [n_tokens] any bytes */
    const char *
        type; /* [n_tokens] i32, little-endian, at any alignment: enum tok_piece_type; NULL: all are normal */
    const char *score; /* [n_tokens] f32, likewise; NULL: none */
    size_t n_tokens;
    const struct json_str *merge; /* [n_merges] two tokens with a blank between */
    size_t n_merges;
    int64_t bos, eos, unk;                    /* TOK_UNSET: not in the file */
    int add_bos, add_eos, add_space, squeeze; /* TOK_UNSET, 0, 1 */
    bool rstrip;                              /* special tokens swallow the blanks after them (Phi-3) */
    bool lstrip;                              /* special tokens swallow all blanks before them, too (Phi-4) */
};

/* ERR_INPUT or ERR_UNSUPPORTED names the file and the field. */
int tok_open_gguf(struct tok **out, const struct tok_gguf *g, struct err *e);

void tok_close(struct tok *t); /* NULL is fine */

/* Appends the ids of TEXT (LEN bytes of UTF-8, NUL allowed) to OUT. ERR_INPUT if it is not UTF-8. On failure
 * OUT does not change. */
int tok_encode(const struct tok *t, const char *text, size_t len, unsigned flags, struct tok_ids *out,
               struct err *e);

/* The same for a TEXT whose ORIGIN [LEN] says where each byte comes from: a special token is cut out only if
 * all of its bytes have 0. Special tokens that are searched in the normal form of a text are not cut out of a
 * part that has other bytes. ORIGIN NULL: as tok_encode(). */
int tok_encode_marked(const struct tok *t, const char *text, const char *origin, size_t len, unsigned flags,
                      struct tok_ids *out, struct err *e);

/* Appends the text of N ids to OUT. Ids that are not in the vocabulary are skipped, and with SKIP_SPECIAL
 * those of special tokens. */
int tok_decode(const struct tok *t, const int32_t *ids, size_t n, bool skip_special, struct buf *out,
               struct err *e);

/* Finds the id whose vocabulary string or added token is PIECE ("\xc4\xa0the" in a byte-level vocabulary, not
 * " the"). */
bool tok_id_of(const struct tok *t, const char *piece, size_t len, int32_t *id);

/* The end token of the tokenizer: eos_token of tokenizer_config.json or special_tokens_map.json, else that of
 * its class, or tokenizer.ggml.eos_token_id; -1 if none is named, or the vocabulary does not have it. */
int32_t tok_eos(const struct tok *t);

/* The vocabulary string of ID, borrowed from T and not terminated. False: the id does not exist. */
bool tok_piece(const struct tok *t, int32_t id, const char **s, size_t *n);

/* One more than the largest id of the vocabulary and of the added tokens. */
size_t tok_n_ids(const struct tok *t);

/* Replaces the contents of OUT by the bytes of ID if they are only a part of a character, which tok_decode()
 * can only show as U+FFFD. Else OUT does not change. */
void tok_bytes(const struct tok *t, int32_t id, struct buf *out);

bool tok_is_special(const struct tok *t, int32_t id); /* false also for ids that do not exist */

/* The largest number of bytes of text that one id of tok_encode() stands for, so that a text of N bytes has
 * at least N / bound ids. SIZE_MAX: unknown, because the tokenizer may swallow or shorten text. */
size_t tok_most_bytes(const struct tok *t);

const char *tok_kind(const struct tok *t); /* "bpe (byte-level)", "unigram" and the like, for messages */

/* Turns ids into text one at a time.
 *
 * The pieces of text, joined, are tok_decode() of all ids byte for byte (tok_decode() uses this). Every piece
 * is valid UTF-8. Only text that a later id could still change is kept back: the beginning of a character, a
 * run of byte pieces (<0xE2>...) that is text only as a whole, blanks that a decoder strips at the end. Not
 * thread-safe; the tokenizer must outlive it.
 */
struct tok_stream;

/* Starts one sequence. ERR_NOMEM is the only failure. */
int tok_stream_new(struct tok_stream **out, const struct tok *t, bool skip_special, struct err *e);

/* Adds ID and appends the text that is certain now to OUT. Unknown ids are skipped. */
int tok_stream_put(struct tok_stream *d, int32_t id, struct buf *out, struct err *e);

/* Appends the text that was kept back. The next tok_stream_put() begins a new sequence. */
int tok_stream_end(struct tok_stream *d, struct buf *out, struct err *e);

void tok_stream_free(struct tok_stream *d); /* NULL is fine */

#endif
