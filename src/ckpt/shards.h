/* shards.h - the index of a checkpoint in several files: which file holds which tensor. */
#ifndef GALLOP_CKPT_SHARDS_H
#define GALLOP_CKPT_SHARDS_H

#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/folder.h"
#include "base/strmap.h"

/* Read from model.safetensors.index.json or pytorch_model.bin.index.json. A zeroed one is closed. */
struct shards {
    const char *path;  /* of the index */
    const char **file; /* names without folder, in byte order, unique */
    size_t n_files, cap_files;
    const char **name; /* tensor names in the order of the index */
    size_t n, cap;
    struct strmap where; /* tensor name -> number of its file */
    struct arena arena;
};

/* Reads the file INDEX of the folder IN. Names that are those of no file in it are refused; whether the files
 * exist, and where links lead, is seen when they are opened. */
int shards_open(struct shards *s, struct folder in, const char *index, struct err *e);

/* The same from text, which must outlive the call only. PATH is for messages. */
int shards_open_text(struct shards *s, const char *text, size_t len, const char *path, struct err *e);

void shards_close(struct shards *s);

#endif
