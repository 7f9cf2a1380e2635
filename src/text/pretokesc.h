/* pretokesc.h - reading the escapes of an Oniguruma pattern; a part of pretokonig.c. */
#ifndef GALLOP_TEXT_PRETOKESC_H
#define GALLOP_TEXT_PRETOKESC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"

struct pretokesc_reader {
    const char *begin, *p, *end; /* the pattern, read up to p */
    struct buf *out;             /* what has been written */
    struct err *e;
    int depth; /* of groups and classes */
};

/* What one escape stands for: a character, or a set (in PCRE2 class syntax, perhaps negated). */
struct pretokesc {
    bool is_set, negated;
    uint32_t ch;
    char set[128]; /* class contents */
};

/* The error for WHAT at r->p. */
int pretokesc_refuse(const struct pretokesc_reader *r, const char *what);

/* Reads the escape at r->p[0] == '\\'. */
int pretokesc_read(struct pretokesc_reader *r, struct pretokesc *x);

/* Writes the literal character S of N bytes so that it means itself, inside and outside a class. */
void pretokesc_put(struct buf *b, const char *s, size_t n);

#endif
