/* pattern.h - finds and replaces matches of a regular expression in Oniguruma's syntax (Ruby dialect), run by
 * PCRE2 with JIT, or of a plain string. An empty match right after the last match is skipped. */
#ifndef GALLOP_TEXT_TOK_PATTERN_H
#define GALLOP_TEXT_TOK_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_pull.h"

struct pattern;
struct pattern_work;
struct step;

/* Compiles SOURCE and puts it in front of the patterns *LIST. ERR_UNSUPPORTED names the pattern and the
 * construct that is not supported. *LIST does not change after an error. */
int pattern_add(struct pattern **list, const char *source, size_t n, struct err *e);

/* Frees all patterns of LIST, which may be NULL. */
void pattern_free(struct pattern *list);

/* Returns new memory for matching in one thread, or NULL if memory runs out. */
struct pattern_work *pattern_work_new(void);
void pattern_work_free(struct pattern_work *w); /* may be NULL */

struct pattern_iter {
    const struct step *p;
    struct pattern_work *work;
    const char *s;
    size_t n, at, last; /* AT: where the search continues; LAST: the end of the last match */
    bool any;           /* a match was found, so LAST is set */
};

/* Starts an iteration over the matches of step P in S (valid UTF-8). */
void pattern_start(struct pattern_iter *it, const struct step *p, struct pattern_work *work, const char *s,
                   size_t n);

/* Finds the next match. Returns 1 and its range, 0 if there is none, or -code: the pattern exceeded its match
 * limit on this text, as *E says. */
int pattern_next(struct pattern_iter *it, size_t *begin, size_t *end, struct err *e);

/* Sets *DONE to the end of the last match of P in S, and appends s[0, *DONE) to OUT with p->text in place of every
 * match. OUT's oom flag is set if memory runs out. *START (NULL: not wanted), the length of a prefix of S, becomes the
 * length of the output that aligns with it: a replacement aligns with the last byte of its match. */
int pattern_replace(const struct step *p, struct pattern_work *work, struct json_str s, struct buf *out,
                    size_t *done, size_t *start, struct err *e);

#endif
