/* jinja_html.h - HTML and URLs: escaping, Markup, and the filters that deal in them. */
#ifndef GALLOP_TEXT_JINJA_HTML_H
#define GALLOP_TEXT_JINJA_HTML_H

#include "text/jinja_args.h"

struct jbuf;

/* Appends N bytes with & < > ' " escaped. */
void jinja_html_put(struct jbuf *b, const char *p, size_t n);

/* str(v) escaped, as Markup; Markup is returned as it is. */
struct jv jinja_html_escape(struct jrun *r, struct jv v);

/* Filters: see jinja_filt.h. */
struct jv jinja_html_filter_escape(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_html_filter_forceescape(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_html_filter_safe(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_html_filter_striptags(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_html_filter_xmlattr(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_html_filter_urlencode(struct jrun *r, struct jv v, const struct jargs *a);

#endif
