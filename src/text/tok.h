/* tok.h - a tokenizer: text to token ids and back.
 *
 * The facade of everything named tok*, pretok*, bpe*, unigram*, normalize*, spm* and detok* here. What it
 * answers is what the Hugging Face `tokenizers` library answers for the same tokenizer.json, id for id and
 * byte for byte; a component or pattern that is not understood makes opening fail with its name. A struct tok
 * never changes after it was opened and may be used by many threads at once.
 */
#ifndef GALLOP_TEXT_TOK_H
#define GALLOP_TEXT_TOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/folder.h"
#include "base/mem.h"

struct tok;

/* A growing list of ids, tagged MEM_TEXT. Zeroed = empty. */
struct tok_ids {
    int32_t *id;
    size_t n, cap;
};

void tok_ids_fini(struct tok_ids *ids);

enum {
    TOK_ADD_SPECIAL = 1, /* put the ids around the text that the post-processor adds (BOS, EOS) */
    TOK_PLAIN = 2,       /* special tokens inside the text are read as ordinary text */
};

/* Opens IN: a checkpoint folder (tokenizer.json first, then tokenizer.model, a tiktoken file, vocab.json
 * with merges.txt) or one such file. ERR_INPUT, ERR_UNSUPPORTED, ERR_OS or ERR_NOMEM with the file and the
 * fault named. */
int tok_open(struct tok **out, struct folder in, struct err *e);

/* Opens the bytes of a tokenizer.json; PATH is for messages only. TEXT may go when this returns. */
int tok_open_json(struct tok **out, const char *text, size_t len, const char *path, struct err *e);

void tok_close(struct tok *t); /* NULL is fine */

size_t tok_n_ids(const struct tok *t); /* the largest id + 1 */

/* Appends the ids of TEXT (LEN bytes of UTF-8, NUL allowed) to OUT. ERR_INPUT when it is no UTF-8. On failure
 * OUT is as it was. */
int tok_encode(const struct tok *t, const char *text, size_t len, unsigned flags, struct tok_ids *out,
               struct err *e);

/* Appends the text of N ids to OUT; ids that are not in the vocabulary are skipped, as are special tokens on
 * request. */
int tok_decode(const struct tok *t, const int32_t *ids, size_t n, bool skip_special, struct buf *out,
               struct err *e);

/* The id whose vocabulary string or added token is PIECE ("\xc4\xa0the" in a byte-level vocabulary, not "
 * the"). */
bool tok_id_of(const struct tok *t, const char *piece, size_t len, int32_t *id);

/* The vocabulary string of ID, borrowed from T and not terminated; false: there is no such id. */
bool tok_piece(const struct tok *t, int32_t id, const char **s, size_t *n);

bool tok_is_special(const struct tok *t, int32_t id); /* false also for ids that do not exist */

const char *tok_kind(const struct tok *t); /* "bpe (byte-level)", "unigram", ... for people */

#endif
