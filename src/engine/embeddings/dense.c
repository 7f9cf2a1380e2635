/* dense.c - reads the files of Dense modules and computes their outputs. */
#include "engine/embeddings/dense.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "ckpt/config.h"
#include "ckpt/safetensors.h"
#include "ckpt/tensor_file.h"
#include "ckpt/torch/torch.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

/* Reads the activation by the last part of its class name, such as "torch.nn.modules.activation.Tanh". */
static int read_act(enum dense_act *act, struct config *c, struct err *e)
{
    static const struct {
        const char *name;
        enum dense_act act;
    } known[] = {{"Identity", DENSE_IDENTITY}, {"Tanh", DENSE_TANH}, {"ReLU", DENSE_RELU},
                 {"Sigmoid", DENSE_SIGMOID},   {"SiLU", DENSE_SILU}, {"GELU", DENSE_GELU}};
    const char *class, *dot;
    int rc = config_str(c, "activation_function", "torch.nn.modules.activation.Tanh", &class, e);

    if (rc)
        return rc;
    dot = strrchr(class, '.');
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].name, dot ? dot + 1 : class) == 0) {
            *act = known[i].act;
            return 0;
        }
    return err_set(e, ERR_UNSUPPORTED,
                   "%s: activation_function is %.100s, expected Identity, Tanh, ReLU, Sigmoid, SiLU or GELU",
                   config_path(c), class);
}

/* Refuses modules whose input or output is not the pooled hidden state. */
static int check_names(struct config *c, struct err *e)
{
    static const char *const keys[] = {"module_input_name", "module_output_name"};
    const char *name;
    int rc = 0;

    for (size_t i = 0; i < 2 && rc == 0; i++)
        if ((rc = config_str(c, keys[i], "sentence_embedding", &name, e)) == 0 && name &&
            strcmp(name, "sentence_embedding") != 0)
            rc = err_set(e, ERR_UNSUPPORTED, "%s: %s is \"%.100s\", expected sentence_embedding",
                         config_path(c), keys[i], name);
    return rc;
}

static int read_config(struct dense_layer *l, bool *bias, struct folder in, const char *file, struct err *e)
{
    struct config *c;
    int64_t n_in = 0, n_out = 0;
    int rc = config_open(&c, in, file, e);

    if (rc)
        return rc;
    if ((rc = config_need_int(c, "in_features", 1, DENSE_MAX_FEATURES, &n_in, e)) == 0 &&
        (rc = config_need_int(c, "out_features", 1, DENSE_MAX_FEATURES, &n_out, e)) == 0 &&
        (rc = config_bool(c, "bias", true, bias, e)) == 0 && (rc = read_act(&l->act, c, e)) == 0 &&
        (rc = check_names(c, e)) == 0)
        rc = config_finish(c, e);
    l->in = (size_t)n_in;
    l->out = (size_t)n_out;
    config_close(c);
    return rc;
}

/* Reads the tensor NAME [rows, cols] (COLS 0: [rows]) as fp32 into a new array *TO. */
static int dense_take(float **to, const struct tensor_file *f, const char *name, size_t rows, size_t cols,
                      struct err *e)
{
    const struct view *v = tensor_file_get(f, name, strlen(name));
    size_t per = cols ? cols : rows, n = cols ? rows : 1;
    char found[96];

    if (!v)
        return err_set(e, ERR_INPUT, "%s: tensor %s is missing", f->path, name);
    if (v->n_dims != (cols ? 2 : 1) || v->shape[0] != rows || (cols && v->shape[1] != cols) ||
        (v->dtype != DT_F32 && v->dtype != DT_F16 && v->dtype != DT_BF16))
        return err_set(e, ERR_INPUT,
                       "%s: tensor %s is %s %s, expected %zu rows of %zu values in F32, F16 or BF16", f->path,
                       name, dtype_name(v->dtype), view_shape_text(v, found, sizeof(found)), n, per);
    if (!(*to = mem_zalloc(n * per, sizeof(**to), MEM_ENGINE)))
        return err_nomem(e, f->path);
    for (size_t r = 0; r < n; r++)
        view_row_f32(v, r, *to + r * per);
    return dtype_all_finite(*to, n * per, DT_F32)
               ? 0
               : err_set(e, ERR_INPUT, "%s: tensor %s contains an infinity or NaN", f->path, name);
}

static int read_weights(struct dense_layer *l, bool bias, struct folder in, const char *path, struct err *e)
{
    char file[FOLDER_PATH_MAX], bin[sizeof(file)];
    struct tensor_file f;
    bool torch;
    int rc;

    snprintf(file, sizeof(file), "%.200s/model.safetensors", path);
    snprintf(bin, sizeof(bin), "%.200s/pytorch_model.bin", path);
    torch = !folder_has(in, file) && folder_has(in, bin);
    if (torch)
        memcpy(file, bin, sizeof(bin));
    if ((rc = tensor_file_open(&f, in, file, e)) != 0)
        return rc;
    if ((rc = (torch ? torch_read : safetensors_read)(&f, e)) == 0 &&
        (rc = dense_take(&l->w, &f, "linear.weight", l->out, l->in, e)) == 0 && bias)
        rc = dense_take(&l->b, &f, "linear.bias", l->out, 0, e);
    rc = tensor_file_checked(&f, 1, rc, e);
    tensor_file_close(&f);
    return rc;
}

int dense_add(struct dense *d, struct folder in, const char *path, struct err *e)
{
    struct dense_layer *l = &d->layer[d->n];
    char file[FOLDER_PATH_MAX];
    bool bias = true;
    int rc;

    snprintf(file, sizeof(file), "%.200s/config.json", path);
    if (d->n == DENSE_MAX)
        return err_set(e, ERR_UNSUPPORTED, "modules.json: more than %d Dense modules", DENSE_MAX);
    if (in.archive)
        return err_set(
            e, ERR_UNSUPPORTED,
            "%s: a packed checkpoint does not contain the Dense module %.200s of its embeddings; use the folder "
            "from which it was packed, or pooling last or mean, which do not apply the module",
            in.path, path);
    d->n++;
    if ((rc = read_config(l, &bias, in, file, e)) != 0)
        return rc;
    if (d->n > 1 && l->in != l[-1].out)
        return err_set(e, ERR_INPUT, "%s/%s: in_features is %zu, but the previous module has %zu outputs",
                       in.path, file, l->in, l[-1].out);
    return read_weights(l, bias, in, path, e);
}

int dense_check(const struct dense *d, size_t n, struct err *e)
{
    return d->n == 0 || d->layer[0].in == n
               ? 0
               : err_set(
                     e, ERR_INPUT,
                     "modules.json: the first Dense module has %zu inputs, but the model's hidden size is %zu",
                     d->layer[0].in, n);
}

size_t dense_features(const struct dense *d, size_t n)
{
    return d && d->n ? d->layer[d->n - 1].out : n;
}

static double activate(enum dense_act act, double x)
{
    switch (act) {
    case DENSE_TANH: return tanh(x);
    case DENSE_RELU: return x > 0 ? x : 0;
    case DENSE_SIGMOID: return 1 / (1 + exp(-x));
    case DENSE_SILU: return x / (1 + exp(-x));
    case DENSE_GELU: return 0.5 * x * (1 + erf(x * 0.70710678118654752));
    default: return x;
    }
}

static void dense_run(const struct dense_layer *l, const float *x, float *y)
{
    for (size_t o = 0; o < l->out; o++) {
        double sum = l->b ? (double)l->b[o] : 0;

        for (size_t i = 0; i < l->in; i++)
            sum += (double)l->w[o * l->in + i] * (double)x[i];
        y[o] = (float)activate(l->act, sum);
    }
}

float *dense_apply(const struct dense *d, const float *x, size_t n)
{
    size_t most = n;
    float *a, *b;

    for (size_t i = 0; i < d->n; i++)
        most = d->layer[i].out > most ? d->layer[i].out : most;
    a = mem_zalloc(most, sizeof(*a), MEM_ENGINE);
    b = mem_zalloc(most, sizeof(*b), MEM_ENGINE);
    if (a && b)
        memcpy(a, x, n * sizeof(*a));
    for (size_t i = 0; i < d->n && a && b; i++) {
        float *t = a;

        dense_run(&d->layer[i], a, b);
        a = b;
        b = t;
    }
    if (!b) {
        mem_free(a);
        a = NULL;
    }
    mem_free(b);
    return a;
}

void dense_close(struct dense *d)
{
    for (size_t i = 0; i < d->n; i++) {
        mem_free(d->layer[i].w);
        mem_free(d->layer[i].b);
    }
    *d = (struct dense){.n = 0};
}
