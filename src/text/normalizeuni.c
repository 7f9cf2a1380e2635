/* normalizeuni.c - utf8proc's tables, with the parts around them that make it fast and safe.
 *
 * Text is cut into stretches that normalisation cannot change, which are copied, and stretches that it might,
 * which are decomposed, put in canonical order and composed. The ordering is our own (a counting sort for
 * long runs of marks): utf8proc sorts by exchange, which is quadratic on a hostile megabyte of marks.
 *
 * Hugging Face's tokenizers normalise by the tables of Unicode 9. What came later and would be touched by
 * newer ones stays as it is here too: it neither moves nor changes, and nothing composes across it.
 */
#include "text/normalizeuni.h"

#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

enum { SHORT_RUN = 16 };

/* Characters of Unicode 10 to 15 with a combining class or a decomposition. */
static const uint32_t young[][2] = {
    {0x7fd, 0x7fd},     {0x898, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},     {0xc3c, 0xc3c},
    {0xd3b, 0xd3c},     {0xeba, 0xeba},     {0x1715, 0x1715},   {0x1abf, 0x1ace},   {0x1df6, 0x1dfa},
    {0x32ff, 0x32ff},   {0xa7f2, 0xa7f4},   {0xa82c, 0xa82c},   {0xab69, 0xab69},   {0x10781, 0x10785},
    {0x10787, 0x107b0}, {0x107b2, 0x107ba}, {0x10d24, 0x10d27}, {0x10eab, 0x10eac}, {0x10efd, 0x10eff},
    {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x1133b, 0x1133b}, {0x1145e, 0x1145e},
    {0x11839, 0x1183a}, {0x11930, 0x11930}, {0x11938, 0x11938}, {0x1193d, 0x1193e}, {0x11943, 0x11943},
    {0x119e0, 0x119e0}, {0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99}, {0x11d42, 0x11d42},
    {0x11d44, 0x11d45}, {0x11d97, 0x11d97}, {0x11f41, 0x11f42}, {0x16ff0, 0x16ff1}, {0x1e030, 0x1e06d},
    {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef},
    {0x1f16c, 0x1f16c}, {0x1fbf0, 0x1fbf9}};
enum { N_YOUNG = sizeof(young) / sizeof(young[0]) };

bool normalizeuni_is_young(uint32_t c)
{
    size_t lo = 0, hi = N_YOUNG;

    if (c < young[0][0])
        return false;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (c > young[mid][1])
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < N_YOUNG && c >= young[lo][0];
}

void normalizeuni_work_fini(struct normalizeuni_work *w)
{
    mem_free(w->cp);
    mem_free(w->sorted);
    *w = (struct normalizeuni_work){0};
}

/* Can C change, or change the character before it, under FORM? Conservative. Characters below U+0300 answer
 * for the canonical forms only by what they are themselves; whatever could compose with them lies above. */
static bool is_active(enum normalizeuni_form form, uint32_t c)
{
    const utf8proc_property_t *p;
    bool composes = form == NORMALIZEUNI_NFC || form == NORMALIZEUNI_NFKC;
    bool compat = form == NORMALIZEUNI_NFKC || form == NORMALIZEUNI_NFKD;

    if (c < 0x80)
        return false;
    if (c < 0x300 && form == NORMALIZEUNI_NFC)
        return false;
    if (c >= 0xac00 && c <= 0xd7a3)
        return !composes;
    if (c >= 0x1100 && c <= 0x11ff)
        return true; /* jamo compose by rule, not by table */
    if (normalizeuni_is_young(c))
        return false;
    p = utf8proc_get_property((utf8proc_int32_t)c);
    if (p->combining_class != 0 || (p->comb_index >= 0x8000 && p->comb_index != UINT16_MAX))
        return true;
    if (p->decomp_seqindex == UINT16_MAX)
        return false;
    return compat || p->decomp_type == 0;
}

bool normalizeuni_is_plain(enum normalizeuni_form form, const char *s, size_t n)
{
    unsigned char first = form == NORMALIZEUNI_NFC ? 0xcc : 0x80; /* U+0300 begins with 0xcc */
    size_t i = 0;

    while (i < n) {
        size_t len;

        if ((unsigned char)s[i] < first) {
            i++; /* continuation bytes of smaller characters pass here too */
            continue;
        }
        if (is_active(form, utf8_decode(s + i, &len)))
            return false;
        i += len;
    }
    return true;
}

static bool decompose(enum normalizeuni_form form, struct normalizeuni_work *w, const char *s, size_t n,
                      size_t *n_cp)
{
    bool compat = form == NORMALIZEUNI_NFKC || form == NORMALIZEUNI_NFKD;
    utf8proc_option_t how = (utf8proc_option_t)(UTF8PROC_DECOMPOSE | (compat ? UTF8PROC_COMPAT : 0));
    size_t m = 0;

    for (size_t i = 0, len; i < n; i += len) {
        uint32_t c = utf8_decode(s + i, &len);
        utf8proc_ssize_t k;
        int boundclass = 0;

        if (!mem_grow((void **)&w->cp, &w->cap, m + 32, sizeof(*w->cp), MEM_TEXT))
            return false;
        k = utf8proc_decompose_char((utf8proc_int32_t)c, w->cp + m, 32, how, &boundclass);
        if (k < 0 || k > 32) { /* no character decomposes into more than 18 */
            w->cp[m] = (int32_t)c;
            k = 1;
        }
        m += (size_t)k;
    }
    *n_cp = m;
    return true;
}

static unsigned combining_class(int32_t c)
{
    return c < 0x300 ? 0 : (unsigned)utf8proc_get_property(c)->combining_class;
}

/* Sorts cp[0..n) by combining class, equal ones staying in order. */
static bool sort_marks(struct normalizeuni_work *w, int32_t *cp, size_t n)
{
    size_t start[257] = {0};

    if (n <= SHORT_RUN) {
        for (size_t i = 1; i < n; i++) {
            int32_t c = cp[i];
            unsigned k = combining_class(c);
            size_t j = i;
            for (; j > 0 && combining_class(cp[j - 1]) > k; j--)
                cp[j] = cp[j - 1];
            cp[j] = c;
        }
        return true;
    }
    if (!mem_grow((void **)&w->sorted, &w->sorted_cap, n, sizeof(*w->sorted), MEM_TEXT))
        return false;
    for (size_t i = 0; i < n; i++)
        start[(combining_class(cp[i]) & 255) + 1]++;
    for (size_t k = 0; k < 256; k++)
        start[k + 1] += start[k];
    for (size_t i = 0; i < n; i++)
        w->sorted[start[combining_class(cp[i]) & 255]++] = cp[i];
    memcpy(cp, w->sorted, n * sizeof(*cp));
    return true;
}

static bool reorder(struct normalizeuni_work *w, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t begin = i;

        while (i < n && combining_class(w->cp[i]) != 0)
            i++;
        if (i - begin > 1 && !sort_marks(w, w->cp + begin, i - begin))
            return false;
        i += i == begin || i < n;
    }
    return true;
}

/* One stretch through the whole procedure. */
static void convert(enum normalizeuni_form form, struct normalizeuni_work *w, const char *s, size_t n,
                    struct buf *out)
{
    size_t m;
    utf8proc_ssize_t k;

    if (!decompose(form, w, s, n, &m) || !reorder(w, m)) {
        out->oom = true;
        return;
    }
    k = (utf8proc_ssize_t)m;
    if (form == NORMALIZEUNI_NFC || form == NORMALIZEUNI_NFKC)
        k = utf8proc_normalize_utf32(w->cp, k, (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    for (utf8proc_ssize_t i = 0; i < k; i++) {
        char c[4];
        buf_add(out, c, utf8_encode((uint32_t)w->cp[i], c));
    }
}

void normalizeuni_apply(enum normalizeuni_form form, struct normalizeuni_work *w, const char *s, size_t n,
                        struct buf *out)
{
    size_t copied = 0, i = 0, before = 0; /* BEFORE: where the character in front of s[i] begins */

    while (i < n) {
        size_t begin, len, start;

        if ((unsigned char)s[i] < 0x80) {
            before = i++;
            continue;
        }
        if (!is_active(form, utf8_decode(s + i, &len))) {
            before = i;
            i += len;
            continue;
        }
        begin = i == copied ? i : before; /* the starter in front may take part */
        if (normalizeuni_is_young(utf8_decode(s + begin, &start)))
            begin = i;
        do
            i += len;
        while (i < n && is_active(form, utf8_decode(s + i, &len)));
        buf_add(out, s + copied, begin - copied);
        convert(form, w, s + begin, i - begin, out);
        copied = before = i;
    }
    buf_add(out, s + copied, n - copied);
}
