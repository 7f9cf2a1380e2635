/* check.c - see check.h. */
#include "check.h"

#include <math.h>

#include "tensor/dtype.h"

/* xorshift64*, Vigna 2016. */
uint32_t check_u32(struct check_rng *g)
{
    g->state ^= g->state >> 12;
    g->state ^= g->state << 25;
    g->state ^= g->state >> 27;
    return (uint32_t)(g->state * 0x2545f4914f6cdd1du >> 32);
}

size_t check_below(struct check_rng *g, size_t n)
{
    return check_u32(g) % n;
}

float check_float(struct check_rng *g)
{
    float x = (float)(int32_t)check_u32(g) * 0x1p-31f;

    if (check_below(g, 64) == 0)
        return check_below(g, 2) ? 0.0f : -0.0f;
    return ldexpf(x, -(int)check_below(g, 7));
}

void check_fill(struct check_rng *g, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = check_float(g);
}

void check_fill_bf16(struct check_rng *g, uint16_t *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = dtype_f32_to_bf16(check_float(g));
}

size_t check_differs(const float *got, const float *want, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0 && !(isnan(got[i]) && isnan(want[i])))
            break;
    return i;
}

static bool is_nan_bf16(uint16_t h)
{
    return (h & 0x7fff) > 0x7f80;
}

size_t check_differs_bf16(const uint16_t *got, const uint16_t *want, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (got[i] != want[i] && !(is_nan_bf16(got[i]) && is_nan_bf16(want[i])))
            break;
    return i;
}

struct check_error check_error(const float *got, const double *want, const double *tolerance, size_t n)
{
    struct check_error e = {.within = true};
    double worst = -INFINITY, square = 0, norm = 0;

    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - want[i]), beyond = d - tolerance[i];

        if (isnan(d))
            d = beyond = INFINITY;
        if (isinf(want[i]) && (double)got[i] == want[i])
            d = 0, beyond = -tolerance[i];
        e.max_abs = d > e.max_abs ? d : e.max_abs;
        if (beyond > worst) {
            worst = beyond;
            e.worst = i;
        }
        square += d * d;
        norm += isinf(want[i]) ? 0 : want[i] * want[i];
    }
    e.relative_l2 = norm > 0 ? sqrt(square / norm) : sqrt(square);
    e.within = n == 0 || worst <= 0;
    return e;
}

#define NAME_CASE                          \
    char name[256];                        \
    va_list ap;                            \
    va_start(ap, fmt);                     \
    vsnprintf(name, sizeof name, fmt, ap); \
    va_end(ap);

void check_same(const float *got, const float *want, size_t n, const char *fmt, ...)
{
    size_t i = check_differs(got, want, n);

    if (i < n) {
        NAME_CASE
        fail_msg("%s: element %zu of %zu is %.9g (%a), expected %.9g (%a)", name, i, n, (double)got[i],
                 (double)got[i], (double)want[i], (double)want[i]);
    }
}

void check_same_bf16(const uint16_t *got, const uint16_t *want, size_t n, const char *fmt, ...)
{
    size_t i = check_differs_bf16(got, want, n);

    if (i < n) {
        NAME_CASE
        fail_msg("%s: element %zu of %zu is %04x, expected %04x", name, i, n, got[i], want[i]);
    }
}

void check_near(const float *got, const double *want, const double *tolerance, size_t n, const char *fmt, ...)
{
    struct check_error e = check_error(got, want, tolerance, n);

    if (!e.within) {
        NAME_CASE
        fail_msg("%s: element %zu of %zu is %.9g, expected %.12g within %.3g; max %.3g, relative L2 %.3g",
                 name, e.worst, n, (double)got[e.worst], want[e.worst], tolerance[e.worst], e.max_abs,
                 e.relative_l2);
    }
}
