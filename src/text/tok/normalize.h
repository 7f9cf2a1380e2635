/* normalize.h - runs the normalizer of a tokenizer: a list of steps that change a text. */
#ifndef GALLOP_TEXT_TOK_NORMALIZE_H
#define GALLOP_TEXT_TOK_NORMALIZE_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

struct json_str;
struct normalize_map;
struct steps;

/* Copies SentencePiece's precompiled character map BYTES into memory of A. ERR_INPUT: it is malformed. */
int normalize_map_new(struct normalize_map **out, struct arena *a, const char *bytes, size_t n,
                      struct err *e);

/* The buffers of one thread. Zeroed = empty. */
struct normalize_work {
    struct buf out[2];
    int32_t *cp, *sorted; /* the code points of a part of the text, for normal forms */
    size_t cap, sorted_cap;
    struct pattern_work *re; /* borrowed */
};

void normalize_work_fini(struct normalize_work *w);

/* Runs all steps on TEXT (valid UTF-8). The result is borrowed: TEXT itself, or memory of W that the next run
 * overwrites. *START (NULL: not wanted) is the length in bytes of a prefix of TEXT; it becomes the length of
 * the prefix of the result that the Hugging Face library aligns with it. */
int normalize_run(const struct steps *z, struct normalize_work *w, struct json_str *text, size_t *start,
                  struct err *e);

#endif
