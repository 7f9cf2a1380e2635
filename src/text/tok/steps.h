/* steps.h - what a tokenizer does with text around its model. The normalizer turns a text into another; the
 * pre-tokenizer cuts it into the words that the model encodes one by one; the decoder makes text of tokens.
 *
 * Each is a list of steps, which are those of the Hugging Face library and of SentencePiece. A list never
 * changes once it is built; what a run writes lies in a struct of its own, one a thread.
 */
#ifndef GALLOP_TEXT_TOK_STEPS_H
#define GALLOP_TEXT_TOK_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json_pull.h"

struct pattern;
struct pattern_work;
struct normalize_map;

enum step_kind {
    NORMALIZE_FORM, /* form */
    NORMALIZE_LOWERCASE,
    NORMALIZE_PREPEND,    /* text, unless the input is empty */
    NORMALIZE_REPLACE,    /* every match becomes text */
    NORMALIZE_STRIP,      /* blanks, left, right */
    NORMALIZE_DROP_MARKS, /* all combining marks */
    NORMALIZE_DROP_MN,    /* non-spacing marks only (BERT) */
    NORMALIZE_CLEAN,      /* BERT: controls out, blanks become spaces */
    NORMALIZE_IDEOGRAPHS, /* BERT: a space on either side of each */
    NORMALIZE_NMT,        /* sentencepiece's rules for controls and blanks */
    NORMALIZE_MAP_HF,     /* map, by grapheme as Hugging Face's Precompiled applies it */
    NORMALIZE_MAP_SPM,    /* map, longest match first as sentencepiece applies it */
    NORMALIZE_BLANKS,     /* sentencepiece: runs of spaces become one, none at either end */

    SPLIT_MATCHES, /* at the matches, by behavior */
    SPLIT_CHARS,   /* at the characters of class, by behavior */
    SPLIT_PREPEND, /* text in front of a piece: of the first alone if first, unless it begins so if missing */
    SPLIT_REPLACE, /* every match becomes text */
    SPLIT_SPELL,   /* bytes into the GPT-2 alphabet; at most one */

    DECODE_BYTE_LEVEL,    /* letters of the GPT-2 alphabet to bytes; joins; ill-formed parts become U+FFFD */
    DECODE_BYTE_FALLBACK, /* runs of <0xAB> to text, or to one U+FFFD each if the run is none */
    DECODE_FUSE,          /* joins */
    DECODE_REPLACE,       /* every match becomes text */
    DECODE_STRIP,         /* up to start characters ch at the front of a token */
    DECODE_METASPACE,     /* ch becomes a space; dropped in the first token if first */
    DECODE_SUFFIX,        /* find becomes a space, and nothing in the last token (BPEDecoder) */
    DECODE_JOIN,          /* a space between tokens (no decoder at all) */
};

enum normalize_form { NORMALIZE_NFC, NORMALIZE_NFD, NORMALIZE_NFKC, NORMALIZE_NFKD };

enum split_behavior {
    SPLIT_ISOLATED,
    SPLIT_REMOVED,
    SPLIT_CONTIGUOUS,
    SPLIT_MERGED_PREVIOUS,
    SPLIT_MERGED_NEXT
};

enum split_class {
    SPLIT_NUMERIC,
    SPLIT_PUNCTUATION,
    SPLIT_BLANK,
    SPLIT_RUNS, /* runs of word characters, and runs of others that are no blanks */
};

struct step { /* what it points to is borrowed */
    enum step_kind kind;
    const struct pattern *re; /* matches are those of the pattern, or, where there is none, */
    struct json_str find;     /* the places where this stands */
    struct json_str text;
    enum normalize_form form;
    const struct normalize_map *map;
    enum split_behavior behavior;
    enum split_class class;
    bool invert; /* what matches and what does not change places */
    bool left, right, first, missing;
    uint32_t ch;
    size_t start;
};

/* Steps run inside of each other, and each may make a text longer. */
enum { STEPS_MAX = 128, STEPS_GROWTH_MAX = 256 };

struct steps { /* zeroed = none */
    struct step *step;
    size_t n, cap;
    /* The steps make a text at most so many times as long as it was, normal forms apart; 0: 1. */
    size_t growth;
};

/* ERR_INPUT: more than STEPS_MAX, or texts would grow more than STEPS_GROWTH_MAX times. ERR_NOMEM. */
int tok_add_step(struct steps *to, struct step step, const char *section, struct err *e);
void tok_steps_fini(struct steps *s);

/* True if NAME[n] is one of NAMES, which have a blank before and after each. */
bool tok_is_among(const char *names, const char *name, size_t n);

/* ---- patterns (pattern.c): regular expressions as tokenizers write them, in the dialect of Oniguruma, run
 * by PCRE2 with JIT; or plain strings. An empty match right behind the last match is not taken. ---- */

/* Compiles SOURCE and puts it in front of the patterns *LIST. ERR_UNSUPPORTED names the construct that is not
 * understood or cannot be compiled, with the pattern in the sentence; or ERR_NOMEM. *LIST then stays as it
 * was. */
int pattern_add(struct pattern **list, const char *source, size_t n, struct err *e);
void pattern_free(struct pattern *list); /* all of them; NULL is fine */

/* Room for the matches of one thread. NULL: out of memory. */
struct pattern_work *pattern_work_new(void);
void pattern_work_free(struct pattern_work *w); /* NULL is fine */

struct pattern_iter {
    const struct step *p;
    struct pattern_work *work;
    const char *s;
    size_t n, at, last;
    bool any; /* LAST is the end of a match */
};

/* Goes through the matches of step P in S (good UTF-8). */
void pattern_start(struct pattern_iter *it, const struct step *p, struct pattern_work *work, const char *s,
                   size_t n);

/* The next match: 1 and its range; 0: no more; negative: -code, *e says that the pattern exceeded its match
 * limit on this text. */
int pattern_next(struct pattern_iter *it, size_t *begin, size_t *end, struct err *e);

/* Appends S to OUT (whose oom flag tells of failure) with p->text for every match of P, up to the end of the
 * last match, which is *DONE. */
int pattern_replace(const struct step *p, struct pattern_work *work, struct json_str s, struct buf *out,
                    size_t *done, struct err *e);

/* ---- the normalizer (normalize.c) ---- */

/* Reads SentencePiece's precompiled character map from BYTES, which are copied, into memory of A. ERR_INPUT
 * when they are none. */
int normalize_map_new(struct normalize_map **out, struct arena *a, const char *bytes, size_t n,
                      struct err *e);

struct normalize_work { /* zeroed = empty */
    struct buf out[2];
    int32_t *cp, *sorted; /* of the normal forms: the characters of a stretch */
    size_t cap, sorted_cap;
    struct pattern_work *re; /* borrowed */
};

void normalize_work_fini(struct normalize_work *w);

/* Runs all steps on S (good UTF-8). The result is borrowed: S itself or memory of W that the next run
 * overwrites. */
int normalize_run(const struct steps *z, struct normalize_work *w, const char *s, size_t n, const char **out,
                  size_t *n_out, struct err *e);

/* ---- the pre-tokenizer (split.c): each step cuts every piece of the one before ----
 *
 * A step that spells bytes in the GPT-2 alphabet costs nothing when it is the last one: the words then stay
 * bytes, which is what a byte-level model reads; where steps follow it, they see the letters and the words
 * are read back at the end. */
struct split { /* zeroed = the whole text is one word */
    struct steps steps;
    bool bytes; /* the words come out as bytes, not as text; set by split_seal() */
    bool unspell;
};

struct split_work {  /* zeroed = empty */
    struct buf *out; /* [n_out] one for each step, then one for the last reading */
    size_t n_out;
    struct pattern_work *re; /* borrowed */
};

typedef int split_sink(void *ctx, const char *word, size_t n, struct err *e);

void split_seal(struct split *p); /* call once all steps are there */

bool split_work_init(struct split_work *w, const struct split *p, struct pattern_work *re);
void split_work_fini(struct split_work *w);

/* Gives each word of S (good UTF-8) to SINK in order, none empty. FIRST: S begins where the user's text does.
 * Stops at the first error of SINK or of a pattern. */
int split_run(const struct split *p, struct split_work *w, const char *s, size_t n, bool first,
              split_sink *sink, void *ctx, struct err *e);

/* ---- the decoder (decode.c): a chain of steps, run on tokens as they come ----
 *
 * A step gets whole tokens until one in front of it joins them (ByteLevel, Fuse); behind that there is one
 * token, which comes in fragments, and only a Strip may follow. A step keeps what it cannot yet judge, so
 * every chain gives what Hugging Face's decoder gives, and the usual ones give it at once. Without steps
 * tokens are written one after the other. */
int decode_check(const struct steps *c,
                 struct err *e); /* ERR_UNSUPPORTED: another step behind one that joins */

/* Appends to OUT the bytes that TOKEN stands for, where the chain has a step that makes bytes of tokens, and
 * they are no text by themselves: a part of a character. False: OUT is as it was. */
bool decode_part_of_character(const struct steps *c, const char *token, size_t n, struct buf *out);

struct decode_run; /* one sequence on its way through the chain */

struct decode_run *decode_run_new(const struct steps *c); /* NULL: out of memory */
void decode_run_free(struct decode_run *r);               /* NULL is fine */

/* One token (good UTF-8) in; what is certain now is appended to OUT. ERR_NOMEM, or a pattern that gives
 * up. */
int decode_put(struct decode_run *r, const char *token, size_t n, struct buf *out, struct err *e);

/* The end of the sequence: appends what was held back and makes R ready for another one. */
int decode_end(struct decode_run *r, struct buf *out, struct err *e);

#endif
