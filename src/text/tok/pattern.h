/* pattern.h - regular expressions as tokenizers write them, in the dialect of Oniguruma, run by PCRE2 with
 * JIT; or plain strings. An empty match right after the last match is skipped. */
#ifndef GALLOP_TEXT_TOK_PATTERN_H
#define GALLOP_TEXT_TOK_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_pull.h"
#include "text/tok/steps.h"

struct pattern_work;

/* Compiles SOURCE and puts it before the patterns *LIST. ERR_UNSUPPORTED names the construct that is not
 * supported or cannot be compiled, with the pattern; or ERR_NOMEM. *LIST then does not change. */
int pattern_add(struct pattern **list, const char *source, size_t n, struct err *e);

/* Frees all patterns of LIST, which may be NULL. */
void pattern_free(struct pattern *list);

/* Memory for the matches of one thread. NULL: out of memory. */
struct pattern_work *pattern_work_new(void);
void pattern_work_free(struct pattern_work *w); /* NULL is fine */

struct pattern_iter {
    const struct step *p;
    struct pattern_work *work;
    const char *s;
    size_t n, at, last;
    bool any; /* LAST is the end of a match */
};

/* Starts to iterate over the matches of step P in S (valid UTF-8). */
void pattern_start(struct pattern_iter *it, const struct step *p, struct pattern_work *work, const char *s,
                   size_t n);

/* The next match: 1 and its range; 0: no more; negative: -code, *e says that the pattern exceeded its match
 * limit on this text. */
int pattern_next(struct pattern_iter *it, size_t *begin, size_t *end, struct err *e);

/* Appends S, with p->text for every match of P, to OUT up to the end of the last match, which is *DONE. The
 * oom flag of OUT says that memory ran out. START (NULL: not wanted) is a number of bytes of S, and becomes
 * the number of appended bytes that stand for them: a replacement stands for the last byte of its match. */
int pattern_replace(const struct step *p, struct pattern_work *work, struct json_str s, struct buf *out,
                    size_t *done, size_t *start, struct err *e);

#endif
