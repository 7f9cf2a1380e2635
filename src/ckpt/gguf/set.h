/* set.h - the files of one GGUF checkpoint.
 *
 * A checkpoint has one file, or N files NAME-00001-of-0000N.gguf, ... The first file (split.no 0) has the
 * metadata, all files have tensors. Files are mapped read-only while the set is open.
 */
#ifndef GALLOP_CKPT_GGUF_SET_H
#define GALLOP_CKPT_GGUF_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/files/folder.h"

struct err;
struct gguf;
struct gguf_tensor;
struct tensor_file;

struct gguf_set {
    struct tensor_file *file; /* [n] mapped files; without tensors until gguf_names_fill() */
    struct gguf *part;        /* [n] tables of the files; part[0] has the metadata */
    size_t n;
};

/* Returns whether IN is a GGUF checkpoint: a file with a name *.gguf or with the magic of GGUF, or a folder without
 * config.json that has .gguf files. Sets *RC to ERR_INPUT if the folder has several checkpoints, otherwise to 0. */
bool gguf_set_means(struct folder in, int *rc, struct err *e);

/* Parses a name like x-00001-of-00002.gguf into NO (from 1) and COUNT. False: PATH has no such name. */
bool gguf_set_split_name(const char *path, int64_t *no, int64_t *count);

/* Writes the path of file NO of COUNT to OUT. PATH is the path of any of these files. False: OUT is too small. */
bool gguf_set_part_name(char *out, size_t size, const char *path, size_t no, size_t count);

/* Opens all files of the GGUF checkpoint IN (see gguf_set_means()). On failure *S is closed. */
int gguf_set_open(struct gguf_set *s, struct folder in, struct err *e);

/* Calls tensor_file_checked() for all files of S. */
int gguf_set_checked(const struct gguf_set *s, int rc, struct err *e);

/* Opens the bytes of a single file, which must outlive S. PATH is for messages. */
int gguf_set_open_bytes(struct gguf_set *s, const char *bytes, size_t len, const char *path, struct err *e);

/* Closes tables and maps. Paths, and names, shapes and types of tensors stay until gguf_set_close(). */
void gguf_set_let_go(struct gguf_set *s);

void gguf_set_close(struct gguf_set *s); /* S may be zeroed */

/* Returns the tensor NAME of any file, or NULL. */
const struct gguf_tensor *gguf_set_tensor(const struct gguf_set *s, const char *name);

#endif
