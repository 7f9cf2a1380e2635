/* tok.h - a tokenizer: text to token ids, and ids to text, at once or one id at a time.
 *
 * This is the interface of the folder; open.c and gguf.c have no headers of their own. The results equal the
 * results of the Hugging Face `tokenizers` library for the same tokenizer.json, id for id and byte for byte.
 * Opening fails with the name of any component or pattern that is not supported. An open tokenizer is
 * immutable and may be used by many threads at once.
 */
#ifndef GALLOP_TEXT_TOK_TOK_H
#define GALLOP_TEXT_TOK_TOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json/json_pull.h"

struct buf;
struct folder;
struct tok;
struct tok_ids;

enum {
    TOK_ADD_SPECIAL = 1, /* add the ids that the post-processor puts around a text (BOS, EOS) */
    TOK_PLAIN = 2,       /* special tokens in the text are read as ordinary text */
};

/* Opens IN: a tokenizer file, or a checkpoint folder with (in this order) tokenizer.json, tokenizer.model, a
 * tiktoken file, or vocab.json and merges.txt. Errors name the file and the fault. */
int tok_open(struct tok **out, struct folder in, struct err *e);

/* Opens the bytes of a tokenizer.json; PATH is for messages only. TEXT may be freed afterwards. */
int tok_open_json(struct tok **out, const char *text, size_t len, const char *path, struct err *e);

/* The value of a setting of struct tok_gguf that the file does not have. */
enum { TOK_UNSET = -1 };

/* The type of a piece of a SentencePiece or GGUF vocabulary. The first six have the numbers of
 * sentencepiece_model.proto and of GGUF. */
enum tok_piece_type {
    TOK_PIECE_NORMAL = 1,
    TOK_PIECE_UNKNOWN,
    TOK_PIECE_CONTROL,
    TOK_PIECE_USER_DEFINED,
    TOK_PIECE_UNUSED, /* never produced by merging and never found in a text */
    TOK_PIECE_BYTE,
    /* A user-defined run of U+2581 (the marker for spaces); runs merge before other pieces. */
    TOK_PIECE_BLANKS,
};

/* The tokenizer in the metadata of a GGUF file. All pointers are borrowed during the call. */
struct tok_gguf {
    const char *path;             /* path for messages */
    struct json_str model, pre;   /* the values of tokenizer.ggml.model and .pre */
    const struct json_str *token; /* [n_tokens] strings of any bytes */
    /* [n_tokens] enum tok_piece_type as little-endian i32, unaligned; NULL: all tokens are normal. */
    const char *type;
    const char *score; /* [n_tokens] little-endian f32, unaligned; NULL: none */
    size_t n_tokens;
    const struct json_str *merge; /* [n_merges] two tokens with a blank between them */
    size_t n_merges;
    int64_t bos, eos, unk; /* TOK_UNSET: not in the file */
    /* The fill-in-the-middle tokens: before the prefix, before the suffix, at the end of the prompt. If two are equal,
     * the file does not have them. */
    int64_t infill[3];
    int add_bos, add_eos, add_space, squeeze; /* TOK_UNSET: not in the file; 0 or 1 */
    bool rstrip;                              /* special tokens include the blanks after them (Phi-3) */
    bool lstrip;                              /* special tokens also include the blanks before them (Phi-4) */
};

/* Opens the tokenizer of a GGUF file. ERR_INPUT and ERR_UNSUPPORTED name the file and the field. */
int tok_open_gguf(struct tok **out, const struct tok_gguf *g, struct err *e);

void tok_close(struct tok *t); /* may be NULL */

/* Appends the ids of TEXT (LEN bytes; ERR_INPUT if it is not UTF-8) to OUT, which failures do not change. */
int tok_encode(const struct tok *t, const char *text, size_t len, unsigned flags, struct tok_ids *out,
               struct err *e);

/* Encodes as tok_encode() does, but cuts special tokens only out of trusted text: ORIGIN [LEN] is 0 for each trusted
 * byte of TEXT, and 1 for a byte that comes from a user. A special token that is searched in normalized text is cut out
 * only if its whole part of the text is trusted. ORIGIN NULL: all bytes are trusted. */
int tok_encode_marked(const struct tok *t, const char *text, const char *origin, size_t len, unsigned flags,
                      struct tok_ids *out, struct err *e);

/* Appends the text of N ids to OUT. Ids that are not in the vocabulary are skipped, and with SKIP_SPECIAL
 * also the ids of special tokens. */
int tok_decode(const struct tok *t, const int32_t *ids, size_t n, bool skip_special, struct buf *out,
               struct err *e);

/* Finds the id of the vocabulary string or added token PIECE (byte-level: "\xc4\xa0the", not " the"). */
bool tok_id_of(const struct tok *t, const char *piece, size_t len, int32_t *id);

/* Returns the end-of-sequence token: eos_token of tokenizer_config.json or special_tokens_map.json, else the eos_token
 * of the tokenizer's class, or tokenizer.ggml.eos_token_id. -1: none is named, or the vocabulary lacks it. */
int32_t tok_eos(const struct tok *t);

/* Finds the vocabulary string of ID, borrowed from T and not terminated. False: the id does not exist. */
bool tok_piece(const struct tok *t, int32_t id, const char **s, size_t *n);

/* Returns the largest id of the vocabulary and of the added tokens, plus one. */
size_t tok_n_ids(const struct tok *t);

/* Sets OUT to the bytes of ID if they are an incomplete character, which tok_decode() can only show as
 * U+FFFD. Otherwise OUT does not change. */
void tok_bytes(const struct tok *t, int32_t id, struct buf *out);

/* Writes the bytes of ID inside a text (with a blank where the vocabulary has U+2581) to OUT [SIZE]. Returns their
 * number: 0 if the id does not exist. Longer texts are cut to SIZE bytes, or are empty. Does not allocate. */
size_t tok_text(const struct tok *t, int32_t id, char *out, size_t size);

bool tok_is_special(const struct tok *t, int32_t id); /* false also for ids that do not exist */

/* Sets *BEFORE and *BEHIND to the number of ids that TOK_ADD_SPECIAL puts before and after a text. */
void tok_n_around(const struct tok *t, size_t *before, size_t *behind);

/* Returns the length of the longest special token that is a prefix of TEXT; 0: there is none. */
size_t tok_special_prefix(const struct tok *t, const char *text);

/* Returns the largest number of bytes of text that one id of tok_encode() can cover, so that a text of N
 * bytes has at least N / result ids. SIZE_MAX: unknown, because the tokenizer may remove or shorten text. */
size_t tok_most_bytes(const struct tok *t);

const char *tok_kind(const struct tok *t); /* "bpe (byte-level)", "unigram" and the like, for messages */

/* Turns ids into text one at a time.
 *
 * The texts that a stream gives, joined, equal tok_decode() of all ids byte for byte, with one exception: if a run of
 * byte pieces (<0xE2>...) begins with complete characters and then is not UTF-8, tok_decode() gives U+FFFD for each
 * byte of the run, as Hugging Face's library does, while a stream has already given the complete characters. Every text
 * is valid UTF-8. Text is held back only while a later id could change it: an incomplete character, blanks that a
 * decoder strips at the end. Not thread-safe; the tokenizer must outlive it.
 */
struct tok_stream;

/* Starts one sequence. The only possible error is ERR_NOMEM. */
int tok_stream_new(struct tok_stream **out, const struct tok *t, bool skip_special, struct err *e);

/* Adds ID and appends the text that is final to OUT. Unknown ids are skipped. */
int tok_stream_put(struct tok_stream *d, int32_t id, struct buf *out, struct err *e);

/* Ends the sequence: appends the text that was held back. The next tok_stream_put() begins a new sequence. */
int tok_stream_end(struct tok_stream *d, struct buf *out, struct err *e);

/* Returns how many bytes at the end of the text that the last tok_stream_put() or tok_stream_end() appended come from a
 * special token. A character that such a token cuts short counts as text of this token. */
size_t tok_stream_n_special(const struct tok_stream *d);

/* Makes TO, a stream of the same tokenizer, a copy of the state of FROM. The only possible error is ERR_NOMEM. */
int tok_stream_copy(struct tok_stream *to, const struct tok_stream *from, struct err *e);

void tok_stream_free(struct tok_stream *d); /* may be NULL */

#endif
