/* calibration.c - reads files of `gallop calibrate`, and computes the numbers that it writes. */
#include "model/calibration.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/files/folder.h"
#include "base/json/json_pull.h"
#include "ckpt/safetensors.h"
#include "ops/gptq.h"
#include "ops/linear.h"

static int refuse_file(const struct calibration *s, const char *what, struct err *e)
{
    return err_set(e, ERR_INPUT, "%s: %s; expected a file written by gallop calibrate", s->path, what);
}

int calibration_read(struct calibration *s, const char *text, size_t n, const char *path, struct err *e)
{
    const char *format;
    int rc;

    *s = (struct calibration){.path = path};
    if ((rc = json_pull_load(&s->file, text, n, path, e)) != 0)
        return rc;
    format = json_string_value(json_object_get(s->file, "format"));
    s->linears = json_object_get(s->file, "linears");
    if (!format || strcmp(format, "gallop scales") != 0)
        rc = refuse_file(s, "\"format\" is not \"gallop scales\"", e);
    else if (json_integer_value(json_object_get(s->file, "version")) != 1)
        rc = refuse_file(s, "\"version\" is not 1", e);
    else if (!json_is_object(s->linears))
        rc = refuse_file(s, "\"linears\" is not an object", e);
    if (rc)
        calibration_close(s);
    return rc;
}

/* Sets *TEXT to whether the file PATH is JSON text (and not safetensors), and *SUM to the hash of its bytes.
 * A safetensors file begins with the header's length in eight bytes, of which the last is zero; JSON text has
 * no zero bytes. */
static int look_at(const char *path, bool *text, uint64_t *sum, struct err *e)
{
    char found[FOLDER_PATH_MAX];
    struct map_file f;
    int rc = folder_map(&f, found, folder_at(path), NULL, e);

    if (rc)
        return rc;
    *text = f.len < 8 || f.bytes[7] != 0;
    *sum = XXH3_64bits(f.bytes, f.len);
    map_file_close(&f);
    return 0;
}

int calibration_open(struct calibration *s, const char *path, struct err *e)
{
    struct folder_text t = {0};
    bool text = false;
    uint64_t sum = 0;
    int rc = look_at(path, &text, &sum, e);

    *s = (struct calibration){.path = path};
    if (rc)
        return rc;
    if (!text) {
        if ((rc = tensor_file_open(&s->gptq, folder_at(path), NULL, e)) == 0 &&
            (rc = safetensors_read(&s->gptq, e)) != 0)
            tensor_file_close(&s->gptq);
        s->sum = sum;
        return rc;
    }
    if ((rc = folder_read(&t, folder_at(path), NULL, NULL, e)) == 0)
        rc = calibration_read(s, t.bytes, t.len, path, e);
    folder_text_fini(&t);
    s->sum = sum;
    return rc;
}

void calibration_close(struct calibration *s)
{
    json_decref(s->file);
    tensor_file_close(&s->gptq);
    *s = (struct calibration){0};
}

int calibration_get(const struct calibration *s, const char *name, size_t k, float *largest, struct err *e)
{
    const json_t *o = json_object_get(s->linears, name), *x = json_object_get(o, "largest");
    json_int_t columns = json_integer_value(json_object_get(o, "columns"));
    double value = json_number_value(x);

    if (!s->linears)
        return err_set(e, ERR_INPUT, "%s: found a calibration for int4, expected one for int8-static",
                       s->path);
    if (!o)
        return err_set(e, ERR_INPUT, "%s: linear %s is missing; the file was made for another model", s->path,
                       name);
    if (columns < 0 || (size_t)columns != k)
        return err_set(e, ERR_INPUT,
                       "%s: linear %s has %lld columns, expected %zu; the file was made for another model",
                       s->path, name, (long long)columns, k);
    if (!json_is_number(x) || !(value >= 0 && value <= 1e30) || (value > 0 && value < 1e-30))
        return err_set(e, ERR_INPUT,
                       "%s: \"largest\" of linear %s is neither 0 nor a number from 1e-30 to 1e30", s->path,
                       name);
    *largest = (float)value;
    return 0;
}

int calibration_checked(const struct calibration *s, int rc, struct err *e)
{
    return s->gptq.n ? tensor_file_checked(&s->gptq, 1, rc, e) : rc;
}

int calibration_gptq(const struct calibration *s, const char *name, size_t k, const float **gptq,
                     struct err *e)
{
    char tensor[256];
    const struct view *v;
    int n = snprintf(tensor, sizeof(tensor), "%s" CALIBRATION_GPTQ, name);

    if (n < 0 || (size_t)n >= sizeof(tensor) || !(v = tensor_file_get(&s->gptq, tensor, (size_t)n)))
        return err_set(e, ERR_INPUT,
                       "%s: tensor %s is missing; the file was made for another model, or for "
                       "another quant than int4",
                       s->path, tensor);
    if (v->dtype != DT_F32 || v->n_dims != 1 || v->shape[0] != gptq_numbers(k) ||
        (uintptr_t)v->data % sizeof(float) != 0)
        return err_set(e, ERR_INPUT,
                       "%s: tensor %s does not fit a linear of %zu columns, expected F32 [%zu]; the file "
                       "was made for another model",
                       s->path, tensor, k, gptq_numbers(k));
    if (!dtype_all_finite(v->data, v->shape[0], DT_F32))
        return err_set(e, ERR_INPUT, "%s: tensor %s holds an infinity or NaN, expected finite numbers",
                       s->path, tensor);
    *gptq = (const float *)v->data;
    return 0;
}

/* ---- computing the values ---- */

/* Returns the mean squared error of clipping a standard normal distribution at T standard deviations. */
static double cut(double t)
{
    return 2 * ((1 + t * t) * 0.5 * erfc(t / sqrt(2)) - t * exp(-t * t / 2) / sqrt(2 * acos(-1)));
}

/* Returns the squared relative error of quantization, averaged over all rows, with the scale that rounds
 * LARGEST to 127. LARGEST 0: each row has its own scale, which rounds its largest element to 127. A rotated
 * row resembles K samples of a normal distribution. Clipping errors have a higher weight than rounding
 * errors, because they are biased (with equal weights, the KL divergence of Gemma 3 270M is three times as
 * large). */
static double error_with(const struct linear_seen *seen, size_t k, double largest)
{
    enum { CUT = 100 };
    double own = sqrt(2 * log((double)(k > 2 ? k : 2))), sum = 0, n = 0;

    for (size_t b = 0; b < LINEAR_SEEN_BINS; b++) {
        double rows = seen->rows[b], t = largest > 0 ? largest / (double)linear_seen_largest(b) * own : own;

        sum += rows * (t * t / (127.0 * 127 * 12) + (t < own ? CUT * (cut(t) - cut(own)) : 0));
        n += rows;
    }
    return n > 0 ? sum / n : 0;
}

float calibration_find(const struct linear_seen *seen, size_t k)
{
    enum { FAR = 4 }; /* largest accepted error, in multiples of the error with one scale per row */
    double least = INFINITY;
    float best = 0;

    for (size_t b = 0; b < LINEAR_SEEN_BINS; b++) {
        double error = error_with(seen, k, (double)linear_seen_largest(b));

        if (error < least) {
            least = error;
            best = linear_seen_largest(b);
        }
    }
    return least < FAR * error_with(seen, k, 0) ? best : 0;
}
