/* tokgguf.h - a tokenizer from what the metadata of a GGUF file say of it.
 *
 * Knows the models "gpt2" (byte-level BPE with merges; how text is cut into words is a name that tokfamily.c
 * must know) and "llama" (sentencepiece BPE with scores and byte pieces). What it answers is what Hugging
 * Face's library answers for the tokenizer the file was made from, as far as the metadata hold it.
 */
#ifndef GALLOP_TEXT_TOKGGUF_H
#define GALLOP_TEXT_TOKGGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json_pull.h"

struct tok;

enum { TOKGGUF_UNSET = -1 };

/* Everything borrowed for the call. */
struct tokgguf {
    const char *path; /* for messages */
    struct json_str model, pre;
    const struct json_str *token; /* [n_tokens] any bytes */
    const char
        *type; /* [n_tokens] i32, little-endian, at any alignment: enum spmbuild_type; NULL: all normal */
    const char *score; /* [n_tokens] f32, likewise; NULL: none */
    size_t n_tokens;
    const struct json_str *merge; /* [n_merges] two tokens with a blank between */
    size_t n_merges;
    int64_t bos, eos, unk;                    /* TOKGGUF_UNSET: not said */
    int add_bos, add_eos, add_space, squeeze; /* TOKGGUF_UNSET, 0, 1 */
    bool rstrip;                              /* special tokens swallow the blanks behind them (Phi-3), */
    bool lstrip;                              /* and in front of them too, all of them (Phi-4) */
};

/* ERR_INPUT or ERR_UNSUPPORTED names the file and the field. */
int tokgguf_open(struct tok **out, const struct tokgguf *g, struct err *e);

#endif
