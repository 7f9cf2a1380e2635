/* jinja_run.h - one rendering under way: its memory, its limits, and its first error.
 *
 * Everything a rendering makes lives in one arena and dies with it. The first error is sticky: it is
 * remembered with the template line, every later one is ignored, loops end by themselves because
 * jinja_run_step() and iterators say so, and the caller looks at rc once. After an error every function still
 * returns a harmless value (none, NULL where said). A hostile template is held by four limits: steps
 * (expressions, statements, iterations, bytes touched), bytes of memory, bytes of output, and depth of
 * nesting (macros, nested values, generators over generators).
 */
#ifndef GALLOP_TEXT_JINJA_RUN_H
#define GALLOP_TEXT_JINJA_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/arena.h"
#include "base/err.h"

struct jdict;
struct jbuf;
struct jact;
struct jinja;

struct jinja_limits {
    uint64_t steps;
    size_t bytes;  /* of values and intermediate strings */
    size_t output; /* bytes of the rendered text */
    int depth;     /* of C recursion in evaluation */
};

struct jrun {
    struct arena arena;
    struct jinja_limits limit;
    size_t bytes;
    uint64_t steps;
    int depth;
    int rc; /* ERR_OK, or the code of the first error */
    struct err *e;
    const char *name;      /* of the template, for messages */
    uint32_t line;         /* of the template, where evaluation is */
    struct jdict *context; /* variables given by the caller */
    struct jdict *vars;    /* what the template set at its top level: seen by blocks */
    struct jdict *globals; /* range, namespace, raise_exception ... */
    const struct tm *now;
    bool autoescape; /* inside {% autoescape true %} */
    struct jbuf
        *out; /* where output goes: the text, or the capture of a macro, a set block, a filter block */
    const struct jinja *tree;
    struct jact *spare; /* activations that nothing refers to any more, for reuse */
    uint64_t random;    /* state of the filter random, which is the same in every rendering */
};

/* Memory that lives as long as the rendering. NULL once an error is set, the byte limit is reached or
 * memory is out. */
void *jinja_run_alloc(struct jrun *r, size_t bytes);

/* The same for N elements of SIZE bytes, zeroed. */
void *jinja_run_zalloc(struct jrun *r, size_t n, size_t size);

/* Counts COST steps. False once an error is set or the step limit is reached. */
bool jinja_run_step(struct jrun *r, size_t cost);

/* Goes one level deeper; false (and nothing entered) when that is too deep or an error is set. */
bool jinja_run_enter(struct jrun *r);
void jinja_run_leave(struct jrun *r);

/* Sets the error "NAME line N: ..." unless one is set already. */
void jinja_run_fail(struct jrun *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
