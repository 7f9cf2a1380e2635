/* calibration.h - what `gallop calibrate` found of the inputs of each linear, after they are rotated
 * (ops/rotate.h).
 *
 * For --quant int8-static the size that 127 shall stand for, in JSON: {"format": "gallop scales", "version":
 * 1, "linears": {NAME: {"columns": K, "largest": X}, ...}}, names as `gallop inspect` prints them. X of 0:
 * each row of the input has its own scale, as with int8. For --quant int4 what rounding goes by
 * (ops/gptq.h), as safetensors: NAME.feedback, F32 [gptq_numbers(K)].
 */
#ifndef GALLOP_MODEL_CALIBRATION_H
#define GALLOP_MODEL_CALIBRATION_H

#include <jansson.h>

#include "base/err.h"
#include "ckpt/tensor_file.h"
#include "ops/linear.h"

#define CALIBRATION_GPTQ ".feedback"

struct calibration {
    json_t *file, *linears; /* the latter is of the former; or, where there is none, */
    struct tensor_file feedback;
    const char *path; /* borrowed */
    uint64_t sum;     /* XXH3-64 of the bytes of the file */
};

/* Reads the JSON TEXT, which PATH names in messages. */
int calibration_read(struct calibration *s, const char *text, size_t n, const char *path, struct err *e);

/* A file of either kind. */
int calibration_open(struct calibration *s, const char *path, struct err *e);

/* Of the linear NAME with K columns. */
int calibration_get(const struct calibration *s, const char *name, size_t k, float *largest, struct err *e);

/* The feedback of the linear NAME, as long as S is open. */
int calibration_gptq(const struct calibration *s, const char *name, size_t k, const float **feedback,
                     struct err *e);

/* RC, the outcome of rounding by a feedback, if its file stayed as it was. */
int calibration_checked(const struct calibration *s, int rc, struct err *e);

void calibration_close(struct calibration *s); /* a zeroed one is fine */

/* What 127 shall stand for in inputs of K columns that were SEEN: the size at which rounding all rows and
 * cutting off the largest errs least. 0 where that errs by far more than a scale of each row's own would,
 * because a few rows are many times as large as the rest. */
float calibration_find(const struct linear_seen *seen, size_t k);

#endif
