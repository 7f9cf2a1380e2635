/* constraint.h - what an answer must look like, compiled for a vocabulary, and the state of one answer.
 *
 * This is the door of the folder: a JSON schema, a regular expression, a list of choices, a grammar or a
 * structural tag becomes a struct constraint; each answer that it constrains has a struct constraint_run. A
 * run keeps the row after each token, so that tokens are taken back by forgetting rows.
 *
 * Runs of one constraint share what it has learned (rows, masks), so that they must not be used by two threads
 * at once; runs of different constraints may. A vocabulary is immutable.
 */
#ifndef GALLOP_TEXT_GRAMMAR_CONSTRAINT_H
#define GALLOP_TEXT_GRAMMAR_CONSTRAINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/tok/tok.h"

/* ---- vocabularies ---- */

struct constraint_vocabulary;

/* The texts of the tokens of TOK, which is not needed afterwards. About 60 ms for 128 000 tokens. ERR_NOMEM. */
int constraint_vocabulary_new(struct constraint_vocabulary **out, const struct tok *tok, struct err *e);
void constraint_vocabulary_free(struct constraint_vocabulary *v); /* NULL is fine */

/* The number of 32-bit words of a mask. */
size_t constraint_mask_words(const struct constraint_vocabulary *v);

/* ---- constraints ---- */

enum constraint_kind {
    CONSTRAINT_JSON_OBJECT, /* any JSON object; no text */
    CONSTRAINT_JSON_SCHEMA, /* TEXT is a JSON schema */
    CONSTRAINT_REGEX,       /* TEXT is a regular expression that the whole answer matches */
    CONSTRAINT_CHOICE,      /* TEXT is a JSON array of strings, of which the answer is one */
    CONSTRAINT_GRAMMAR,     /* TEXT is a grammar in GBNF or xgrammar's EBNF */
    CONSTRAINT_TAG,         /* TEXT is a structural tag as JSON */
};

struct constraint_source {
    enum constraint_kind kind;
    const char *text; /* [n] borrowed */
    size_t n;
    bool is_lax;     /* schemas: keywords that are not served are left out instead of refused */
    bool is_compact; /* schemas: no white space between tokens */
    /* Schemas: a regular expression of the white space between tokens; NULL: the default. */
    const char *whitespace;
    /* Free text up to this mark, and white space, precede what is constrained; NULL: nothing does. */
    const char *after;
};

/* Where a source is at fault. */
struct constraint_fault {
    char keyword[64];  /* of the schema; "": none */
    char pointer[512]; /* JSON pointer to the keyword; "": the root, or no JSON */
};

/* Limits of one constraint (docs/GENERATION.md). */
enum {
    CONSTRAINT_MAX_SOURCE = 1 << 20, /* bytes of a source */
    CONSTRAINT_MAX_BYTES = 64 << 20, /* of memory, also while answers are made */
};

struct constraint;

/* Compiles SOURCE for the tokens of V, which must outlive *OUT. ERR_INPUT (the source is wrong),
 * ERR_UNSUPPORTED (a part of it is not served, or no text matches), ERR_NOSPACE (a limit is reached) and
 * ERR_NOMEM, each with a sentence. FAULT may be NULL. */
int constraint_new(struct constraint **out, const struct constraint_source *source,
                   const struct constraint_vocabulary *v, struct constraint_fault *fault, struct err *e);
void constraint_free(struct constraint *c); /* NULL is fine; no run may be left */

/* True if C has reached a limit while answers were made, or comes close to its limit of memory: new answers need a
 * new one. From any thread. */
bool constraint_is_spent(const struct constraint *c);

/* [*n] sentences, each about a keyword of a schema that was left out (constraint_source.is_lax). */
const char *const *constraint_warnings(const struct constraint *c, size_t *n);

/* The memory that C takes now. */
size_t constraint_bytes(const struct constraint *c);

/* True if the whole of TEXT is allowed, byte by byte, whatever its tokens. */
bool constraint_matches(struct constraint *c, const char *text, size_t n);

/* ---- answers ---- */

struct constraint_run {
    struct constraint *c; /* borrowed */
    uint32_t *row;        /* [n + 1] of the recognizer: before the first token, and after each */
    size_t n, cap;        /* tokens so far */
};

/* Begins an answer with room for CAP tokens. ERR_NOMEM. */
int constraint_run_open(struct constraint_run *r, struct constraint *c, size_t cap, struct err *e);
void constraint_run_close(struct constraint_run *r); /* a zeroed one is fine */

/* Sets the bits of the tokens that may come next in MASK [constraint_mask_words()]. End tokens are not among
 * them: constraint_run_may_end() says whether one may come. Returns the number of tokens; 0: the answer can
 * only end, or the constraint has reached a limit, and *E has a sentence and a code. */
size_t constraint_run_mask(struct constraint_run *r, uint32_t *mask, struct err *e);

/* True if the answer so far is complete. */
bool constraint_run_may_end(const struct constraint_run *r);

/* Adds TOKEN. False: it is not allowed here, or there is no room for it; nothing has changed. */
bool constraint_run_add(struct constraint_run *r, int32_t token);

/* Takes back tokens until N are left. */
void constraint_run_truncate(struct constraint_run *r, size_t n);

#endif
