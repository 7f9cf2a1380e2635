/* config.h - config.json, with a check that every key is understood.
 *
 * A model reads the keys it knows through the getters, each of which marks its key. config_finish() then
 * judges the keys that were not read: known bookkeeping and neutral values pass, a name that looks like
 * mathematics is an error, and the rest is one warning. So a checkpoint with an unknown feature in its config
 * is refused instead of computed wrongly. A struct config is an object of the file: the whole file, or a
 * sub-object from config_sub(). Not thread-safe.
 */
#ifndef GALLOP_CKPT_CONFIG_H
#define GALLOP_CKPT_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/files/folder.h"

struct config;

/* Reads FILE ("config.json") of the folder IN, which must be one JSON object: strict RFC 8259, UTF-8, no
 * duplicate keys, limited depth. On failure *out is NULL and *e names the file. */
int config_open(struct config **out, struct folder in, const char *file, struct err *e);

/* The same from text, which is copied. PATH is for messages. */
int config_open_text(struct config **out, const char *text, size_t len, const char *path, struct err *e);

void config_close(
    struct config *c); /* frees the object that was opened and all its sub-objects; NULL is fine */
const char *config_path(const struct config *c); /* the path of the file, for a sub-object, too */
uint64_t config_sum(const struct config *c);     /* XXH3 of the file's bytes, for a sub-object, too */

/* True if KEY is present and not null. Marks KEY as understood. */
bool config_has(struct config *c, const char *key);

/* True if KEY is present and not null. Does not mark KEY. */
bool config_peek(const struct config *c, const char *key);

/* True if KEY is present, even if it is null. */
bool config_given(struct config *c, const char *key);
size_t config_count(const struct config *c); /* the number of its keys */

/* Getters mark KEY as understood. Missing or null: *v is set to the default and 0 is returned. Of the
 * wrong type or out of [lo, hi]: ERR_INPUT, and the sentence names the file and the key, what was found
 * and what is expected. */

int config_int(struct config *c, const char *key, int64_t def, int64_t lo, int64_t hi, int64_t *v,
               struct err *e);

/* As config_int(), but a missing or null key is an error. */
int config_need_int(struct config *c, const char *key, int64_t lo, int64_t hi, int64_t *v, struct err *e);

/* Integers are numbers, too. The result is finite. */
int config_float(struct config *c, const char *key, double def, double lo, double hi, double *v,
                 struct err *e);

/* Null is false, as in Python, so it is an error if the default is true. */
int config_bool(struct config *c, const char *key, bool def, bool *v, struct err *e);

/* The string is terminated, has no NUL characters, and is borrowed until config_close(). */
int config_str(struct config *c, const char *key, const char *def, const char **v, struct err *e);

/* Reads a list of at most MAX finite numbers; missing: *n = 0. */
int config_floats(struct config *c, const char *key, double *v, size_t max, size_t *n, struct err *e);

/* Reads one integer, or a list of at most MAX integers, as in 5 or [5, 6]; missing: *n = 0. */
int config_ints_or_int(struct config *c, const char *key, int64_t *v, size_t max, size_t *n, struct err *e);

/* Reads a list of at most MAX strings, borrowed as by config_str(); missing: *n = 0. */
int config_strs(struct config *c, const char *key, const char **v, size_t max, size_t *n, struct err *e);

/* Returns the object KEY, borrowed, or NULL if it is missing, null or not an object (which config_finish()
 * reports). Marks KEY; the keys inside are judged by config_finish() like those outside. */
struct config *config_sub(struct config *c, const char *key);

/* Returns the quant_method of quantization_config, borrowed; NULL: there is none. Marks neither key. */
const char *config_quant_method(struct config *c);

/* Marks KEY and everything inside it as understood, without an effect here. */
void config_ignore(struct config *c, const char *key);

/* Returns name I of the keys that were asked for so far in C's file, present or not, each once:
 * "rope_parameters.factor". NULL: no more. For tests that compare the list with the keys that a model
 * reads. */
const char *config_asked(const struct config *c, size_t i);

/* Judges the keys that were not read, in C and in the sub-objects taken from it. Must be called once, after
 * the model has read its keys. ERR_UNSUPPORTED names the file and the key; keys that are only unknown are one
 * warning in the log. */
int config_finish(struct config *c, struct err *e);

/* The class of a key by its name. */
enum config_key {
    CONFIG_KEY_BOOKKEEPING, /* training, generation, labels or files: no effect on the logits */
    CONFIG_KEY_QUANT,       /* the weights are stored quantized */
    CONFIG_KEY_MATHS,       /* looks like a change of the computation */
    CONFIG_KEY_UNKNOWN,
};

/* Classifies the name alone. */
enum config_key config_key_kind(const char *name);

/* True if models do NAME by default, so that false and null change the computation. */
bool config_key_off_counts(const char *name);

/* True if NAME with the integer value 1 means "as usual", even if the name looks like mathematics. */
bool config_key_one_is_neutral(const char *name);

#endif
