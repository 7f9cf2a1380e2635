/* weights.h - all tensors of a checkpoint, found by name, from files of any format.
 *
 * In a folder, the first of model.safetensors, model.safetensors.index.json, pytorch_model.bin and
 * pytorch_model.bin.index.json is used; if none exists, a single .safetensors file of another name. Files are
 * mapped read-only and never copied. weights_get() marks a tensor as used, so that unused tensors can be
 * reported. The functions are not thread-safe; any thread may read views.
 */
#ifndef GALLOP_CKPT_WEIGHTS_H
#define GALLOP_CKPT_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/files/folder.h"

struct gguf_set;
struct pack;
struct view;
struct weights;

/* Opens the weights in the folder IN and checks the headers of all files. On failure *out is NULL and *e
 * names the file and the fault. */
int weights_open(struct weights **out, struct folder in, struct err *e);

/* Opens the tensors of S, which is borrowed, under Hugging Face's names. Call it once for each S. */
int weights_of_gguf(struct weights **out, struct gguf_set *s, struct err *e);

/* Opens the tensors of P, which is borrowed. Tensors that are part of packed linears have no data. */
int weights_of_pack(struct weights **out, struct pack *p, struct err *e);

/* Returns the tensor NAME and marks it as used, or returns NULL. Borrowed until weights_close(). Its data may
 * be unaligned and strided. */
const struct view *weights_get(struct weights *w, const char *name);

/* Return the number of tensors, and tensor I. They mark no tensor. */
size_t weights_count(const struct weights *w);
const struct view *weights_nth(const struct weights *w, size_t i);

/* Adds the tensor V, which must outlive W, or replaces the tensor of the same name. */
int weights_add(struct weights *w, const struct view *v, struct err *e);

bool weights_has(const struct weights *w, const char *name); /* does not mark NAME */

/* Returns the number of tensors neither used nor skipped, and writes the first MAX names to FIRST. */
size_t weights_unused(const struct weights *w, const char **first, size_t max);

/* Marks all tensors whose names match PATTERN as skipped. '*' matches any text, also the empty text. */
void weights_skip(struct weights *w, const char *pattern);

/* Returns the kind and number of the files: "safetensors", "safetensors, 3 shards", "torch zip", "torch
 * stream", "torch zip, 2 shards", "GGUF", "GGUF, 3 shards" or "gallop pack". */
const char *weights_kind(const struct weights *w);

/* Returns the path of the only file, or of the index of several files, for messages about missing tensors. */
const char *weights_path(const struct weights *w);

/* Returns RC, the result of reading tensors, or an error if a file changed meanwhile. */
int weights_checked(const struct weights *w, int rc, struct err *e);

/* Unmaps the files that W owns, after the tensors were packed. Views keep their names, shapes and types, but
 * their data becomes NULL. */
void weights_let_go(struct weights *w);

void weights_close(struct weights *w); /* W may be NULL */

#endif
