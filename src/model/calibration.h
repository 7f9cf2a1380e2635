/* calibration.h - the statistics of `gallop calibrate` about the rotated inputs (ops/rotate.h) of each
 * linear.
 *
 * For int8-static the file is JSON: {"format": "gallop scales", "version": 1, "linears": {NAME: {"columns":
 * K, "largest": X}, ...}}. NAME is a linear's name as `gallop inspect` prints it. X is the absolute value of
 * an input that is rounded to 127; 0: each input row gets its own scale, as with int8. For int4 the file is
 * safetensors with the factors of GPTQ (ops/gptq.h): NAME.feedback, F32 [gptq_numbers(K)].
 */
#ifndef GALLOP_MODEL_CALIBRATION_H
#define GALLOP_MODEL_CALIBRATION_H

#include <jansson.h>

#include "base/err.h"
#include "ckpt/tensor_file.h"

struct linear_seen;

#define CALIBRATION_GPTQ ".feedback"

struct calibration {
    /* The JSON file and its member "linears"; NULL if the file is safetensors, which is open as GPTQ. */
    json_t *file, *linears;
    struct tensor_file gptq;
    /* The path of the file. Borrowed. */
    const char *path;
    /* XXH3-64 hash of the bytes of the file. */
    uint64_t sum;
};

/* Reads the JSON TEXT of N bytes. PATH names it in messages. */
int calibration_read(struct calibration *s, const char *text, size_t n, const char *path, struct err *e);

/* Opens the file PATH of either kind. */
int calibration_open(struct calibration *s, const char *path, struct err *e);

/* Sets *LARGEST to the member "largest" of the linear NAME with K columns. */
int calibration_get(const struct calibration *s, const char *name, size_t k, float *largest, struct err *e);

/* Sets *GPTQ to the factors of the linear NAME with K columns, valid while S is open. */
int calibration_gptq(const struct calibration *s, const char *name, size_t k, const float **gptq,
                     struct err *e);

/* Returns RC, the result of quantizing with the factors of S, or an error if the file changed meanwhile. */
int calibration_checked(const struct calibration *s, int rc, struct err *e);

/* Closes S, which may be zeroed. */
void calibration_close(struct calibration *s);

/* Returns the absolute value that is to be rounded to 127 for inputs of K columns with the statistics SEEN.
 * This value minimizes the error of rounding and clipping over all rows. 0: even the minimum error is much
 * larger than the error with one scale per row, because a few rows are many times as large as the rest. */
float calibration_find(const struct linear_seen *seen, size_t k);

#endif
