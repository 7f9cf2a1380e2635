/* config.h - config.json, with a check that every key is understood.
 *
 * An architecture reads the keys that it supports with getters, which mark the keys. config_finish() then
 * classifies the keys that were not read: known bookkeeping keys and neutral values are accepted, a name that
 * suggests a change of the computation is an error, and the other keys are listed in one warning. So a
 * checkpoint with an unknown feature is refused instead of computed wrongly. A struct config is an object of
 * the file: the whole file, or a sub-object from config_sub(). The functions are not thread-safe.
 */
#ifndef GALLOP_CKPT_CONFIG_H
#define GALLOP_CKPT_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/files/folder.h"

struct config;

/* Reads FILE ("config.json") in the folder IN, which must be a JSON object: strict RFC 8259, UTF-8, no
 * duplicate keys, limited depth. On failure *out is NULL and *e names the file. */
int config_open(struct config **out, struct folder in, const char *file, struct err *e);

/* Like config_open(), but reads TEXT [len], which is copied. PATH is for messages. */
int config_open_text(struct config **out, const char *text, size_t len, const char *path, struct err *e);

void config_close(
    struct config *c); /* frees C, which config_open() returned, and its sub-objects; C may be NULL */
const char *config_path(const struct config *c); /* path of the file, also for a sub-object */
uint64_t config_sum(const struct config *c);     /* XXH3-64 hash of the file's bytes, also for a sub-object */

/* Returns whether KEY is present and not null. Marks KEY as read. */
bool config_has(struct config *c, const char *key);

/* Returns whether KEY is present and not null. Does not mark KEY. */
bool config_peek(const struct config *c, const char *key);

/* Returns whether KEY is present, even if it is null. Marks KEY as read. */
bool config_given(struct config *c, const char *key);
size_t config_count(const struct config *c); /* the number of keys of the object */

/* Getters mark KEY as read. If KEY is missing or null, they set *v to the default DEF and return 0. If the
 * value has the wrong type or is outside of [lo, hi], they return ERR_INPUT; the sentence names the file, the
 * key, the value and the expected values. */

int config_int(struct config *c, const char *key, int64_t def, int64_t lo, int64_t hi, int64_t *v,
               struct err *e);

/* Like config_int(), but a missing or null key is an error. */
int config_need_int(struct config *c, const char *key, int64_t lo, int64_t hi, int64_t *v, struct err *e);

/* Reads a finite number; integers are accepted. */
int config_float(struct config *c, const char *key, double def, double lo, double hi, double *v,
                 struct err *e);

/* Reads a boolean. Null is false, as in Python, and therefore an error if the default is true. */
int config_bool(struct config *c, const char *key, bool def, bool *v, struct err *e);

/* Reads a string without NUL characters, which is terminated and borrowed until config_close(). */
int config_str(struct config *c, const char *key, const char *def, const char **v, struct err *e);

/* Reads a list of at most MAX finite numbers; missing: *n = 0. */
int config_floats(struct config *c, const char *key, double *v, size_t max, size_t *n, struct err *e);

/* Reads one integer, or a list of at most MAX integers, as in 5 or [5, 6]; missing: *n = 0. */
int config_ints_or_int(struct config *c, const char *key, int64_t *v, size_t max, size_t *n, struct err *e);

/* Reads a list of at most MAX strings, borrowed as by config_str(); missing: *n = 0. */
int config_strs(struct config *c, const char *key, const char **v, size_t max, size_t *n, struct err *e);

/* Returns the object KEY, borrowed, and marks KEY as read. NULL: KEY is missing, null, or not an object,
 * which config_finish() will report. config_finish() also checks the keys inside the object. */
struct config *config_sub(struct config *c, const char *key);

/* Returns quant_method of quantization_config, borrowed; NULL if it is missing. Marks neither key of C. */
const char *config_quant_method(struct config *c);

/* Marks KEY and all keys inside it as read, because they have no effect. */
void config_ignore(struct config *c, const char *key);

/* For tests: returns the I-th key ("rope_parameters.factor") of C's file for which a getter was called,
 * whether the file has the key or not. Each key counts once. NULL after the last one. */
const char *config_asked(const struct config *c, size_t i);

/* Checks the keys that were not read, in C and in its sub-objects from config_sub(). Call it once, after the
 * architecture has read its keys. ERR_UNSUPPORTED: a key may change the computation. Keys that are merely
 * unknown give one warning. */
int config_finish(struct config *c, struct err *e);

/* The class of a key, which follows from its name. */
enum config_key {
    /* settings of training, generation, labels or files without an effect on logits */
    CONFIG_KEY_BOOKKEEPING,
    CONFIG_KEY_QUANT, /* the weights are stored quantized */
    CONFIG_KEY_MATHS, /* may change the computation */
    CONFIG_KEY_UNKNOWN,
};

/* Returns the class of the key NAME. */
enum config_key config_key_kind(const char *name);

/* Returns whether models have the feature NAME by default, so that false and null change the result. */
bool config_key_off_counts(const char *name);

/* Returns whether the value 1 of NAME means the usual computation, even if the name suggests a change. */
bool config_key_one_is_neutral(const char *name);

#endif
