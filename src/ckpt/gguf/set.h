/* set.h - the files of one GGUF checkpoint.
 *
 * One file, or NAME-00001-of-0000N.gguf and the other files of the name. The first (split.no 0) has the
 * metadata, each file has tensors. Files are mapped read-only while the set is open.
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
    struct tensor_file *file; /* [n] the maps; they have no tensors until gguf_names_fill() */
    struct gguf *part;        /* [n] the tables of the files; part[0] has the metadata */
    size_t n;
};

/* True if IN, a folder or a file, is a GGUF checkpoint: a file whose name ends in .gguf or that begins like
 * one, or a folder without config.json that contains one such checkpoint. *rc: ERR_INPUT if the folder
 * contains several, or 0. */
bool gguf_set_means(struct folder in, int *rc, struct err *e);

/* Reads NO (from 1) and COUNT of a name like x-00001-of-00002.gguf. False: PATH is no such name. */
bool gguf_set_split_name(const char *path, int64_t *no, int64_t *count);

/* Writes the name of file NO of COUNT to out[size]. PATH is the name of any of the files. False if it does
 * not fit. */
bool gguf_set_part_name(char *out, size_t size, const char *path, size_t no, size_t count);

/* Opens all files of IN, for which gguf_set_means() must be true. On failure *S is closed. */
int gguf_set_open(struct gguf_set *s, struct folder in, struct err *e);

/* As tensor_file_checked(), for all files of S. */
int gguf_set_checked(const struct gguf_set *s, int rc, struct err *e);

/* For tests and fuzzers: the same for bytes of the caller's as the only file, which must outlive S. PATH is
 * for messages. */
int gguf_set_open_bytes(struct gguf_set *s, const char *bytes, size_t len, const char *path, struct err *e);

/* Closes tables and maps. The names of the files, and the names, shapes and types of the tensors, stay until
 * gguf_set_close(). */
void gguf_set_let_go(struct gguf_set *s);

void gguf_set_close(struct gguf_set *s); /* a zeroed one is fine */

/* Finds the tensor NAME in any file, or NULL. */
const struct gguf_tensor *gguf_set_tensor(const struct gguf_set *s, const char *name);

#endif
