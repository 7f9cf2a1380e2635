/* checkpoint.h - a checkpoint, opened once: its config, tokenizer, chat template, generation settings and
 * weights are taken from it, whatever its path means: a folder of Hugging Face's, GGUF, or a packed
 * checkpoint.
 *
 * The files of a GGUF checkpoint are mapped and proved by checkpoint_open() and stay open until
 * checkpoint_let_go(), those of a packed one until checkpoint_close(); each file of a folder is opened when
 * it is asked for. One thread at a time.
 */
#ifndef GALLOP_CKPT_CHECKPOINT_H
#define GALLOP_CKPT_CHECKPOINT_H

#include "base/buf.h"
#include "base/err.h"
#include "ckpt/config.h"
#include "ckpt/gguf/gguf.h"
#include "ckpt/pack/pack.h"
#include "ckpt/weights.h"
#include "text/chat.h"
#include "text/tok/tok.h"

/* What GGUF says of something that is a JSON file in a folder: made when it is first needed. */
struct checkpoint_text {
    bool made;
    int rc; /* of making it; *e then says why */
    struct err e;
    struct buf json;
};

struct checkpoint {
    struct folder in;     /* the path is a copy */
    struct gguf_set gguf; /* its n is 0 of a folder; of one that was packed it has no tensors */
    struct pack *pack;    /* NULL: it is none */
    struct checkpoint_text chat, generation;
};

/* IN is a folder, a GGUF file or any file that tok_open() takes. ERR_INPUT where it could mean several GGUF
 * checkpoints, or what opening GGUF's files says. */
int checkpoint_open(struct checkpoint *c, struct folder in, struct err *e);

/* Refuses a folder that holds something else than a model: an adapter, a hub's cache, weights in a format of
 * their maker. The sentence says what to do. */
int checkpoint_check(const struct checkpoint *c, struct err *e);

/* config.json, or its like. */
int checkpoint_config(struct config **out, struct checkpoint *c, struct err *e);

int checkpoint_tokenizer(struct tok **out, struct checkpoint *c, struct err *e);

/* There is a tokenizer that must open: a failure of checkpoint_tokenizer() then is not merely the lack of
 * one. */
bool checkpoint_has_tokenizer(struct checkpoint *c);

/* All tensors; call it once. They are borrowed from C where it is GGUF or packed. */
int checkpoint_weights(struct weights **out, struct checkpoint *c, struct err *e);

/* Writes to W the files that C has beside its weights, or what GGUF has instead of them. */
int checkpoint_pack_files(struct checkpoint *c, struct pack_writer *w, struct err *e);

/* Closes the files: config, tokenizer and weights are not needed any more. The texts below can still be had.
 * ERR_NOMEM if there is no memory for them. */
int checkpoint_let_go(struct checkpoint *c, struct err *e);

/* The chat template and special tokens. */
int checkpoint_chat(struct chat **out, struct checkpoint *c, struct err *e);

/* The text of a generation_config.json in *out, borrowed, where C has no such file but says what one would;
 * else NULL. */
int checkpoint_generation(const struct buf **out, struct checkpoint *c, struct err *e);

void checkpoint_close(struct checkpoint *c); /* a zeroed one is fine */

#endif
