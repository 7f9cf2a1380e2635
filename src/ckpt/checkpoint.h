/* checkpoint.h - a checkpoint, opened once: a Hugging Face folder, GGUF files, or a packed checkpoint, as a
 * source of the config, tokenizer, chat template, generation settings and weights.
 *
 * The files of a GGUF checkpoint are mapped and checked by checkpoint_open() and stay open until
 * checkpoint_let_go(), those of a packed checkpoint until checkpoint_close(); a file of a folder is opened
 * when it is needed. One thread at a time.
 */
#ifndef GALLOP_CKPT_CHECKPOINT_H
#define GALLOP_CKPT_CHECKPOINT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/files/folder.h"
#include "ckpt/gguf/set.h"

struct chat;
struct config;
struct pack;
struct pack_writer;
struct tok;
struct weights;

/* A text that is a JSON file in a folder and is made from GGUF metadata when it is first needed. */
struct checkpoint_text {
    bool made;
    int rc; /* the result of making it; if it is an error, E says why */
    struct err e;
    struct buf json;
};

struct checkpoint {
    struct folder in;     /* the path is a copy of the caller's */
    struct gguf_set gguf; /* n is 0 for a folder; for a packed GGUF checkpoint it has no tensors */
    struct pack *pack;    /* NULL: not a packed checkpoint */
    struct checkpoint_text chat, generation;
};

/* Opens IN: a folder, a GGUF file or any file that tok_open() takes. ERR_INPUT if IN could mean several GGUF
 * checkpoints, or an error of the GGUF files. */
int checkpoint_open(struct checkpoint *c, struct folder in, struct err *e);

/* Refuses a folder that is not a model: an adapter, a hub's cache, weights in a vendor's own format. The
 * sentence says what to do. */
int checkpoint_check(const struct checkpoint *c, struct err *e);

/* Opens config.json, or the config made from GGUF metadata. */
int checkpoint_config(struct config **out, struct checkpoint *c, struct err *e);

int checkpoint_tokenizer(struct tok **out, struct checkpoint *c, struct err *e);

/* True if the checkpoint has a tokenizer, so that a failure of checkpoint_tokenizer() is an error and not
 * only a missing tokenizer. */
bool checkpoint_has_tokenizer(struct checkpoint *c);

/* Opens all tensors. Must be called at most once. They are borrowed from C if it is GGUF or packed. */
int checkpoint_weights(struct weights **out, struct checkpoint *c, struct err *e);

/* Writes the files beside C's weights, or the GGUF metadata, to W. */
int checkpoint_pack_files(struct checkpoint *c, struct pack_writer *w, struct err *e);

/* Closes the files when config, tokenizer and weights are not needed any more. The texts below remain
 * available. ERR_NOMEM if there is no memory for them. */
int checkpoint_let_go(struct checkpoint *c, struct err *e);

/* Opens the chat template and special tokens. */
int checkpoint_chat(struct chat **out, struct checkpoint *c, struct err *e);

/* *out is the text of a generation_config.json, borrowed, if C has no such file but its metadata have the
 * same facts; else NULL. */
int checkpoint_generation(const struct buf **out, struct checkpoint *c, struct err *e);

void checkpoint_close(struct checkpoint *c); /* a zeroed one is fine */

#endif
