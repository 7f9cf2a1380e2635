/* ckpthelp.c - the fixtures of the checkpoint tests and their contents. */
#include "ckpthelp.h"

#include <math.h>

#include "base/arena.h"
#include "base/json/json_pull.h"
#include "base/mem.h"
#include "ckpt/weights.h"

static const char *element_at(const struct view *v, size_t i)
{
    size_t at = 0;

    for (int d = v->n_dims - 1; d >= 0; d--) {
        at += i % v->shape[d] * v->stride[d];
        i /= v->shape[d];
    }
    return (const char *)v->data + at * dtype_bytes(v->dtype);
}

uint64_t help_touch(const struct view *v)
{
    size_t n = view_elements(v), step = n > 4096 ? n / 4096 : 1;
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i += step)
        for (size_t b = 0; b < dtype_bytes(v->dtype); b++)
            sum += (unsigned char)element_at(v, i)[b];
    if (n)
        sum += (unsigned char)element_at(v, n - 1)[dtype_bytes(v->dtype) - 1];
    return sum;
}

#define AS(type)                  \
    do {                          \
        type x;                   \
        memcpy(&x, p, sizeof(x)); \
        return (double)x;         \
    } while (0)

double help_element(const struct view *v, size_t i)
{
    const char *p = element_at(v, i);
    float f;

    switch (v->dtype) {
    case DT_F64: AS(double);
    case DT_I64: AS(int64_t);
    case DT_I32: AS(int32_t);
    case DT_I16: AS(int16_t);
    case DT_I8: AS(int8_t);
    case DT_U8:
    case DT_BOOL: AS(uint8_t);
    default: dtype_to_f32(&f, p, v->dtype, 1, 1); return f;
    }
}

bool help_same(const struct view *v, const char *dtype, const size_t *shape, int n_dims, const double *value,
               char *why)
{
    if (strcmp(dtype_name(v->dtype), dtype) != 0) {
        snprintf(why, 200, "%s is %s instead of %s", v->name, dtype_name(v->dtype), dtype);
        return false;
    }
    if (v->n_dims != n_dims || memcmp(v->shape, shape, (size_t)n_dims * sizeof(*shape)) != 0) {
        snprintf(why, 200, "%s has another shape", v->name);
        return false;
    }
    for (size_t i = 0; i < view_elements(v); i++)
        if (!(help_element(v, i) == value[i])) {
            snprintf(why, 200, "%s[%zu] is %.17g instead of %.17g", v->name, i, help_element(v, i), value[i]);
            return false;
        }
    return true;
}

static void expect_tensor(struct weights *w, const char *dir, struct json_pull *j, const struct json_str *key)
{
    char name[200], dtype[16] = "", why[200];
    size_t shape[8] = {0}, n_values = 0;
    double value[256];
    const struct view *v;
    struct json_str field, text;
    uint64_t dim;
    int n_dims = 0;

    for (json_pull_enter_object(j); json_pull_key(j, &field);) {
        if (json_str_is(&field, "dtype") && json_pull_string(j, &text)) {
            snprintf(dtype, sizeof(dtype), "%.*s", (int)text.n, text.s);
        } else if (json_str_is(&field, "shape")) {
            for (json_pull_enter_array(j); json_pull_elem(j) && n_dims < 8 && json_pull_u64(j, &dim);)
                shape[n_dims++] = (size_t)dim;
        } else {
            for (json_pull_enter_array(j); json_pull_elem(j) && n_values < 256;)
                json_pull_f64(j, &value[n_values++]);
        }
    }
    snprintf(name, sizeof(name), "%.*s", (int)key->n, key->s);
    v = weights_get(w, name);
    if (!v)
        fail_msg("%s: there is no tensor %s", dir, name);
    if (!help_same(v, dtype, shape, n_dims, value, why) || view_elements(v) != n_values)
        fail_msg("%s: %s", dir, why);
}

void help_expect(const char *dir)
{
    char path[512];
    struct weights *w;
    struct arena a;
    struct err e;
    struct json_pull j;
    struct json_str key, name, text;
    size_t len, n = 0, n_all;
    char *json;

    if (weights_open(&w, folder_at(dir), &e) != 0)
        fail_msg("%s", e.msg);
    n_all = weights_unused(w, NULL, 0);
    snprintf(path, sizeof(path), "%s/expect.json", dir);
    json = files_read(path, &len);
    arena_init(&a, MEM_CKPT);
    assert_int_equal(json_pull_open(&j, json, len, path, &a, &e), 0);
    for (json_pull_enter_object(&j); json_pull_key(&j, &key);) {
        if (json_str_is(&key, "kind") && json_pull_string(&j, &text)) {
            assert_true(json_str_is(&text, weights_kind(w)));
            continue;
        }
        for (json_pull_enter_object(&j); json_pull_key(&j, &name); n++)
            expect_tensor(w, dir, &j, &name);
    }
    if (json_pull_finish(&j) != 0)
        fail_msg("%s", e.msg);
    assert_int_equal(n_all, n);
    assert_int_equal(weights_unused(w, NULL, 0), 0);
    arena_fini(&a);
    free(json);
    weights_close(w);
}
