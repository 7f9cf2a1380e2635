/* jinja_strm.h - the methods of str. On Markup they give Markup and escape what they are given, as
 * markupsafe's do. */
#ifndef GALLOP_TEXT_JINJA_STRM_H
#define GALLOP_TEXT_JINJA_STRM_H

#include "text/jinja_meth.h"

extern const struct jmeth jinja_strm_table[];

/* The string V without the characters of CHARS (missing or none: white space) at its ends. */
enum { JSTRM_LEFT = 1, JSTRM_RIGHT = 2 };
struct jv jinja_strm_strip(struct jrun *r, struct jv v, struct jv chars, int ends);

/* str.replace() on bytes; COUNT < 0: all. */
struct jv jinja_strm_replace(struct jrun *r, struct jv v, struct jv from, struct jv to, int64_t count);

/* str.center(), ljust(), rjust(): HOW is 'c', 'l' or 'r'. */
struct jv jinja_strm_pad(struct jrun *r, struct jv v, int64_t width, struct jv fill, char how);

/* str.join() of what ITEMS yields; all must be strings. */
struct jv jinja_strm_join(struct jrun *r, struct jv separator, struct jv items);

#endif
