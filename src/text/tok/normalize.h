/* normalize.h - the normalizer of a tokenizer: a list of steps that each turn a text into another; among them
 * the normal forms of Unicode (UAX #15) and SentencePiece's precompiled character map.
 *
 * The map is a double-array trie from byte strings to replacements. Layout (little endian): u32 bytes of the
 * trie, the trie's u32 units, then zero-terminated replacements that the trie's values index. Units are those
 * of the darts-clone library: bit 31 value flag, bit 8 has-leaf, bits 0-7 label, bits 10-30 offset, shifted
 * by 8 more if bit 9 is set.
 */
#ifndef GALLOP_TEXT_TOK_NORMALIZE_H
#define GALLOP_TEXT_TOK_NORMALIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json_pull.h"
#include "base/mem.h"
#include "text/tok/pattern.h"

enum normalize_form { NORMALIZE_NFC, NORMALIZE_NFD, NORMALIZE_NFKC, NORMALIZE_NFKD };

struct normalize_form_work { /* zeroed = empty */
    int32_t *cp, *sorted;
    size_t cap, sorted_cap;
};

void normalize_form_work_fini(struct normalize_form_work *w);

/* True when S (good UTF-8) is in the form already, by a test that needs no tables to say yes to plain text;
 * false only means that it may not be. */
bool normalize_is_plain(enum normalize_form form, const char *s, size_t n);

/* Appends S in FORM to OUT (whose oom flag tells of failure). Time is linear in N, whatever marks S holds. */
void normalize_to_form(enum normalize_form form, struct normalize_form_work *w, const char *s, size_t n,
                       struct buf *out);

struct normalize_map;

/* Reads the map from BYTES, which are copied, into memory of A. ERR_INPUT when they are none. */
int normalize_map_new(struct normalize_map **out, struct arena *a, const char *bytes, size_t n,
                      struct err *e);

enum normalize_kind {
    NORMALIZE_FORM, /* form */
    NORMALIZE_LOWERCASE,
    NORMALIZE_PREPEND,    /* text, unless the input is empty */
    NORMALIZE_REPLACE,    /* every literal find, or match of re, becomes text */
    NORMALIZE_STRIP,      /* left, right */
    NORMALIZE_DROP_MARKS, /* all combining marks */
    NORMALIZE_DROP_MN,    /* non-spacing marks only (BERT) */
    NORMALIZE_CLEAN,      /* BERT: controls out, blanks become spaces */
    NORMALIZE_IDEOGRAPHS, /* BERT: a space on either side of each */
    NORMALIZE_NMT,        /* sentencepiece's rules for controls and blanks */
    NORMALIZE_SPELL,      /* bytes into the GPT-2 alphabet */
    NORMALIZE_MAP_HF,     /* map, by grapheme as Hugging Face's Precompiled applies it */
    NORMALIZE_MAP_SPM,    /* map, longest match first as sentencepiece applies it */
    NORMALIZE_BLANKS,     /* sentencepiece: runs of spaces become one, none at either end */
};

struct normalize_step { /* what it points to is borrowed */
    enum normalize_kind kind;
    enum normalize_form form;
    bool left, right;
    struct json_str find, text;
    const struct pattern *re;
    const struct normalize_map *map;
};

struct normalize { /* zeroed = no steps */
    struct normalize_step *step;
    size_t n, cap;
};

struct normalize_work { /* zeroed = empty; one a thread */
    struct buf out[2];
    struct normalize_form_work uni;
    struct pattern_work *re; /* borrowed */
};

int normalize_add(struct normalize *z, struct normalize_step step, struct err *e); /* ERR_NOMEM */

void normalize_fini(struct normalize *z);
void normalize_work_fini(struct normalize_work *w);

/* Runs all steps on S (good UTF-8). The result is borrowed: S itself or memory of W that the next run
 * overwrites. */
int normalize_run(const struct normalize *z, struct normalize_work *w, const char *s, size_t n,
                  const char **out, size_t *n_out, struct err *e);

#endif
