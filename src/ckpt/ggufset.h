/* ggufset.h - the GGUF files of one checkpoint: one, or NAME-00001-of-0000N.gguf and its fellows.
 *
 * The first file (split.no 0) holds the metadata, each holds tensors. Files are mapped read-only and stay
 * mapped as long as the set is open. Whether a path means GGUF at all is decided here for everybody: a file
 * whose name ends in .gguf or that begins like one, or a folder without config.json in which one such
 * checkpoint lies.
 */
#ifndef GALLOP_CKPT_GGUFSET_H
#define GALLOP_CKPT_GGUFSET_H

#include <stdbool.h>
#include <stddef.h>

#include "ckpt/gguf.h"
#include "ckpt/tfile.h"

struct ggufset {
    struct tfile *file; /* [n] the maps; without tensors until ggufname_fill() */
    struct gguf *part;  /* [n] their tables; part[0] has the metadata */
    size_t n;
};

/* True if IN, a folder or a file, means a GGUF checkpoint. *rc: ERR_INPUT when it is a folder that could mean
 * several, or 0. */
bool ggufset_means(struct folder in, int *rc, struct err *e);

/* NO (from 1) and COUNT of a name like x-00001-of-00002.gguf; false of any other. */
bool ggufset_split_name(const char *path, int64_t *no, int64_t *count);

/* The name of file NO of COUNT to out[size], PATH being that of any of them. False if it does not fit. */
bool ggufset_part_name(char *out, size_t size, const char *path, size_t no, size_t count);

/* Opens IN (ggufset_means() said yes) with all its files. On failure *S is closed. */
int ggufset_open(struct ggufset *s, struct folder in, struct err *e);

/* As tfile_checked(), of all files of S. */
int ggufset_checked(const struct ggufset *s, int rc, struct err *e);

/* The same over bytes of the caller's, which must outlive S, as the only file; PATH is for messages. */
int ggufset_open_bytes(struct ggufset *s, const char *bytes, size_t len, const char *path, struct err *e);

void ggufset_close(struct ggufset *s); /* a zeroed one is fine */

/* The tensor NAME of any file, or NULL. */
const struct gguf_tensor *ggufset_tensor(const struct ggufset *s, const char *name);

#endif
