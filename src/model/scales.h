/* scales.h - what `gallop calibrate` found of the inputs of each linear, after they are turned (ops/turn.h).
 *
 * For --quant int8-static the size that 127 shall stand for, in JSON: {"format": "gallop scales", "version":
 * 1, "linears": {NAME: {"columns": K, "largest": X}, ...}}, names as `gallop inspect` prints them. X of 0:
 * each row of the input has its own scale, as with int8. For --quant int4 what rounding goes by
 * (ops/feedback.h), as safetensors: NAME.feedback, F32 [feedback_numbers(K)].
 */
#ifndef GALLOP_MODEL_SCALES_H
#define GALLOP_MODEL_SCALES_H

#include <jansson.h>

#include "base/err.h"
#include "ckpt/tensor_file.h"
#include "ops/linear.h"

#define SCALES_FEEDBACK ".feedback"

struct scales {
    json_t *file, *linears; /* the latter is of the former; or, where there is none, */
    struct tensor_file feedback;
    const char *path; /* borrowed */
    uint64_t sum;     /* XXH3-64 of the bytes of the file */
};

/* Reads the JSON TEXT, which PATH names in messages. */
int scales_read(struct scales *s, const char *text, size_t n, const char *path, struct err *e);

/* A file of either kind. */
int scales_open(struct scales *s, const char *path, struct err *e);

/* Of the linear NAME with K columns. */
int scales_get(const struct scales *s, const char *name, size_t k, float *largest, struct err *e);

/* The feedback of the linear NAME, as long as S is open. */
int scales_feedback(const struct scales *s, const char *name, size_t k, const float **feedback,
                    struct err *e);

/* RC, the outcome of rounding by a feedback, if its file stayed as it was. */
int scales_checked(const struct scales *s, int rc, struct err *e);

void scales_close(struct scales *s); /* a zeroed one is fine */

/* What 127 shall stand for in inputs of K columns that were SEEN: the size at which rounding all rows and
 * cutting off the largest errs least. 0 where that errs by far more than a scale of each row's own would,
 * because a few rows are many times as large as the rest. */
float scales_find(const struct linear_seen *seen, size_t k);

#endif
