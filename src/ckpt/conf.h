/* conf.h - config.json, with proof that every key is understood.
 *
 * A model takes what it knows through the getters; each marks its key. conf_finish() then judges the keys
 * nobody asked for: known bookkeeping and neutral values pass, a name that looks like mathematics is an
 * error, the rest is one warning. So a checkpoint with a new trick in its config is refused instead of
 * computed wrongly. A struct conf is an object of the file: the whole of it, or a sub-object from conf_sub().
 * Not thread safe.
 */
#ifndef GALLOP_CKPT_CONF_H
#define GALLOP_CKPT_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/folder.h"

struct conf;

/* Reads FILE ("config.json") of the folder IN, which must be one JSON object: strict RFC 8259, UTF-8, no key
 * twice, limited depth. On failure *out is NULL and *e names the file. */
int conf_open(struct conf **out, struct folder in, const char *file, struct err *e);

/* The same from text, which is copied. PATH is for messages. */
int conf_open_text(struct conf **out, const char *text, size_t len, const char *path, struct err *e);

void conf_close(struct conf *c); /* the object that was opened, with all its sub-objects; NULL is fine */
const char *conf_path(const struct conf *c); /* of the file; also from a sub-object */

/* Present and not null. Marks KEY as understood. */
bool conf_has(struct conf *c, const char *key);

/* Present, be it null. */
bool conf_given(struct conf *c, const char *key);

/* Getters mark KEY as understood. Missing or null: *v is set to the default and 0 is returned. Of the
 * wrong type or out of [lo, hi]: ERR_INPUT, and the sentence names the file and the key, what was found
 * and what is expected. */

int conf_int(struct conf *c, const char *key, int64_t def, int64_t lo, int64_t hi, int64_t *v, struct err *e);

/* As conf_int(), but a missing or null key is an error. */
int conf_need_int(struct conf *c, const char *key, int64_t lo, int64_t hi, int64_t *v, struct err *e);

/* Integers are numbers too. What comes back is finite. */
int conf_float(struct conf *c, const char *key, double def, double lo, double hi, double *v, struct err *e);

int conf_bool(struct conf *c, const char *key, bool def, bool *v, struct err *e);

/* Terminated and free of NUL characters; borrowed until conf_close(). */
int conf_str(struct conf *c, const char *key, const char *def, const char **v, struct err *e);

/* A list of at most MAX finite numbers; missing: *n = 0. */
int conf_floats(struct conf *c, const char *key, double *v, size_t max, size_t *n, struct err *e);

/* 5 or [5, 6]: one integer or a list of at most MAX; missing: *n = 0. */
int conf_ints_or_int(struct conf *c, const char *key, int64_t *v, size_t max, size_t *n, struct err *e);

/* A list of at most MAX strings, borrowed as by conf_str(); missing: *n = 0. */
int conf_strs(struct conf *c, const char *key, const char **v, size_t max, size_t *n, struct err *e);

/* The object KEY, borrowed, or NULL if it is missing, null or not an object (which conf_finish() reports).
 * Marks KEY; the keys inside are judged by conf_finish() like those outside. */
struct conf *conf_sub(struct conf *c, const char *key);

/* KEY, with all that is in it, is understood and has no effect here. */
void conf_ignore(struct conf *c, const char *key);

/* Name I of the keys that were asked for so far, in C's file, present or not, each once:
 * "rope_parameters.factor". NULL: there are no more. For tests that hold a list against what a model
 * reads. */
const char *conf_asked(const struct conf *c, size_t i);

/* Judges what nobody asked for, in C and in the sub-objects taken from it; call it once, after the model
 * took what it knows. ERR_UNSUPPORTED names the file and the key; keys that are merely unknown are one
 * warning in the log. */
int conf_finish(struct conf *c, struct err *e);

#endif
