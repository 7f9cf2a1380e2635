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

/* Compiles SOURCE and puts it in front of the patterns *LIST. ERR_UNSUPPORTED names the construct that is not
 * understood or cannot be compiled, with the pattern in the sentence; or ERR_NOMEM. *LIST then stays as it
 * was. */
int pattern_add(struct pattern **list, const char *source, size_t n, struct err *e);
void pattern_free(struct pattern *list); /* all of them; NULL is fine */

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
