/* constraints.h - compiled constraints of an engine: equal sources are compiled once and kept by least recent
 * use.
 *
 * Constraints are compiled by the thread that submits a request. The engine's thread uses them; those that no
 * request uses stay until the limit of memory drops them. They hold sources (schemas, grammars), and no text of
 * prompts or answers.
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
#include "text/tok/tok.h"

enum {
    CONSTRAINTS_MAX_BYTES = 256 << 20, /* what is kept while no request uses it, or more where requests do */
    CONSTRAINTS_MAX_ADMIT = 512 << 20, /* above this no new constraint is taken */
    CONSTRAINTS_MAX_IN_USE = 1 << 30,  /* beyond this none grows: the rest is room for what runs */
};

/* A constraint in use. */
struct constraints_entry;

struct constraints {
    bool is_open;
    const struct tok *tok;                    /* borrowed; NULL: the model has no tokenizer */
    pthread_mutex_t vocabulary_lock;          /* held while the vocabulary is made */
    struct constraint_vocabulary *vocabulary; /* NULL: no request has needed it yet */
    struct constraint_budget budget;          /* the memory of all of them */
    pthread_mutex_t lock;                     /* of all that follows; held for a short time only */
    struct constraints_entry *first, *last;   /* latest use first */
    size_t max_admit;                         /* CONSTRAINTS_MAX_ADMIT */
    uint64_t n_queries, n_hits;
    struct gallop_durations compile; /* of constraints that were not kept from before */
};

/* Counts SECONDS in D. */
void constraints_time(struct gallop_durations *d, double seconds);

void constraints_open(struct constraints *c, const struct tok *tok);
/* No entry may be in use any more. A zeroed one is fine. */
void constraints_close(struct constraints *c);

/* The constraint of SOURCE, compiled or kept from before; constraints_put() gives it back. From any thread.
 * Errors as constraint_new(), where a limit of the constraint is ERR_UNSUPPORTED; ERR_NOSPACE: the constraints of
 * running requests take too much memory. */
int constraints_get(struct constraints *c, const struct constraint_source *source,
                    struct constraints_entry **out, struct constraint_fault *fault, struct err *e);
void constraints_put(struct constraints *c, struct constraints_entry *entry); /* NULL is fine */

/* Copies the counters to S. From any thread. */
void constraints_stats(struct constraints *c, struct gallop_stats *s);

/* Words of a mask of an entry of C. */
size_t constraints_mask_words(const struct constraints *c);

struct constraint *constraints_of(const struct constraints_entry *entry);

#endif
