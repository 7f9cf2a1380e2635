/* pattern.h - regular expressions as tokenizers write them, in the dialect of Oniguruma, run by PCRE2 with
 * JIT; and the iteration over matches that Oniguruma's users know: an empty match right behind the last match
 * is not taken.
 *
 * A struct pattern is immutable; what a match writes lies in a struct pattern_work, one a thread.
 */
#ifndef GALLOP_TEXT_TOK_PATTERN_H
#define GALLOP_TEXT_TOK_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/mem.h"

struct pattern;
struct pattern_work;

/* Compiles PATTERN. ONIG: it is in Oniguruma's dialect and gets translated; else it is PCRE2's own (built-in
 * patterns). ERR_UNSUPPORTED or ERR_INPUT with the pattern in the sentence, or ERR_NOMEM. */
int pattern_new(struct pattern **out, const char *pattern, size_t n, bool onig, struct err *e);
void pattern_free(struct pattern *r);                                      /* NULL is fine */
bool pattern_same(const struct pattern *r, const char *pattern, size_t n); /* was it made from this text? */

/* Room for the matches of one thread. NULL: out of memory. */
struct pattern_work *pattern_work_new(void);
void pattern_work_free(struct pattern_work *w); /* NULL is fine */

struct pattern_iter {
    const struct pattern *re;
    struct pattern_work *work;
    const char *s;
    size_t n, at, last;
    bool any; /* LAST is the end of a match */
};

void pattern_start(struct pattern_iter *it, const struct pattern *re, struct pattern_work *work,
                   const char *s, size_t n);

/* The next match in S (good UTF-8): 1 and its range; 0: no more; negative: -code, *e says that the pattern
 * exceeded its match limit on this text. */
int pattern_next(struct pattern_iter *it, size_t *begin, size_t *end, struct err *e);

#endif
