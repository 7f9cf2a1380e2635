/* constraints.h - an LRU cache of the compiled constraints of an engine, by their sources.
 *
 * The thread that submits a request compiles its constraint; the engine's thread uses it. A constraint that no request
 * uses stays in the cache until CONSTRAINTS_MAX_BYTES is exceeded. The cache knows sources (schemas, grammars) by their
 * SHA-256, and contains no text of them, of prompts or of answers.
 *
 * The memory of a constraint is charged (base/mem.h) to the request that compiles it, and that of its masks to the
 * requests whose answers need them, until the cache drops it. If requests have a memory budget, it also limits all
 * constraints, and unused constraints take at most an eighth of it. Without a budget the limits below apply.
 */
#ifndef GALLOP_ENGINE_CONSTRAINTS_H
#define GALLOP_ENGINE_CONSTRAINTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gallop.h"
#include "text/grammar/constraint.h"

enum {
    CONSTRAINTS_MAX_BYTES = 256 << 20, /* above this total, entries that no request uses are freed */
    /* The two limits without a budget of requests. */
    CONSTRAINTS_MAX_ADMIT = 512 << 20, /* above this total, new constraints are refused */
    CONSTRAINTS_MAX_IN_USE = 1 << 30,  /* above this total, no constraint may grow any more */
};

/* The number of refused constraints that are remembered. A client that repeats one then causes no further
 * compilation. */
enum { CONSTRAINTS_REFUSALS = 64 };

struct constraints_refusal;

/* A counted reference to a compiled constraint. */
struct constraints_entry;

struct constraints {
    bool is_open;
    const struct tok *tok;                    /* borrowed; NULL: the model has no tokenizer */
    pthread_mutex_t vocabulary_lock;          /* held while `vocabulary` is created */
    struct constraint_vocabulary *vocabulary; /* created by the first request with a constraint; else NULL */
    struct constraint_budget budget;          /* memory of all constraints */
    pthread_mutex_t lock;                     /* protects the members below; never held while compiling */
    struct constraints_entry *first, *last;   /* list of entries, most recently used first */
    size_t max_admit;                         /* CONSTRAINTS_MAX_ADMIT bytes; tests set other limits */
    struct constraints_refusal *refusal; /* [CONSTRAINTS_REFUSALS] the latest refusals; NULL: none so far */
    /* refused requests, and how many of them were answered from `refusal` */
    uint64_t n_refused, n_refused_again;
    uint64_t n_queries, n_hits;      /* lookups, and lookups that found a compiled constraint */
    struct gallop_durations compile; /* times to compile constraints */
};

/* Adds SECONDS to the histogram D. */
void constraints_time(struct gallop_durations *d, double seconds);

void constraints_open(struct constraints *c, const struct tok *tok);
/* Frees all entries. No request may use an entry any more. C may be zeroed. */
void constraints_close(struct constraints *c);

/* Sets *OUT to the compiled constraint of SOURCE: from the cache, or compiled now. If SOURCE was refused before, fails
 * with the same error. The caller passes *OUT to constraints_put() when it has finished with it. May be called from any
 * thread. Errors are those of constraint_new(); ERR_UNSUPPORTED: the constraint exceeds a limit; ERR_NOSPACE or
 * ERR_NOMEM: the constraints of running requests take too much memory. */
int constraints_get(struct constraints *c, const struct constraint_source *source,
                    struct constraints_entry **out, struct constraint_fault *fault, struct err *e);
/* Returns whether constraints_get() would find SOURCE compiled. May be called from any thread. */
bool constraints_has(struct constraints *c, const struct constraint_source *source);
void constraints_put(struct constraints *c, struct constraints_entry *entry); /* ENTRY may be NULL */

/* Reserves ENTRY for a thread that computes deferred masks (late.h): only this thread may use the constraint then, and
 * it counts as one of its users. IS_LENT false: ends the reservation. Called by the engine's thread. */
void constraints_lend(struct constraints *c, struct constraints_entry *entry, bool is_lent);
bool constraints_is_lent(const struct constraints_entry *entry);

/* Copies the counters to S. May be called from any thread. */
void constraints_stats(struct constraints *c, struct gallop_stats *s);

/* Returns the number of 32-bit words of a token mask. */
size_t constraints_mask_words(const struct constraints *c);

struct constraint *constraints_of(const struct constraints_entry *entry);

#endif
