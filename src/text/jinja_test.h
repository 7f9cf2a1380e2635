/* jinja_test.h - the table of tests: v is name(arguments). */
#ifndef GALLOP_TEXT_JINJA_TEST_H
#define GALLOP_TEXT_JINJA_TEST_H

#include "text/jinja_args.h"

struct jtest {
    const char *name;
    bool (*call)(struct jrun *r, struct jv v, const struct jargs *a);
};

/* The test of this name, or NULL. */
const struct jtest *jinja_test_find(const char *name, size_t n);

#endif
