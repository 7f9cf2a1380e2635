/* normalize.h - the normalizer of a tokenizer: a list of steps that each turn a text into another. */
#ifndef GALLOP_TEXT_NORMALIZE_H
#define GALLOP_TEXT_NORMALIZE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/mem.h"
#include "text/normalizeuni.h"
#include "text/pretokre.h"
#include "text/spmmap.h"

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

struct normalize_step {
    enum normalize_kind kind;
    enum normalizeuni_form form;
    bool left, right;
    char *find, *text; /* not terminated by meaning: lengths follow */
    size_t n_find, n_text;
    struct pretokre *re;
    struct spmmap *map;
};

struct normalize { /* zeroed = no steps */
    struct normalize_step *step;
    size_t n, cap;
};

struct normalize_work { /* zeroed = empty; one a thread */
    struct buf out[2];
    struct normalizeuni_work uni;
    struct pretokre_work *re; /* borrowed */
};

/* Adds STEP and takes what it points to, also on failure (ERR_NOMEM). */
int normalize_add(struct normalize *z, struct normalize_step step, struct err *e);

/* A copy of S for struct normalize_step; false: out of memory. */
bool normalize_copy(char **to, size_t *n_to, const char *s, size_t n);

void normalize_fini(struct normalize *z);
void normalize_work_fini(struct normalize_work *w);

/* Runs all steps on S (good UTF-8). The result is borrowed: S itself or memory of W that the next run
 * overwrites. */
int normalize_run(const struct normalize *z, struct normalize_work *w, const char *s, size_t n,
                  const char **out, size_t *n_out, struct err *e);

#endif
