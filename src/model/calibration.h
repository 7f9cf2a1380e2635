/* calibration.h - what `gallop calibrate` found about the rotated inputs (ops/rotate.h) of each linear.
 *
 * For int8-static, a JSON file: {"format": "gallop scales", "version": 1, "linears": {NAME: {"columns": K,
 * "largest": X}, ...}}, with the names that `gallop inspect` prints. X is the absolute maximum that becomes
 * 127; 0: each row of the input has its own scale, as with int8. For int4, a safetensors file with the
 * factors of GPTQ (ops/gptq.h): NAME.feedback, F32 [gptq_numbers(K)].
 */
#ifndef GALLOP_MODEL_CALIBRATION_H
#define GALLOP_MODEL_CALIBRATION_H

#include <jansson.h>

#include "base/err.h"
#include "ckpt/tensor_file.h"
#include "ops/linear.h"

#define CALIBRATION_GPTQ ".feedback"

struct calibration {
    /* The JSON file and its member; NULL for a safetensors file, which is FEEDBACK. */
    json_t *file, *linears;
    struct tensor_file feedback;
    /* Borrowed. */
    const char *path;
    /* XXH3-64 of the bytes of the file. */
    uint64_t sum;
};

/* Reads the JSON TEXT of N bytes; PATH names it in messages. */
int calibration_read(struct calibration *s, const char *text, size_t n, const char *path, struct err *e);

/* Opens a file of either kind. */
int calibration_open(struct calibration *s, const char *path, struct err *e);

/* Sets *LARGEST for the linear NAME with K columns. */
int calibration_get(const struct calibration *s, const char *name, size_t k, float *largest, struct err *e);

/* Sets *FEEDBACK to the factors of GPTQ of the linear NAME with K columns; valid while S is open. */
int calibration_gptq(const struct calibration *s, const char *name, size_t k, const float **feedback,
                     struct err *e);

/* Returns RC, the result of rounding with these factors, or an error if the file changed meanwhile. */
int calibration_checked(const struct calibration *s, int rc, struct err *e);

/* A zeroed S is allowed. */
void calibration_close(struct calibration *s);

/* Returns the absolute maximum that becomes 127 for inputs of K columns with the statistics SEEN: the one
 * with the least error of rounding all rows and clipping the largest. 0: its error is much larger than with
 * one scale per row, because a few rows are many times as large as the rest. */
float calibration_find(const struct linear_seen *seen, size_t k);

#endif
