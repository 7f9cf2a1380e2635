/* jinja_int.c - arithmetic on sign and magnitude in base 2^32; schoolbook methods (Knuth, TAOCP 4.3.1),
 * short numbers. */
#include "text/jinja_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja_str.h"

enum { MAX_DIGITS = JINT_MAX_BITS / 32, MAX_DECIMALS = 4300, DOUBLE_DIGITS = 34 /* 1024 + 64 bits */ };

/* Sign and magnitude of any integer; d points into the value or into own. */
struct mag {
    bool negative;
    size_t n;
    const uint32_t *d;
    uint32_t own[2];
};

static void load(struct mag *m, struct jv v)
{
    uint64_t u;

    if (jv_is(v, JV_BIG)) {
        m->negative = v.u.big->negative;
        m->n = v.u.big->n;
        m->d = v.u.big->d;
        return;
    }
    m->negative = jv_index(v) < 0;
    u = m->negative ? 0 - (uint64_t)jv_index(v) : (uint64_t)jv_index(v);
    m->own[0] = (uint32_t)u;
    m->own[1] = (uint32_t)(u >> 32);
    m->n = m->own[1] ? 2 : m->own[0] ? 1 : 0;
    m->d = m->own;
}

static int cmp_mag(const uint32_t *a, size_t na, const uint32_t *b, size_t nb)
{
    if (na != nb)
        return na < nb ? -1 : 1;
    while (na-- > 0)
        if (a[na] != b[na])
            return a[na] < b[na] ? -1 : 1;
    return 0;
}

/* The value of N digits: small where it fits, else a copy in the arena. */
static struct jv store(struct jrun *r, bool negative, const uint32_t *d, size_t n)
{
    struct jv v = jv_of(JV_BIG);
    struct jbig *big;

    while (n && d[n - 1] == 0)
        n--;
    if (n <= 2) {
        uint64_t u = (n > 1 ? (uint64_t)d[1] << 32 : 0) | (n ? d[0] : 0);

        if (!negative && u <= INT64_MAX)
            return jv_int((int64_t)u);
        if (negative && u <= (uint64_t)INT64_MAX + 1)
            return jv_int(u == (uint64_t)INT64_MAX + 1 ? INT64_MIN : -(int64_t)u);
    }
    if (n > MAX_DIGITS) {
        jinja_run_fail(r, "an integer grows over %d bits", JINT_MAX_BITS);
        return jv_none();
    }
    big = jinja_run_alloc(r, sizeof(*big) + n * sizeof(*d));
    if (!big)
        return jv_none();
    big->negative = negative;
    big->n = (uint32_t)n;
    memcpy(big->d, d, n * sizeof(*d));
    v.u.big = big;
    return v;
}

/* out[max(na, nb) + 1] = a + b */
static size_t add_mag(uint32_t *out, const uint32_t *a, size_t na, const uint32_t *b, size_t nb)
{
    size_t n = na > nb ? na : nb;
    uint64_t carry = 0;

    for (size_t i = 0; i < n; i++) {
        carry += (i < na ? (uint64_t)a[i] : 0) + (i < nb ? b[i] : 0);
        out[i] = (uint32_t)carry;
        carry >>= 32;
    }
    out[n] = (uint32_t)carry;
    return n + 1;
}

/* out[na] = a - b, for a >= b */
static size_t sub_mag(uint32_t *out, const uint32_t *a, size_t na, const uint32_t *b, size_t nb)
{
    int64_t borrow = 0;

    for (size_t i = 0; i < na; i++) {
        int64_t t = (int64_t)a[i] - (i < nb ? (int64_t)b[i] : 0) + borrow;

        out[i] = (uint32_t)t;
        borrow = t < 0 ? -1 : 0;
    }
    return na;
}

static struct jv add_signed(struct jrun *r, struct jv va, struct jv vb, bool subtract)
{
    uint32_t out[MAX_DIGITS + 1];
    struct mag a, b;
    size_t n;

    load(&a, va);
    load(&b, vb);
    if (subtract)
        b.negative = !b.negative;
    if (a.negative == b.negative) {
        n = add_mag(out, a.d, a.n, b.d, b.n);
        return store(r, a.negative, out, n);
    }
    if (cmp_mag(a.d, a.n, b.d, b.n) >= 0) {
        n = sub_mag(out, a.d, a.n, b.d, b.n);
        return store(r, a.negative, out, n);
    }
    n = sub_mag(out, b.d, b.n, a.d, a.n);
    return store(r, b.negative, out, n);
}

struct jv jinja_int_add(struct jrun *r, struct jv a, struct jv b)
{
    int64_t sum;

    if (!jv_is(a, JV_BIG) && !jv_is(b, JV_BIG) && !__builtin_add_overflow(jv_index(a), jv_index(b), &sum))
        return jv_int(sum);
    return add_signed(r, a, b, false);
}

struct jv jinja_int_sub(struct jrun *r, struct jv a, struct jv b)
{
    int64_t difference;

    if (!jv_is(a, JV_BIG) && !jv_is(b, JV_BIG) &&
        !__builtin_sub_overflow(jv_index(a), jv_index(b), &difference))
        return jv_int(difference);
    return add_signed(r, a, b, true);
}

struct jv jinja_int_neg(struct jrun *r, struct jv a)
{
    return jinja_int_sub(r, jv_int(0), a);
}

struct jv jinja_int_mul(struct jrun *r, struct jv va, struct jv vb)
{
    uint32_t out[2 * MAX_DIGITS] = {0};
    struct mag a, b;
    int64_t product;

    if (!jv_is(va, JV_BIG) && !jv_is(vb, JV_BIG) &&
        !__builtin_mul_overflow(jv_index(va), jv_index(vb), &product))
        return jv_int(product);
    load(&a, va);
    load(&b, vb);
    if (!jinja_run_step(r, a.n * b.n / 16))
        return jv_none();
    for (size_t i = 0; i < a.n; i++) {
        uint64_t carry = 0;

        for (size_t j = 0; j < b.n; j++) {
            carry += (uint64_t)a.d[i] * b.d[j] + out[i + j];
            out[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        out[i + b.n] = (uint32_t)carry;
    }
    return store(r, a.negative != b.negative, out, a.n + b.n);
}

/* d[n] /= by; returns the remainder. */
static uint32_t div_small(uint32_t *d, size_t n, uint32_t by)
{
    uint64_t rest = 0;

    while (n-- > 0) {
        rest = rest << 32 | d[n];
        d[n] = (uint32_t)(rest / by);
        rest %= by;
    }
    return (uint32_t)rest;
}

/* Divides bit by bit: q[a.n] and rem[b.n + 1]. Numbers are short and this is rare. */
static void div_mag(const struct mag *a, const struct mag *b, uint32_t *q, uint32_t *rem)
{
    size_t n = b->n + 1;

    memset(q, 0, a->n * sizeof(*q));
    memset(rem, 0, n * sizeof(*rem));
    if (b->n == 1) {
        memcpy(q, a->d, a->n * sizeof(*q));
        rem[0] = div_small(q, a->n, b->d[0]);
        return;
    }
    for (size_t bit = a->n * 32; bit-- > 0;) {
        size_t used = n;

        for (size_t i = n; i-- > 1;)
            rem[i] = rem[i] << 1 | rem[i - 1] >> 31;
        rem[0] = rem[0] << 1 | ((a->d[bit / 32] >> (bit % 32)) & 1);
        while (used && rem[used - 1] == 0)
            used--;
        if (cmp_mag(rem, used, b->d, b->n) >= 0) {
            sub_mag(rem, rem, used, b->d, b->n);
            q[bit / 32] |= UINT32_C(1) << (bit % 32);
        }
    }
}

void jinja_int_divmod(struct jrun *r, struct jv va, struct jv vb, struct jv *quotient, struct jv *remainder)
{
    uint32_t q[MAX_DIGITS], rem[MAX_DIGITS + 1];
    struct mag a, b;

    if (!jv_is(va, JV_BIG) && !jv_is(vb, JV_BIG) && !(jv_index(va) == INT64_MIN && jv_index(vb) == -1)) {
        int64_t x = jv_index(va), y = jv_index(vb), d = x / y, m = x % y;

        if (m != 0 && (m < 0) != (y < 0)) {
            d--;
            m += y;
        }
        *quotient = jv_int(d);
        *remainder = jv_int(m);
        return;
    }
    load(&a, va);
    load(&b, vb);
    *quotient = *remainder = jv_none();
    if (!jinja_run_step(r, a.n * b.n * 4))
        return;
    div_mag(&a, &b, q, rem);
    *quotient = store(r, a.negative != b.negative, q, a.n);
    *remainder = store(r, a.negative, rem, b.n + 1);
    if (r->rc || jinja_int_zero(*remainder) || a.negative == b.negative)
        return;
    *quotient = jinja_int_sub(r, *quotient, jv_int(1));
    *remainder = jinja_int_add(r, *remainder, vb);
}

struct jv jinja_int_pow(struct jrun *r, struct jv base, uint64_t exponent)
{
    struct jv out = jv_int(1);
    size_t bits = jinja_int_bits(base);

    if (bits > 1 && exponent > JINT_MAX_BITS) {
        jinja_run_fail(r, "an integer grows over %d bits", JINT_MAX_BITS);
        return jv_none();
    }
    while (exponent && !r->rc) {
        if (exponent & 1)
            out = jinja_int_mul(r, out, base);
        exponent >>= 1;
        if (exponent && !r->rc)
            base = jinja_int_mul(r, base, base);
    }
    return r->rc ? jv_none() : out;
}

int jinja_int_cmp(struct jv va, struct jv vb)
{
    struct mag a, b;
    int c;

    if (!jv_is(va, JV_BIG) && !jv_is(vb, JV_BIG))
        return jv_index(va) < jv_index(vb) ? -1 : jv_index(va) > jv_index(vb);
    load(&a, va);
    load(&b, vb);
    if (a.negative != b.negative)
        return a.negative ? -1 : 1;
    c = cmp_mag(a.d, a.n, b.d, b.n);
    return a.negative ? -c : c;
}

bool jinja_int_negative(struct jv a)
{
    return jv_is(a, JV_BIG) ? a.u.big->negative : jv_index(a) < 0;
}

bool jinja_int_zero(struct jv a)
{
    return !jv_is(a, JV_BIG) && jv_index(a) == 0;
}

size_t jinja_int_bits(struct jv v)
{
    struct mag m;

    load(&m, v);
    return m.n ? m.n * 32 - (size_t)__builtin_clz(m.d[m.n - 1]) : 0;
}

uint32_t jinja_int_hash(struct jv v)
{
    struct mag m;
    uint32_t h = 0;

    load(&m, v);
    for (size_t i = 0; i < m.n; i++)
        h = (h ^ m.d[i]) * UINT32_C(0x9e3779b1);
    return m.negative ? ~h : h;
}

/* Rounds to nearest, ties to even: the 64 top bits, with a sticky bit for the rest, convert correctly. */
double jinja_int_to_double(struct jv v)
{
    struct mag m;
    size_t bits = jinja_int_bits(v), shift;
    uint64_t top = 0;
    bool rest = false;
    double f;

    if (!jv_is(v, JV_BIG))
        return (double)jv_index(v);
    load(&m, v);
    shift = bits > 64 ? bits - 64 : 0;
    for (size_t bit = 0; bit < bits; bit++) {
        bool set = (m.d[bit / 32] >> (bit % 32)) & 1;

        if (bit < shift)
            rest |= set;
        else if (set)
            top |= UINT64_C(1) << (bit - shift);
    }
    f = ldexp((double)(top | rest), (int)shift);
    return m.negative ? -f : f;
}

/* The digits of the absolute value of a double without fraction; at least 2^53, so that its bits end above
 * the point. */
static void double_digits(double f, uint32_t d[DOUBLE_DIGITS])
{
    int exponent;
    uint64_t m = (uint64_t)ldexp(frexp(fabs(f), &exponent), 53);

    memset(d, 0, DOUBLE_DIGITS * sizeof(*d));
    exponent -= 53;
    for (int i = 0; i < 53; i++)
        if (m >> i & 1)
            d[(exponent + i) / 32] |= UINT32_C(1) << ((exponent + i) % 32);
}

struct jv jinja_int_from_double(struct jrun *r, double f)
{
    uint32_t d[DOUBLE_DIGITS];

    if (f > -9.2e18 && f < 9.2e18)
        return jv_int((int64_t)f);
    double_digits(f, d);
    return store(r, f < 0, d, DOUBLE_DIGITS);
}

int jinja_int_cmp_double(struct jv v, double whole)
{
    uint32_t d[DOUBLE_DIGITS];
    size_t n = DOUBLE_DIGITS;
    struct mag m;
    int c;

    if (!jv_is(v, JV_BIG) && whole > -9.2e18 && whole < 9.2e18)
        return jinja_int_cmp(v, jv_int((int64_t)whole));
    load(&m, v);
    if (m.negative != (whole < 0))
        return m.negative ? -1 : 1;
    double_digits(whole, d);
    while (n && d[n - 1] == 0)
        n--;
    c = cmp_mag(m.d, m.n, d, n);
    return m.negative ? -c : c;
}

static unsigned digit(char c)
{
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 32) - 'a' + 10);
}

struct jv jinja_int_parse(struct jrun *r, const char *digits, size_t n, unsigned base, bool negative)
{
    uint32_t d[MAX_DIGITS + 1];
    size_t used = 0;

    while (n && *digits == '0') {
        digits++;
        n--;
    }
    if (!jinja_run_step(r, n > 16 ? n * 8 : 0))
        return jv_none();
    for (size_t i = 0; i < n; i++) {
        uint64_t carry = digit(digits[i]);

        for (size_t k = 0; k < used; k++) {
            carry += (uint64_t)d[k] * base;
            d[k] = (uint32_t)carry;
            carry >>= 32;
        }
        if (carry) {
            if (used == MAX_DIGITS) {
                jinja_run_fail(r, "an integer grows over %d bits", JINT_MAX_BITS);
                return jv_none();
            }
            d[used++] = (uint32_t)carry;
        }
    }
    return store(r, negative, d, used);
}

void jinja_int_put(struct jbuf *b, struct jv v, unsigned base)
{
    uint32_t d[MAX_DIGITS];
    char text[JINT_MAX_BITS + 1];
    uint32_t chunk = base == 10 ? 1000000000 : base == 8 ? 1u << 27 : 1u << 28;
    int digits = base == 16 ? 7 : base == 2 ? 28 : 9; /* of a chunk */
    struct mag m;
    size_t n, at = sizeof(text);

    load(&m, v);
    n = m.n;
    memcpy(d, m.d, n * sizeof(*d));
    if (!jinja_run_step(b->r, n * n / 8))
        return;
    while (n) {
        uint32_t part = div_small(d, n, chunk);

        while (n && d[n - 1] == 0)
            n--;
        for (int i = digits; i > 0 && (n || part); i--) {
            text[--at] = "0123456789abcdef"[part % base];
            part /= base;
        }
    }
    if (at == sizeof(text))
        text[--at] = '0';
    if (base == 10 && sizeof(text) - at > MAX_DECIMALS)
        jinja_run_fail(b->r, "an integer of more than %d digits cannot be printed", MAX_DECIMALS);
    else
        jinja_str_put(b, text + at, sizeof(text) - at);
}
