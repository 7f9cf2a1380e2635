/* jinja_attr.h - obj.name, obj[key] and obj[a:b:c], with Jinja's rules of which wins. */
#ifndef GALLOP_TEXT_JINJA_ATTR_H
#define GALLOP_TEXT_JINJA_ATTR_H

#include "text/jinja_val.h"

/* obj.NAME: an attribute first, then an item; undefined when there is neither. */
struct jv jinja_attr_get(struct jrun *r, struct jv obj, struct jv name);

/* obj[KEY]: an item first, then an attribute; undefined when there is neither. */
struct jv jinja_attr_item(struct jrun *r, struct jv obj, struct jv key);

/* obj[START:STOP:STEP]; missing parts are JV_MISSING. */
struct jv jinja_attr_slice(struct jrun *r, struct jv obj, struct jv start, struct jv stop, struct jv step);

/* A path such as "a.b.0", or one integer key, as filters take it in `attribute`. */
struct jpath {
    struct jv *part;
    size_t n;
};

/* Reads PATH; missing or none gives the empty path, which leads to the object itself. False after an
 * error. */
bool jinja_attr_path(struct jrun *r, struct jv path, struct jpath *out);

/* Follows P from OBJ. DEFAULT (unless missing or none) stands for what is undefined on the way. */
struct jv jinja_attr_follow(struct jrun *r, struct jv obj, const struct jpath *p, struct jv otherwise);

#endif
