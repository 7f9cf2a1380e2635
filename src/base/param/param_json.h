/* param_json.h - reads the values of parameters from JSON, and describes JSON values in errors. */
#ifndef GALLOP_BASE_PARAM_JSON_H
#define GALLOP_BASE_PARAM_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

struct param;

enum { PARAM_FOUND_BYTES = 40 };

/* Describes V for the sentence of an error, in OUT or as a constant: "-2.5", "true", "a string", "an empty list". It
 * repeats no text, since errors are logged. Returns the description. */
const char *param_found(const json_t *v, char out[PARAM_FOUND_BYTES]);

/* Sets *OUT to the whole number V. A real without fraction (16.0) is one, because some clients count in floats.
 * Returns false if V is another value, or a real beyond 2^53, where reals do not represent every whole number. */
bool param_whole(const json_t *v, int64_t *out);

/* Stores V in the member of P in INTO; text is copied to A, which may be NULL if P is not a text. A boolean stands for
 * the choice "true" or "false". ERR_INPUT has the name of P as its subject and says what was found and expected.
 * ERR_NOMEM. */
int param_read_json(const struct param *p, const json_t *v, void *into, struct arena *a, struct err *e);

#endif
