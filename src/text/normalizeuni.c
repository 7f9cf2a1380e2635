/* normalizeuni.c - utf8proc's tables, with the parts around them that make it fast and safe.
 *
 * Text is cut into stretches that normalisation cannot change, which are copied, and stretches that it might,
 * which are decomposed, put in canonical order and composed. The ordering is our own (a counting sort for
 * long runs of marks): utf8proc sorts by exchange, which is quadratic on a hostile megabyte of marks.
 */
#include "text/normalizeuni.h"

#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

enum { SHORT_RUN = 16 };

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
        size_t begin, len;

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
        do
            i += len;
        while (i < n && is_active(form, utf8_decode(s + i, &len)));
        buf_add(out, s + copied, begin - copied);
        convert(form, w, s + begin, i - begin, out);
        copied = before = i;
    }
    buf_add(out, s + copied, n - copied);
}
