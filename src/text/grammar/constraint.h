/* constraint.h - compiles a constraint on answers for a vocabulary, and keeps the state of each constrained
 * answer.
 *
 * This is the interface of the folder: a JSON schema, a regular expression, a list of choices, a grammar or a
 * structural tag becomes a struct constraint. Each answer under it has a struct constraint_run, which keeps
 * the recognizer's row (its Earley set) after each token, so that tokens can be taken back.
 *
 * Runs of one constraint share its caches (rows, masks), so only one thread at a time may use them. Runs of
 * different constraints are independent. A vocabulary is immutable.
 */
#ifndef GALLOP_TEXT_GRAMMAR_CONSTRAINT_H
#define GALLOP_TEXT_GRAMMAR_CONSTRAINT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct tok;

/* ---- vocabularies ---- */

struct constraint_vocabulary;

/* Collects the texts of TOK's tokens (60 ms for 128 000 tokens); TOK is not needed afterwards. ERR_NOMEM. */
int constraint_vocabulary_new(struct constraint_vocabulary **out, const struct tok *tok, struct err *e);
void constraint_vocabulary_free(struct constraint_vocabulary *v); /* V may be NULL */

/* Returns the number of 32-bit words of a mask. */
size_t constraint_mask_words(const struct constraint_vocabulary *v);

/* ---- constraints ---- */

enum constraint_kind {
    CONSTRAINT_JSON_OBJECT, /* any JSON object; TEXT is unused */
    CONSTRAINT_JSON_SCHEMA, /* TEXT is a JSON schema */
    CONSTRAINT_REGEX,       /* TEXT is a regular expression that must match the whole answer */
    CONSTRAINT_CHOICE,      /* TEXT is a JSON array of strings; the answer is one of them */
    CONSTRAINT_GRAMMAR,     /* TEXT is a grammar in GBNF or xgrammar's EBNF */
    CONSTRAINT_TAG,         /* TEXT is a structural tag, as JSON */
    CONSTRAINT_NONE,        /* any text; TEXT is unused, and TOOLS must be set */
};

struct constraint_source {
    enum constraint_kind kind;
    const char *text; /* [n] borrowed */
    size_t n;
    bool is_lax;         /* schemas: unsupported keywords are ignored with a warning instead of refused */
    bool is_compact;     /* schemas: no white space between tokens */
    bool is_open;        /* schemas: objects may have properties that no keyword describes */
    bool every_spelling; /* schemas: names, `enum` and `const` have every spelling (schema_options) */
    /* Schemas: a regular expression for the white space between tokens; NULL: the default. */
    const char *whitespace;
    /* The mark that ends the free text before the constrained part, such as the end of reasoning. White space
     * may follow the mark. NULL: the whole answer is constrained. */
    const char *after;
    /* With AFTER: the mark that begins the free text. An answer that does not begin with this mark is
     * constrained as a whole. NULL: every answer begins with the free text. */
    const char *open;
    bool has_channels; /* answers are harmony messages; KIND applies to the message of the channel `final` */
    /* A constraint on tool calls as JSON (tool_calls_read()). KIND applies to an answer without tool calls.
     * NULL: tool calls are not constrained. */
    const char *tools;
};

/* The place of an error in a source. */
struct constraint_fault {
    char keyword[64];  /* the schema's keyword; "": none */
    char pointer[512]; /* JSON pointer to the schema; "": the root, or the source is not JSON */
    bool is_in_tools;  /* the error is in TOOLS */
};

/* The limits of one constraint (docs/STRUCTURED-OUTPUT.md). */
enum {
    CONSTRAINT_MAX_SOURCE = 1 << 20, /* bytes of a source */
    CONSTRAINT_MAX_BYTES = 64 << 20, /* bytes of memory, caches included */
};

/* A memory limit that several constraints share. An answer that needs more memory ends with an error. */
struct constraint_budget {
    _Atomic size_t bytes; /* bytes of all constraints together, as last measured */
    size_t most; /* without effect if requests have a budget (mem_budget()), which then is the limit */
};

struct constraint;

/* Compiles SOURCE for the tokens of V, which must outlive *OUT. ERR_INPUT: the source is malformed.
 * ERR_UNSUPPORTED: a part of it is not supported, or no text matches. ERR_NOSPACE: a limit is reached. FAULT
 * may be NULL. */
int constraint_new(struct constraint **out, const struct constraint_source *source,
                   const struct constraint_vocabulary *v, struct constraint_fault *fault, struct err *e);
void constraint_free(struct constraint *c); /* C may be NULL; all its runs must be closed */

/* True if C has reached a limit, or has used half of its memory. New answers then need a newly compiled
 * constraint. May be called from any thread. */
bool constraint_is_spent(const struct constraint *c);

/* Counts the memory of C in BUDGET from now on, which must outlive C. */
void constraint_share(struct constraint *c, struct constraint_budget *budget);

/* Returns *N sentences, each about a keyword of a schema that is ignored (constraint_source.is_lax). */
const char *const *constraint_warnings(const struct constraint *c, size_t *n);

/* Returns the memory of C in bytes. */
size_t constraint_bytes(const struct constraint *c);

/* Returns the code of the limit that C has reached, and sets *E to its message. ERR_UNSUPPORTED: the limit of a single
 * constraint, which a later attempt would reach, too. ERR_NOSPACE: the common limit of all constraints. 0: no limit; *E
 * does not change. */
int constraint_error(const struct constraint *c, struct err *e);

/* True if the last function on a run of C stopped because its steps were used up: see constraint_run.steps. */
bool constraint_is_paused(const struct constraint *c);

/* True if C allows TEXT as a whole answer, regardless of its division into tokens. False also if C reaches a limit
 * first: see constraint_error(). */
bool constraint_matches(struct constraint *c, const char *text, size_t n);

/* ---- answers ---- */

/* Maximum steps of work for a mask or a token of an answer, of about 100 ns each; then the constraint has reached a
 * limit. */
enum { CONSTRAINT_MASK_STEPS = 1000000 };

/* Steps that functions on runs may still do, and have done. */
struct constraint_steps {
    size_t left, done;
};

/* The state of one answer. */
struct constraint_run {
    struct constraint *c; /* borrowed */
    /* The steps that functions on this run may do now. If these do not suffice, the function fails,
     * constraint_is_paused() is true, and the same call may be made again, on any thread. NULL: no such limit. */
    struct constraint_steps *steps;
    /* The client (mem_client()) at the start of the answer: masks and tokens are charged to its request, on every
     * thread. */
    uint32_t client;
    uint32_t *row; /* [n + 1] recognizer rows: before the first token, and after each token */
    size_t n, cap; /* N: number of tokens so far */
};

/* Starts an answer with room for CAP tokens. ERR_NOMEM. */
int constraint_run_open(struct constraint_run *r, struct constraint *c, size_t cap, struct err *e);
void constraint_run_close(struct constraint_run *r); /* R may be zeroed */

/* Sets the bits of the tokens that may come next in MASK [constraint_mask_words()]. End tokens are not
 * included: see constraint_run_may_end(). Returns the number of allowed tokens. 0: the answer can only end,
 * or the call is paused, or the constraint has reached a limit, and *E has its constraint_run_error(). */
size_t constraint_run_mask(struct constraint_run *r, uint32_t *mask, struct err *e);

/* Like constraint_error(). The message begins with the function and the schema at the end of the answer so far, if they
 * are known. */
int constraint_run_error(const struct constraint_run *r, struct err *e);

/* True if guessed tokens may be added to R, and their masks computed: the last token or mask took little work, and the
 * constraint has used less than half of its memory. Otherwise wrong guesses could exhaust a limit that the answer
 * itself does not reach. */
bool constraint_run_may_guess(const struct constraint_run *r);

/* Guesses the next tokens where the constraint allows one text only, by dividing this text into tokens, always the
 * longest token next. Writes at most MOST guesses to TOKEN and returns their number. MASK [constraint_mask_words()] is
 * overwritten; the run does not change. */
size_t constraint_run_guess(struct constraint_run *r, uint32_t *mask, int32_t *token, size_t most);

/* True if the answer so far is complete. */
bool constraint_run_may_end(const struct constraint_run *r);

/* Adds TOKEN. False: TOKEN is not allowed, there is no room, the call is paused, or a limit is reached; the run does
 * not change. */
bool constraint_run_add(struct constraint_run *r, int32_t token);

/* Removes all tokens but the first N from the answer. */
void constraint_run_truncate(struct constraint_run *r, size_t n);

#endif
