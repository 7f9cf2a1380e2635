/* steps.h - the steps of normalizers, pre-tokenizers and decoders.
 *
 * The normalizer changes a text; the pre-tokenizer cuts it into the words that the model encodes one by one;
 * the decoder turns tokens into text. Each is a list of steps, which are those of the Hugging Face library
 * and of SentencePiece. A finished list is immutable; each thread runs it with memory of its own.
 */
#ifndef GALLOP_TEXT_TOK_STEPS_H
#define GALLOP_TEXT_TOK_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_pull.h"

struct pattern;
struct normalize_map;

/* The words in brackets are the fields of struct step that a step uses. */
enum step_kind {
    NORMALIZE_FORM, /* a Unicode normal form [form] */
    NORMALIZE_LOWERCASE,
    NORMALIZE_PREPEND,    /* puts a text before an input that is not empty [text] */
    NORMALIZE_REPLACE,    /* replaces every match [re or find, text] */
    NORMALIZE_STRIP,      /* removes blanks at the ends [left, right] */
    NORMALIZE_DROP_MARKS, /* removes all combining marks */
    NORMALIZE_DROP_MN,    /* removes non-spacing marks only (BERT) */
    NORMALIZE_CLEAN,      /* removes control characters, turns blanks into spaces (BERT) */
    NORMALIZE_IDEOGRAPHS, /* puts a space on either side of each ideograph (BERT) */
    NORMALIZE_NMT,        /* SentencePiece's rules for control characters and blanks */
    NORMALIZE_MAP_HF,     /* a map, applied by grapheme as in Hugging Face's Precompiled [map] */
    NORMALIZE_MAP_SPM,    /* a map, longest match first as in SentencePiece [map] */
    NORMALIZE_BLANKS,     /* SentencePiece: one space for each run of spaces, none at either end */

    SPLIT_MATCHES, /* cuts at the matches [re or find, behavior, invert] */
    SPLIT_CHARS,   /* cuts at the characters of a class [class, behavior] */
    SPLIT_PREPEND, /* puts a text before pieces [text; first: the first piece only; missing: unless there] */
    SPLIT_REPLACE, /* replaces every match [re or find, text] */
    SPLIT_SPELL,   /* spells bytes in the GPT-2 alphabet; at most one such step */

    DECODE_BYTE_LEVEL,    /* joins tokens, turns the GPT-2 alphabet into bytes; invalid parts become U+FFFD */
    DECODE_BYTE_FALLBACK, /* turns runs of <0xAB> into text, or into one U+FFFD each if they are invalid */
    DECODE_FUSE,          /* joins tokens */
    DECODE_REPLACE,       /* replaces every match [re or find, text] */
    DECODE_STRIP,         /* removes up to START characters at the front of a token [ch, start] */
    DECODE_METASPACE,     /* replaces a character by a space, or removes it in the first token [ch, first] */
    DECODE_SUFFIX,        /* replaces FIND by a space, and removes it in the last token (BPEDecoder) [find] */
    DECODE_JOIN,          /* puts a space between tokens (no decoder at all) */
};

enum step_form { NORMALIZE_NFC, NORMALIZE_NFD, NORMALIZE_NFKC, NORMALIZE_NFKD };

enum step_behavior {
    SPLIT_ISOLATED,
    SPLIT_REMOVED,
    SPLIT_CONTIGUOUS,
    SPLIT_MERGED_PREVIOUS,
    SPLIT_MERGED_NEXT
};

enum step_class {
    SPLIT_NUMERIC,
    SPLIT_PUNCTUATION,
    SPLIT_BLANK,
    SPLIT_RUNS, /* runs of word characters, and runs of others that are not blanks */
};

/* Pointers are borrowed. */
struct step {
    enum step_kind kind;
    const struct pattern *re; /* the pattern that finds matches; NULL: matches are the occurrences of FIND */
    struct json_str find;
    struct json_str text;
    enum step_form form;
    const struct normalize_map *map;
    enum step_behavior behavior;
    enum step_class class;
    bool invert; /* matches and the text between them change roles */
    bool left, right, first, missing;
    uint32_t ch;
    size_t start;
};

/* Steps are nested in calls, and each may make a text longer. */
enum { STEPS_MAX = 128, STEPS_GROWTH_MAX = 256 };

/* Zeroed = none. */
struct steps {
    struct step *step;
    size_t n, cap;
    /* The largest factor by which the steps make a text longer, without normal forms; 0: 1. */
    size_t growth;
};

/* ERR_INPUT: more than STEPS_MAX, or texts would grow more than STEPS_GROWTH_MAX times. ERR_NOMEM. */
int tok_add_step(struct steps *to, struct step step, const char *section, struct err *e);
void tok_steps_fini(struct steps *s);

/* True if NAME[n] is one of NAMES, which have a blank before and after each. */
bool tok_is_among(const char *names, const char *name, size_t n);

#endif
