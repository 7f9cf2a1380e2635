/* shards.h - the index of a checkpoint in several files: the file of each tensor. */
#ifndef GALLOP_CKPT_SHARDS_H
#define GALLOP_CKPT_SHARDS_H

#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/files/folder.h"
#include "base/strmap.h"

/* The contents of model.safetensors.index.json or pytorch_model.bin.index.json. A zeroed one is closed. */
struct shards {
    const char *path;  /* the path of the index */
    const char **file; /* names without the folder, in byte order, unique */
    size_t n_files, cap_files;
    const char **name; /* tensor names in the order of the index */
    size_t n, cap;
    struct strmap where; /* tensor name -> number of its file */
    struct arena arena;
};

/* Reads the file INDEX of the folder IN. A name that cannot be that of a file in IN is refused; whether a
 * file exists, and where its links lead, is checked when it is opened. */
int shards_open(struct shards *s, struct folder in, const char *index, struct err *e);

/* The same for TEXT, which is needed during the call only. PATH is for messages. */
int shards_open_text(struct shards *s, const char *text, size_t len, const char *path, struct err *e);

void shards_close(struct shards *s);

#endif
