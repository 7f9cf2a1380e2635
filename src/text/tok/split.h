/* split.h - the pre-tokenizer: cuts a text into the words that the model encodes one by one.
 *
 * A list of steps, each cutting every piece of the one before. Behaviours and steps are those of the Hugging
 * Face library. A step that spells bytes in the GPT-2 alphabet costs nothing when it is the last one: the
 * words then stay bytes, which is what a byte-level model reads; where steps follow it, they see the letters
 * and the words are read back at the end.
 */
#ifndef GALLOP_TEXT_TOK_SPLIT_H
#define GALLOP_TEXT_TOK_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json_pull.h"
#include "base/mem.h"
#include "text/tok/pattern.h"

enum split_kind {
    SPLIT_PATTERN,   /* at the matches of re */
    SPLIT_LITERAL,   /* at each occurrence of text */
    SPLIT_CHARS,     /* at each character of class cls */
    SPLIT_RUNS,      /* runs of word characters and runs of others; blanks are dropped */
    SPLIT_PREPEND,   /* text in front of the first piece of the user's text */
    SPLIT_SPACE,     /* puts a space in front of a piece that has none */
    SPLIT_SPELL,     /* bytes into the GPT-2 alphabet; at most one */
    SPLIT_METASPACE, /* spaces become text; prepended by scheme; split before each if `split` */
};

enum split_behavior {
    SPLIT_ISOLATED,
    SPLIT_REMOVED,
    SPLIT_CONTIGUOUS,
    SPLIT_MERGED_PREVIOUS,
    SPLIT_MERGED_NEXT
};

enum split_class { SPLIT_NUMERIC, SPLIT_PUNCTUATION, SPLIT_BLANK };

enum split_scheme { SPLIT_NEVER, SPLIT_FIRST, SPLIT_ALWAYS };

struct split_step { /* what it points to is borrowed */
    enum split_kind kind;
    enum split_behavior behavior;
    enum split_class cls;
    enum split_scheme scheme;
    bool invert; /* what matches and what does not change places */
    bool split;
    struct json_str text;
    const struct pattern *re;
};

struct split { /* zeroed = the whole text is one word */
    struct split_step *step;
    size_t n, cap;
    bool bytes; /* the words come out as bytes, not as text; set by split_seal() */
    bool unspell;
};

struct split_work {  /* zeroed = empty; one a thread */
    struct buf *out; /* [n] one for each step, then one for the last reading */
    size_t n_out;
    struct pattern_work *re; /* borrowed */
};

typedef int split_sink(void *ctx, const char *word, size_t n, struct err *e);

/* ERR_NOMEM, or ERR_UNSUPPORTED for a second spelling. */
int split_add(struct split *p, struct split_step step, struct err *e);

/* Call once all steps are there. SPELLED: the text comes spelled already (a normalizer did it). */
void split_seal(struct split *p, bool spelled);

void split_fini(struct split *p);

bool split_work_init(struct split_work *w, const struct split *p, struct pattern_work *re);
void split_work_fini(struct split_work *w);

/* Gives each word of S (good UTF-8) to SINK in order, none empty. FIRST: S begins where the user's text does.
 * Stops at the first error of SINK or of a pattern. */
int split_run(const struct split *p, struct split_work *w, const char *s, size_t n, bool first,
              split_sink *sink, void *ctx, struct err *e);

#endif
