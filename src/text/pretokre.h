/* pretokre.h - a compiled pattern (PCRE2 with JIT) and the iteration over its matches that Oniguruma's users
 * know: an empty match right behind the last match is not taken.
 *
 * A struct pretokre is immutable; what a match writes lies in a struct pretokre_work, one a thread.
 */
#ifndef GALLOP_TEXT_PRETOKRE_H
#define GALLOP_TEXT_PRETOKRE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct pretokre;
struct pretokre_work;

/* Compiles PATTERN. ONIG: it is in Oniguruma's dialect and gets translated; else it is PCRE2's own (built-in
 * patterns). ERR_UNSUPPORTED or ERR_INPUT with the pattern in the sentence, or ERR_NOMEM. */
int pretokre_new(struct pretokre **out, const char *pattern, size_t n, bool onig, struct err *e);
void pretokre_free(struct pretokre *r);                                      /* NULL is fine */
bool pretokre_same(const struct pretokre *r, const char *pattern, size_t n); /* was it made from this text? */

/* Room for the matches of one thread. NULL: out of memory. */
struct pretokre_work *pretokre_work_new(void);
void pretokre_work_free(struct pretokre_work *w); /* NULL is fine */

struct pretokre_iter {
    const struct pretokre *re;
    struct pretokre_work *work;
    const char *s;
    size_t n, at, last;
    bool any; /* LAST is the end of a match */
};

void pretokre_start(struct pretokre_iter *it, const struct pretokre *re, struct pretokre_work *work,
                    const char *s, size_t n);

/* The next match in S (good UTF-8): 1 and its range; 0: no more; negative: -code, *e says that the pattern
 * exceeded its match limit on this text. */
int pretokre_next(struct pretokre_iter *it, size_t *begin, size_t *end, struct err *e);

#endif
