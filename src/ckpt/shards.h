/* shards.h - the index of a checkpoint in several files, which maps each tensor to its file. */
#ifndef GALLOP_CKPT_SHARDS_H
#define GALLOP_CKPT_SHARDS_H

#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/files/folder.h"
#include "base/strmap.h"

/* The contents of model.safetensors.index.json or pytorch_model.bin.index.json. Zeroed: closed. */
struct shards {
    const char *path;  /* the path of the index */
    const char **file; /* names without the folder, in byte order, unique */
    size_t n_files, cap_files;
    const char **name; /* tensor names in the order of the index */
    size_t n, cap;
    struct strmap where; /* tensor name -> index into FILE */
    struct arena arena;
};

/* Reads the file INDEX in the folder IN. ERR_INPUT: INDEX names a file outside IN, among others. Whether the
 * files exist is checked when they are opened. */
int shards_open(struct shards *s, struct folder in, const char *index, struct err *e);

/* Like shards_open(), but reads TEXT [len], which is not kept. PATH is for messages. */
int shards_open_text(struct shards *s, const char *text, size_t len, const char *path, struct err *e);

void shards_close(struct shards *s);

#endif
