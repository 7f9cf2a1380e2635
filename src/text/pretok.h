/* pretok.h - the pre-tokenizer: cuts a text into the words that the model encodes one by one.
 *
 * A list of steps, each cutting every piece of the one before. Behaviours and steps are those of the Hugging
 * Face library. A step that spells bytes in the GPT-2 alphabet costs nothing when it is the last one: the
 * words then stay bytes, which is what a byte-level model reads; where steps follow it, they see the letters
 * and the words are read back at the end.
 */
#ifndef GALLOP_TEXT_PRETOK_H
#define GALLOP_TEXT_PRETOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "text/pretokre.h"

enum pretok_kind {
    PRETOK_SPLIT,     /* at the matches of re */
    PRETOK_LITERAL,   /* at each occurrence of text */
    PRETOK_CHARS,     /* at each character of class cls */
    PRETOK_RUNS,      /* runs of word characters and runs of others; blanks are dropped */
    PRETOK_PREPEND,   /* text in front of the first piece of the user's text */
    PRETOK_SPACE,     /* puts a space in front of a piece that has none */
    PRETOK_SPELL,     /* bytes into the GPT-2 alphabet; at most one */
    PRETOK_METASPACE, /* spaces become text; prepended by scheme; split before each if `split` */
};

enum pretok_behavior {
    PRETOK_ISOLATED,
    PRETOK_REMOVED,
    PRETOK_CONTIGUOUS,
    PRETOK_MERGED_PREVIOUS,
    PRETOK_MERGED_NEXT
};

enum pretok_class { PRETOK_NUMERIC, PRETOK_PUNCTUATION, PRETOK_BLANK };

enum pretok_scheme { PRETOK_NEVER, PRETOK_FIRST, PRETOK_ALWAYS };

struct pretok_step {
    enum pretok_kind kind;
    enum pretok_behavior behavior;
    enum pretok_class cls;
    enum pretok_scheme scheme;
    bool invert; /* what matches and what does not change places */
    bool split;
    char *text;
    size_t n_text;
    struct pretokre *re;
};

struct pretok { /* zeroed = the whole text is one word */
    struct pretok_step *step;
    size_t n, cap;
    bool bytes; /* the words come out as bytes, not as text; set by pretok_seal() */
    bool unspell;
};

struct pretok_work { /* zeroed = empty; one a thread */
    struct buf *out; /* [n] one for each step, then one for the last reading */
    size_t n_out;
    struct pretokre_work *re; /* borrowed */
};

typedef int pretok_sink(void *ctx, const char *word, size_t n, struct err *e);

/* Adds STEP and takes what it points to, also on failure. ERR_NOMEM, or ERR_UNSUPPORTED for a second
 * spelling. */
int pretok_add(struct pretok *p, struct pretok_step step, struct err *e);

/* Hugging Face's ByteLevel: a space in front, GPT-2's pattern, spelling. */
int pretok_add_byte_level(struct pretok *p, bool prefix_space, bool use_regex, struct err *e);

/* Call once all steps are there. SPELLED: the text comes spelled already (a normalizer did it). */
void pretok_seal(struct pretok *p, bool spelled);

void pretok_fini(struct pretok *p);

bool pretok_work_init(struct pretok_work *w, const struct pretok *p, struct pretokre_work *re);
void pretok_work_fini(struct pretok_work *w);

/* Gives each word of S (good UTF-8) to SINK in order, none empty. FIRST: S begins where the user's text does.
 * Stops at the first error of SINK or of a pattern. */
int pretok_run(const struct pretok *p, struct pretok_work *w, const char *s, size_t n, bool first,
               pretok_sink *sink, void *ctx, struct err *e);

#endif
