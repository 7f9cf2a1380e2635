/* normalize.c - runs the normalizer: steps alternate between two buffers, and a step that would change
 * nothing is skipped.
 *
 * Normal forms: parts of the text that normalization cannot change are copied. Other parts are decomposed,
 * put in canonical order and composed by utf8proc's tables. The ordering is our own (a counting sort for long
 * runs of marks), because utf8proc's exchange sort is quadratic on a hostile megabyte of marks. Every index
 * of the character map is checked, because the file is not trusted.
 */
#include "text/tok/normalize.h"

#include <string.h>
#include <utf8proc.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/json/json_pull.h"
#include "base/utf8.h"
#include "text/tok/pattern.h"
#include "text/tok/steps.h"
#include "text/tok/unicode.h"

enum { SHORT_RUN = 16 };

/* True if FORM may change C or the character before C; false positives are possible. NFC changes a character
 * below U+0300 only by composing it with a later character at or above U+0300. */
static bool is_active(enum step_form form, uint32_t c)
{
    const utf8proc_property_t *p;
    bool composes = form == NORMALIZE_NFC || form == NORMALIZE_NFKC;
    bool compat = form == NORMALIZE_NFKC || form == NORMALIZE_NFKD;

    if (c < 0x80)
        return false;
    if (c < 0x300 && form == NORMALIZE_NFC)
        return false;
    if (c >= 0xac00 && c <= 0xd7a3)
        return !composes;
    if (c >= 0x1100 && c <= 0x11ff)
        return true; /* jamo compose by an algorithm; the tables do not list them */
    if (unicode_is_young(c))
        return false;
    p = utf8proc_get_property((utf8proc_int32_t)c);
    if (p->combining_class != 0 || (p->comb_index >= 0x8000 && p->comb_index != UINT16_MAX))
        return true;
    if (p->decomp_seqindex == UINT16_MAX)
        return false;
    return compat || p->decomp_type == 0;
}

static bool decompose(enum step_form form, struct normalize_work *w, const char *s, size_t n, size_t *n_cp)
{
    bool compat = form == NORMALIZE_NFKC || form == NORMALIZE_NFKD;
    utf8proc_option_t how = (utf8proc_option_t)(UTF8PROC_DECOMPOSE | (compat ? UTF8PROC_COMPAT : 0));
    size_t m = 0;

    for (size_t i = 0, len; i < n; i += len) {
        uint32_t c = utf8_decode(s + i, &len);
        utf8proc_ssize_t k;
        int boundclass = 0;

        if (!mem_grow((void **)&w->cp, &w->cap, m + 32, sizeof(*w->cp), MEM_TEXT))
            return false;
        k = utf8proc_decompose_char((utf8proc_int32_t)c, w->cp + m, 32, how, &boundclass);
        if (k < 0 || k > 32) { /* the longest decomposition of a character has 18 code points */
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

/* Sorts cp[0..n) by combining class; the sort is stable. */
static bool sort_marks(struct normalize_work *w, int32_t *cp, size_t n)
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

static bool reorder(struct normalize_work *w, size_t n)
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

/* Appends S, one part of the text, in its normal form. */
static void convert(enum step_form form, struct normalize_work *w, const char *s, size_t n, struct buf *out)
{
    size_t m;
    utf8proc_ssize_t k;

    if (!decompose(form, w, s, n, &m) || !reorder(w, m)) {
        out->oom = true;
        return;
    }
    k = (utf8proc_ssize_t)m;
    if (form == NORMALIZE_NFC || form == NORMALIZE_NFKC)
        k = utf8proc_normalize_utf32(w->cp, k, (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    for (utf8proc_ssize_t i = 0; i < k; i++) {
        char c[4];
        buf_add(out, c, utf8_encode((uint32_t)w->cp[i], c));
    }
}

/* Appends S in a normal form of Unicode (UAX #15) to OUT. Returns false and appends nothing if S is in that
 * form already. The time is linear in N, whatever marks S has. */
static bool to_form(enum step_form form, struct normalize_work *w, const char *s, size_t n, struct buf *out)
{
    /* NFC changes nothing below U+0300. All bytes of smaller characters are below 0xcc in UTF-8. */
    unsigned char first = form == NORMALIZE_NFC ? 0xcc : 0x80;
    size_t copied = 0, i = 0;

    while (i < n) {
        size_t begin = i, len;

        if ((unsigned char)s[i] < first) {
            i++;
            continue;
        }
        if (!is_active(form, utf8_decode(s + i, &len))) {
            i += len;
            continue;
        }
        if (i > copied) {
            size_t before = utf8_before(s, i); /* the starter before a mark may compose with it */

            begin = unicode_is_young(utf8_decode(s + before, &len)) ? i : before;
        }
        do {
            utf8_decode(s + i, &len);
            i += len;
        } while (i < n && is_active(form, utf8_decode(s + i, &len)));
        buf_add(out, s + copied, begin - copied);
        convert(form, w, s + begin, i - begin, out);
        copied = i;
    }
    if (copied)
        buf_add(out, s + copied, n - copied);
    return copied;
}

struct normalize_map {
    uint32_t *unit;
    size_t n_units;
    char *text;
    size_t n_text;
};

int normalize_map_new(struct normalize_map **out, struct arena *a, const char *bytes, size_t n, struct err *e)
{
    struct normalize_map *m = arena_zalloc(a, 1, sizeof(*m));
    uint32_t trie = 0;

    *out = NULL;
    if (n >= 4)
        memcpy(&trie, bytes, 4);
    if (n < 4 || trie % 4 != 0 || trie == 0 || trie > n - 4)
        return err_set(e, ERR_INPUT, "the precompiled character map of %zu bytes is damaged", n);
    if (utf8_valid_prefix(bytes + 4 + trie, n - 4 - trie) != n - 4 - trie)
        return err_set(e, ERR_INPUT, "the replacements of the precompiled character map are not UTF-8");
    if (!m || !(m->unit = arena_alloc(a, trie)) ||
        !(m->text = arena_strndup(a, bytes + 4 + trie, n - 4 - trie)))
        return err_nomem(e, "character map");
    memcpy(m->unit, bytes + 4, trie);
    m->n_units = trie / 4;
    m->n_text = n - 4 - trie;
    *out = m;
    return 0;
}

static size_t offset_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & 0x200u) >> 6);
}

/* Follows S through the double-array trie of the map. Sets *LEN and *VALUE to the length and value of the
 * shortest (FIRST) or longest entry that is a prefix of S. False: no entry is a prefix of S. */
static bool walk(const struct normalize_map *m, const char *s, size_t n, bool first, size_t *len,
                 size_t *value)
{
    size_t node = offset_of(m->unit[0]);
    bool found = false;

    for (size_t i = 0; i < n && s[i]; i++) {
        uint32_t unit;

        node ^= (unsigned char)s[i];
        if (node >= m->n_units)
            break;
        unit = m->unit[node];
        if ((unit & 0x800000ffu) != (unsigned char)s[i])
            break;
        node ^= offset_of(unit);
        if (!(unit & 0x100u))
            continue;
        if (node >= m->n_units)
            break;
        *value = m->unit[node] & 0x7fffffffu;
        *len = i + 1;
        found = true;
        if (first)
            break;
    }
    return found;
}

static bool replacement(const struct normalize_map *m, size_t at, struct json_str *to)
{
    const char *end;

    if (at > m->n_text || (at < m->n_text && ((unsigned char)m->text[at] & 0xc0) == 0x80))
        return false; /* a damaged map must not yield a part of a character */
    end = memchr(m->text + at, 0, m->n_text - at);
    to->s = m->text + at;
    to->n = end ? (size_t)(end - to->s) : m->n_text - at;
    return true;
}

/* Finds the shortest (SHORTEST) or longest prefix of S that the map has. Sets *LEN to its length and *TO to
 * its replacement. */
static bool find_entry(const struct normalize_map *m, const char *s, size_t n, bool shortest, size_t *len,
                       struct json_str *to)
{
    size_t value;

    if (!walk(m, s, n, shortest, len, &value) || !replacement(m, value, to))
        return false;
    return shortest || *len == n ||
           ((unsigned char)s[*len] & 0xc0) != 0x80; /* the entry must not end within a character */
}

void normalize_work_fini(struct normalize_work *w)
{
    buf_fini(&w->out[0]);
    buf_fini(&w->out[1]);
    mem_free(w->cp);
    mem_free(w->sorted);
}

static void put_character(struct buf *out, uint32_t c)
{
    char s[4];

    buf_add(out, s, utf8_encode(c, s));
}

static void lowercase(struct json_str in, struct buf *out)
{
    for (size_t i = 0, len; i < in.n; i += len) {
        uint32_t c = utf8_decode(in.s + i, &len);

        if (c == 0x130) { /* the only character whose lower case is two characters */
            put_character(out, 'i');
            put_character(out, 0x307);
        } else if (c < 0x80) {
            buf_char(out, (char)(c >= 'A' && c <= 'Z' ? c + 32 : c));
        } else {
            put_character(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
        }
    }
}

/* Removes blanks at the ends. The result points into IN. *START: see normalize_run(). */
static struct json_str strip(const struct step *p, struct json_str in, size_t *start)
{
    while (p->left && in.n) {
        size_t len;

        if (!unicode_is_space(utf8_decode(in.s, &len)))
            break;
        in.s += len;
        in.n -= len;
        *start -= *start < len ? *start : len;
    }
    while (p->right && in.n) {
        size_t last = utf8_before(in.s, in.n), len;

        if (!unicode_is_space(utf8_decode(in.s + last, &len)))
            break;
        in.n = last;
    }
    *start = *start < in.n ? *start : in.n;
    return in;
}

static void clean(uint32_t c, struct buf *out)
{
    if (c == 0 || c == 0xfffd || unicode_is_control(c))
        return;
    put_character(out, unicode_is_space(c) ? ' ' : c);
}

static void nmt(uint32_t c, struct buf *out)
{
    if ((c >= 1 && c <= 8) || c == 0x0b || (c >= 0x0e && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f)
        return;
    if (c == 9 || c == 0x0a || c == 0x0c || c == 0x0d || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
        c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd)
        c = ' ';
    put_character(out, c);
}

static void ideograph(uint32_t c, struct buf *out)
{
    if (unicode_is_ideograph(c)) {
        put_character(out, ' ');
        put_character(out, c);
        put_character(out, ' ');
    } else {
        put_character(out, c);
    }
}

static void each_char(enum step_kind kind, struct json_str in, struct buf *out)
{
    for (size_t i = 0, len; i < in.n; i += len) {
        uint32_t c = utf8_decode(in.s + i, &len);

        if (kind == NORMALIZE_CLEAN)
            clean(c, out);
        else if (kind == NORMALIZE_NMT)
            nmt(c, out);
        else if (kind == NORMALIZE_IDEOGRAPHS)
            ideograph(c, out);
        else if (!(kind == NORMALIZE_DROP_MN ? unicode_is_nonspacing(c) : unicode_is_mark(c)))
            buf_add(out, in.s + i, len);
    }
}

/* Maps the first characters of a text to bytes of the output, as Hugging Face's Precompiled aligns them. */
struct first_chars {
    size_t n;    /* number of first characters that are not replaced yet */
    size_t made; /* bytes of the output that replace first characters */
};

/* Appends TO, which replaces OLD. The k-th character of TO aligns with the k-th of OLD, and surplus
 * characters of TO with the last of OLD. If first characters are removed before anything was appended, the
 * characters that follow align with them instead. */
static void put_mapped(struct first_chars *f, struct json_str old, struct json_str to, struct buf *out)
{
    size_t n_old = utf8_count(old.s, old.n), n = f->n < n_old ? f->n : SIZE_MAX, bytes = 0;

    if (f->n && to.n) {
        for (size_t len; n > 0 && bytes < to.n; bytes += len, n--)
            utf8_decode(to.s + bytes, &len);
        f->made = out->len + bytes;
    }
    if (to.n || out->len)
        f->n -= f->n < n_old ? f->n : n_old;
    buf_add(out, to.s, to.n);
}

/* Applies the map as Hugging Face's Precompiled does: a grapheme shorter than six bytes is looked up as a
 * whole, and otherwise its characters are looked up one by one; the shortest entry that is a prefix of the
 * grapheme or character gives the replacement of all of it. *START: see normalize_run(). */
static void map_graphemes(const struct normalize_map *map, struct json_str in, struct buf *out, size_t *start)
{
    struct first_chars first = {.n = utf8_count(in.s, *start)};
    size_t i = 0;

    while (i < in.n) {
        utf8proc_int32_t state = 0;
        size_t len, end = i, eaten;
        struct json_str to;
        uint32_t c = utf8_decode(in.s + end, &len), next;

        for (end += len; end < in.n; end += len, c = next) {
            next = utf8_decode(in.s + end, &len);
            if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)c, (utf8proc_int32_t)next, &state))
                break;
        }
        if (end - i < 6 && find_entry(map, in.s + i, end - i, true, &eaten, &to)) {
            put_mapped(&first, (struct json_str){in.s + i, end - i}, to, out);
            i = end;
            continue;
        }
        for (; i < end; i += len) {
            utf8_decode(in.s + i, &len);
            if (!find_entry(map, in.s + i, len, true, &eaten, &to))
                to = (struct json_str){in.s + i, len};
            put_mapped(&first, (struct json_str){in.s + i, len}, to, out);
        }
    }
    *start = first.made;
}

static void map_longest(const struct normalize_map *map, struct json_str in, struct buf *out)
{
    for (size_t i = 0, len; i < in.n; i += len) {
        struct json_str to;

        if (!find_entry(map, in.s + i, in.n - i, false, &len, &to)) {
            utf8_decode(in.s + i, &len);
            to = (struct json_str){in.s + i, len};
        }
        buf_add(out, to.s, to.n);
    }
}

/* True if IN ends in a space or in U+2581, which SentencePiece strips at the end as well (but not at the
 * front). *BLANK is the length in bytes of that character. */
static bool ends_blank(struct json_str in, size_t *blank)
{
    *blank = in.n && in.s[in.n - 1] == ' ' ? 1 : 3;
    return in.n >= *blank && (*blank == 1 || memcmp(in.s + in.n - 3, "\xe2\x96\x81", 3) == 0);
}

static void squeeze(struct json_str in, struct buf *out)
{
    size_t i = 0, blank;

    while (ends_blank(in, &blank))
        in.n -= blank;
    while (i < in.n && in.s[i] == ' ')
        i++;
    while (i < in.n) {
        size_t begin = i;

        while (i < in.n && in.s[i] != ' ')
            i++;
        buf_add(out, in.s + begin, i - begin);
        while (i < in.n && in.s[i] == ' ')
            i++;
        if (i < in.n)
            buf_char(out, ' ');
    }
}

/* Runs step P, which changes characters alone or (normal forms) with neighbours. False: IN does not change. */
static bool run_on_chars(const struct step *p, struct normalize_work *w, struct json_str in, struct buf *out)
{
    if (p->kind == NORMALIZE_FORM)
        return to_form(p->form, w, in.s, in.n, out);
    if (p->kind == NORMALIZE_LOWERCASE)
        lowercase(in, out);
    else
        each_char(p->kind, in, out);
    return true;
}

/* Runs step P. *START: see normalize_run(). False: IN does not change. */
static bool run_step(const struct step *p, struct normalize_work *w, struct json_str in, struct buf *out,
                     size_t *start, struct err *e, int *rc)
{
    size_t done;

    switch (p->kind) {
    case NORMALIZE_REPLACE:
        *rc = pattern_replace(p, w->re, in, out, &done, start, e);
        buf_add(out, in.s + done, in.n - done);
        break;
    case NORMALIZE_PREPEND:
        buf_add(out, p->text.s, p->text.n);
        buf_add(out, in.s, in.n);
        *start += *start ? p->text.n : 0;
        break;
    case NORMALIZE_MAP_HF: map_graphemes(p->map, in, out, start); break;
    case NORMALIZE_MAP_SPM: /* SentencePiece aligns the start with the first byte of the result */
        map_longest(p->map, in, out);
        *start = *start != 0;
        break;
    case NORMALIZE_BLANKS:
        squeeze(in, out);
        *start = *start != 0;
        break;
    default:
        if (*start && run_on_chars(p, w, (struct json_str){in.s, *start}, out))
            *start = out->len;
        buf_clear(out);
        return run_on_chars(p, w, in, out);
    }
    return true;
}

int normalize_run(const struct steps *z, struct normalize_work *w, struct json_str *text, size_t *start,
                  struct err *e)
{
    struct json_str in = *text;
    size_t turn = 0, no_start = 0;

    for (size_t i = 0; i < z->n && in.n; i++) {
        const struct step *p = &z->step[i];
        struct buf *to = &w->out[turn & 1];
        int rc = 0;

        to->tag = MEM_TEXT;
        buf_clear(to);
        if (p->kind == NORMALIZE_STRIP)
            in = strip(p, in, start ? start : &no_start);
        else if (run_step(p, w, in, to, start ? start : &no_start, e, &rc)) {
            if (rc || to->oom)
                return rc ? rc : err_nomem(e, "normalizer");
            in = (struct json_str){to->data ? to->data : "", to->len};
            turn++;
        }
    }
    *text = in;
    return 0;
}
