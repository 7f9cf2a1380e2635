/* config.h - config.json, with proof that every key is understood.
 *
 * A model takes what it knows through the getters; each marks its key. config_finish() then judges the keys
 * that were not read: known bookkeeping and neutral values pass, a name that looks like mathematics is an
 * error, the rest is one warning. So a checkpoint with a new trick in its config is refused instead of
 * computed wrongly. A struct config is an object of the file: the whole of it, or a sub-object from
 * config_sub(). Not thread safe.
 */
#ifndef GALLOP_CKPT_CONF_H
#define GALLOP_CKPT_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/folder.h"

struct config;

/* Reads FILE ("config.json") of the folder IN, which must be one JSON object: strict RFC 8259, UTF-8, no key
 * twice, limited depth. On failure *out is NULL and *e names the file. */
int config_open(struct config **out, struct folder in, const char *file, struct err *e);

/* The same from text, which is copied. PATH is for messages. */
int config_open_text(struct config **out, const char *text, size_t len, const char *path, struct err *e);

void config_close(struct config *c); /* the object that was opened, with all its sub-objects; NULL is fine */
const char *config_path(const struct config *c); /* of the file; also from a sub-object */
uint64_t config_sum(const struct config *c);     /* XXH3 of the file's bytes; the same */

/* Present and not null. Marks KEY as understood. */
bool config_has(struct config *c, const char *key);

/* Present and not null. Marks nothing. */
bool config_peek(const struct config *c, const char *key);

/* Present, be it null. */
bool config_given(struct config *c, const char *key);
size_t config_count(const struct config *c); /* of its keys */

/* Getters mark KEY as understood. Missing or null: *v is set to the default and 0 is returned. Of the
 * wrong type or out of [lo, hi]: ERR_INPUT, and the sentence names the file and the key, what was found
 * and what is expected. */

int config_int(struct config *c, const char *key, int64_t def, int64_t lo, int64_t hi, int64_t *v,
               struct err *e);

/* As config_int(), but a missing or null key is an error. */
int config_need_int(struct config *c, const char *key, int64_t lo, int64_t hi, int64_t *v, struct err *e);

/* Integers are numbers too. What comes back is finite. */
int config_float(struct config *c, const char *key, double def, double lo, double hi, double *v,
                 struct err *e);

/* null is false, as Python has it: so it is an error where the default is true. */
int config_bool(struct config *c, const char *key, bool def, bool *v, struct err *e);

/* Terminated and free of NUL characters; borrowed until config_close(). */
int config_str(struct config *c, const char *key, const char *def, const char **v, struct err *e);

/* A list of at most MAX finite numbers; missing: *n = 0. */
int config_floats(struct config *c, const char *key, double *v, size_t max, size_t *n, struct err *e);

/* 5 or [5, 6]: one integer or a list of at most MAX; missing: *n = 0. */
int config_ints_or_int(struct config *c, const char *key, int64_t *v, size_t max, size_t *n, struct err *e);

/* A list of at most MAX strings, borrowed as by config_str(); missing: *n = 0. */
int config_strs(struct config *c, const char *key, const char **v, size_t max, size_t *n, struct err *e);

/* The object KEY, borrowed, or NULL if it is missing, null or not an object (which config_finish() reports).
 * Marks KEY; the keys inside are judged by config_finish() like those outside. */
struct config *config_sub(struct config *c, const char *key);

/* The quant_method of quantization_config, borrowed; NULL: it names none. Marks neither. */
const char *config_quant_method(struct config *c);

/* KEY, with all that is in it, is understood and has no effect here. */
void config_ignore(struct config *c, const char *key);

/* Name I of the keys that were asked for so far, in C's file, present or not, each once:
 * "rope_parameters.factor". NULL: there are no more. For tests that hold a list against what a model
 * reads. */
const char *config_asked(const struct config *c, size_t i);

/* Judges what was not read, in C and in the sub-objects taken from it; call it once, after the model
 * took what it knows. ERR_UNSUPPORTED names the file and the key; keys that are merely unknown are one
 * warning in the log. */
int config_finish(struct config *c, struct err *e);

/* What the name of a key says about it. */
enum config_key {
    CONFIG_KEY_BOOKKEEPING, /* about training, generation, labels or files: no effect on the logits */
    CONFIG_KEY_QUANT,       /* says that the weights are stored quantised */
    CONFIG_KEY_MATHS,       /* looks as if it changes what is computed */
    CONFIG_KEY_UNKNOWN,
};

/* Judges the name alone. */
enum config_key config_key_kind(const char *name);

/* True if NAME is something that models compute without being told, so that false and null change them. */
bool config_key_off_counts(const char *name);

/* True if NAME with the integer value 1 means "as usual", whatever its name looks like. */
bool config_key_one_is_neutral(const char *name);

#endif
