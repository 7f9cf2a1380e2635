/* checkpoint.h - an open checkpoint (Hugging Face folder, GGUF files or packed checkpoint), from which
 * config, tokenizer, chat template, generation settings and weights are read.
 *
 * checkpoint_open() maps and checks the files of a GGUF or packed checkpoint. GGUF files stay open until
 * checkpoint_let_go(), files of a packed checkpoint until checkpoint_close(). A file of a folder is opened
 * when it is needed. A checkpoint may be used by one thread at a time.
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

/* The text of a JSON file that GGUF checkpoints lack. It is made from the GGUF metadata at the first use. */
struct checkpoint_text {
    bool made;
    int rc; /* result of making the text; E has the sentence of an error */
    struct err e;
    struct buf json;
};

struct checkpoint {
    struct folder in;     /* the folder or file; owns a copy of the path */
    struct gguf_set gguf; /* GGUF files; n 0: none; a packed GGUF checkpoint has no tensors here */
    struct pack *pack;    /* NULL: not a packed checkpoint */
    struct checkpoint_text chat, generation, pooling;
};

/* Opens IN: a folder, a GGUF file, a packed checkpoint, or any file that tok_open() accepts. ERR_INPUT: IN
 * has several GGUF checkpoints, or a GGUF or packed file is damaged. */
int checkpoint_open(struct checkpoint *c, struct folder in, struct err *e);

/* Fails for a folder that is not a model but an adapter, a hub's cache, or weights in a vendor's own format.
 * The sentence says what to do. */
int checkpoint_check(const struct checkpoint *c, struct err *e);

/* Opens config.json, or the config made from GGUF metadata. */
int checkpoint_config(struct config **out, struct checkpoint *c, struct err *e);

int checkpoint_tokenizer(struct tok **out, struct checkpoint *c, struct err *e);

/* Returns whether the checkpoint has a tokenizer. If it has one, a failure of checkpoint_tokenizer() means
 * that the tokenizer is damaged. */
bool checkpoint_has_tokenizer(struct checkpoint *c);

/* Opens all tensors. Call it at most once. The tensors of a GGUF or packed checkpoint are borrowed from C. */
int checkpoint_weights(struct weights **out, struct checkpoint *c, struct err *e);

/* Writes config, tokenizer and the other small files of C, or its GGUF metadata, to W. */
int checkpoint_pack_files(struct checkpoint *c, struct pack_writer *w, struct err *e);

/* Closes the GGUF files when config, tokenizer and weights are no longer needed. First makes the texts for
 * checkpoint_chat(), checkpoint_generation() and checkpoint_pooling(), which stay usable. ERR_NOMEM: there was
 * no memory for these texts. */
int checkpoint_let_go(struct checkpoint *c, struct err *e);

/* Opens the chat template and the special tokens. */
int checkpoint_chat(struct chat **out, struct checkpoint *c, struct err *e);

/* Sets *OUT to a generation_config.json made from GGUF metadata, borrowed. NULL: C is not GGUF. */
int checkpoint_generation(const struct buf **out, struct checkpoint *c, struct err *e);

/* Does the same for the config.json of the Pooling module of sentence-transformers. */
int checkpoint_pooling(const struct buf **out, struct checkpoint *c, struct err *e);

void checkpoint_close(struct checkpoint *c); /* C may be zeroed */

#endif
