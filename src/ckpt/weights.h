/* weights.h - all tensors of a checkpoint as views by name, from files of any format.
 *
 * A folder is searched for model.safetensors, model.safetensors.index.json, pytorch_model.bin and
 * pytorch_model.bin.index.json, in this order; if none exists, for a single .safetensors file of another
 * name. Files are mapped read-only and never copied. Used tensors are marked, so that a tensor that is not
 * used can be reported. Not thread-safe while it is filled and asked; views may be read by any thread.
 */
#ifndef GALLOP_CKPT_WEIGHTS_H
#define GALLOP_CKPT_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/files/folder.h"
#include "tensor/view.h"

struct weights;
struct gguf_set;
struct pack;

/* Opens the folder IN and checks every header in it. On failure *out is NULL and *e names the file and the
 * fault. */
int weights_open(struct weights **out, struct folder in, struct err *e);

/* The same for the open files S, which W borrows, under Hugging Face's names; at most once for each S. */
int weights_of_gguf(struct weights **out, struct gguf_set *s, struct err *e);

/* The same for the packed checkpoint P. Tensors that are part of packed linears have no data. */
int weights_of_pack(struct weights **out, struct pack *p, struct err *e);

/* Finds the tensor NAME and marks it as used, or NULL. Borrowed until weights_close(); data may be unaligned
 * and strided. */
const struct view *weights_get(struct weights *w, const char *name);

/* The number of tensors, and tensor I. Neither marks anything. */
size_t weights_count(const struct weights *w);
const struct view *weights_nth(const struct weights *w, size_t i);

/* Adds V, which outlives W, or replaces the tensor of its name. */
int weights_add(struct weights *w, const struct view *v, struct err *e);

bool weights_has(const struct weights *w, const char *name); /* does not mark */

/* Counts the tensors that were neither used nor skipped; the names of up to MAX of them, in the order of the
 * files, go to first[]. */
size_t weights_unused(const struct weights *w, const char **first, size_t max);

/* Marks all tensors whose names match PATTERN as known and not needed. '*' matches any text, including
 * none. */
void weights_skip(struct weights *w, const char *pattern);

/* The kind of the files: "safetensors", "safetensors, 3 shards", "torch zip", "torch stream", "torch zip, 2
 * shards", "GGUF", "GGUF, 3 shards", "gallop pack". */
const char *weights_kind(const struct weights *w);

/* The file in which a missing tensor should have been: the only file, or the index of several. For
 * messages. */
const char *weights_path(const struct weights *w);

/* Returns RC, the result of reading tensors, if the files did not change meanwhile; else an error that names
 * the file that did. */
int weights_checked(const struct weights *w, int rc, struct err *e);

/* Unmaps the files that W opened itself, after the tensors were packed. Views keep names, shapes and types,
 * but not their data. */
void weights_let_go(struct weights *w);

void weights_close(struct weights *w); /* NULL is fine */

#endif
