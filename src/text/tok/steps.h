/* steps.h - the steps of normalizers, pre-tokenizers and decoders.
 *
 * The normalizer changes a text; the pre-tokenizer cuts it into the words that the model encodes one by one;
 * the decoder turns tokens into text. Each is a list of steps of the kinds that the Hugging Face library and
 * SentencePiece have. A finished list is immutable; each thread runs the steps with memory of its own.
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

/* The kinds of steps. The names in brackets are the fields of struct step that the step uses. */
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
    /* Replaces by a character map, grapheme by grapheme, as Hugging Face's Precompiled does [map]. */
    NORMALIZE_MAP_HF,
    NORMALIZE_MAP_SPM, /* replaces by a character map, longest match first, as SentencePiece does [map] */
    NORMALIZE_BLANKS,  /* SentencePiece: makes each run of spaces one space, and removes spaces at the ends */

    SPLIT_MATCHES, /* cuts at matches [re or find, behavior, invert] */
    SPLIT_CHARS,   /* cuts at characters of a class [class, behavior, invert] */
    /* Puts a text before a piece [text; first: only the first piece; missing: unless it is there]. */
    SPLIT_PREPEND,
    SPLIT_REPLACE, /* replaces every match [re or find, text] */
    SPLIT_SPELL,   /* spells bytes in the GPT-2 alphabet; at most one such step */

    DECODE_BYTE_LEVEL, /* joins tokens, turns GPT-2's letters into bytes; invalid UTF-8 becomes U+FFFD */
    /* Turns a run of pieces <0xAB> into text or, if the run is invalid UTF-8, each of the pieces into U+FFFD. */
    DECODE_BYTE_FALLBACK,
    DECODE_FUSE,      /* joins tokens */
    DECODE_REPLACE,   /* replaces every match [re or find, text] */
    DECODE_STRIP,     /* removes up to START characters at the front of a token [ch, start] */
    DECODE_METASPACE, /* replaces CH by a space, or removes it in the first token [ch, first] */
    /* BPEDecoder: replaces FIND by a space, and removes it in the last token [find]. */
    DECODE_SUFFIX,
    DECODE_JOIN, /* puts a space between tokens, for files without a decoder */
};

enum step_form { NORMALIZE_NFC, NORMALIZE_NFD, NORMALIZE_NFKC, NORMALIZE_NFKD };

/* Whether a match becomes a piece of its own, as in Hugging Face's SplitDelimiterBehavior. */
enum step_behavior {
    SPLIT_ISOLATED,
    SPLIT_REMOVED,
    SPLIT_CONTIGUOUS,
    SPLIT_MERGED_PREVIOUS,
    SPLIT_MERGED_NEXT
};

/* The class of characters at which SPLIT_CHARS cuts. */
enum step_class {
    SPLIT_NUMERIC,
    SPLIT_PUNCTUATION,
    SPLIT_BLANK,
    SPLIT_RUNS, /* runs of word characters, and runs of other characters that are not blank */
};

/* One step; a kind uses only some of the fields. Pointers are borrowed. */
struct step {
    enum step_kind kind;
    const struct pattern *re; /* finds the matches; NULL: the matches are the occurrences of FIND */
    struct json_str find;
    struct json_str text;
    enum step_form form;
    const struct normalize_map *map;
    enum step_behavior behavior;
    enum step_class class;
    bool invert; /* treat matches as the text between matches, and vice versa */
    bool left, right, first, missing;
    uint32_t ch;
    size_t start;
};

/* The largest number of steps of a list (running a list recurses once per step), and the largest factor by
 * which a list may make a text longer. */
enum { STEPS_MAX = 128, STEPS_GROWTH_MAX = 256 };

/* A list of steps. Zeroed = empty. */
struct steps {
    struct step *step;
    size_t n, cap;
    /* The largest factor by which the steps lengthen a text, without normal forms; 0 means 1. */
    size_t growth;
};

/* Appends STEP. ERR_INPUT: the list exceeds a limit above. SECTION names the list in ERR_NOMEM's message. */
int tok_add_step(struct steps *to, struct step step, const char *section, struct err *e);
void tok_steps_fini(struct steps *s);

/* True if NAMES, a string with a blank before and after each name, contains NAME. */
bool tok_is_among(const char *names, const char *name, size_t n);

#endif
