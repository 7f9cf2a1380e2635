/* normalize.c - each step reads one buffer and writes the other; a step that would change nothing is
 * skipped. */
#include "text/normalize.h"

#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "text/tokbytes.h"
#include "text/tokchar.h"

static void step_fini(struct normalize_step *p)
{
    mem_free(p->find);
    mem_free(p->text);
    pretokre_free(p->re);
    spmmap_free(p->map);
}

int normalize_add(struct normalize *z, struct normalize_step step, struct err *e)
{
    if (!mem_grow((void **)&z->step, &z->cap, z->n + 1, sizeof(*z->step), MEM_TEXT)) {
        step_fini(&step);
        return err_nomem(e, "normalizer");
    }
    z->step[z->n++] = step;
    return 0;
}

bool normalize_copy(char **to, size_t *n_to, const char *s, size_t n)
{
    *n_to = n;
    *to = mem_strndup(s, n, MEM_TEXT);
    return *to != NULL;
}

void normalize_fini(struct normalize *z)
{
    for (size_t i = 0; i < z->n; i++)
        step_fini(&z->step[i]);
    mem_free(z->step);
    *z = (struct normalize){0};
}

void normalize_work_fini(struct normalize_work *w)
{
    buf_fini(&w->out[0]);
    buf_fini(&w->out[1]);
    normalizeuni_work_fini(&w->uni);
}

/* A run of bytes that one step reads. */
struct span {
    const char *s;
    size_t n;
};

static void put(struct buf *out, uint32_t c)
{
    char s[4];

    buf_add(out, s, utf8_encode(c, s));
}

static void lowercase(struct span in, struct buf *out)
{
    for (size_t i = 0, len; i < in.n; i += len) {
        uint32_t c = utf8_decode(in.s + i, &len);

        if (c == 0x130) { /* the one character whose lower case is two */
            put(out, 'i');
            put(out, 0x307);
        } else if (c < 0x80) {
            buf_char(out, (char)(c >= 'A' && c <= 'Z' ? c + 32 : c));
        } else {
            put(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
        }
    }
}

/* A single byte becomes a few: the case of every sentencepiece-like tokenizer, done in two passes over the
 * text. */
static void replace_byte(char from, struct span to, struct span in, struct buf *out)
{
    size_t count = 0, need;
    char *o;

    for (size_t i = 0; i < in.n; i++)
        count += in.s[i] == from;
    if (__builtin_mul_overflow(count, to.n, &need) || __builtin_add_overflow(need, in.n + 1, &need) ||
        !mem_grow((void **)&out->data, &out->cap, need, 1, MEM_TEXT)) {
        out->oom = true;
        return;
    }
    o = out->data;
    for (size_t i = 0; i < in.n; i++) {
        if (in.s[i] != from) {
            *o++ = in.s[i];
            continue;
        }
        for (size_t k = 0; k < to.n; k++)
            *o++ = to.s[k];
    }
    *o = 0;
    out->len = (size_t)(o - out->data);
}

static void replace_literal(const struct normalize_step *p, struct span in, struct buf *out)
{
    const char *at = in.s, *end = in.s + in.n, *hit;

    if (p->n_find == 1) {
        replace_byte(p->find[0], (struct span){p->text, p->n_text}, in, out);
        return;
    }
    while (at < end && (hit = memmem(at, (size_t)(end - at), p->find, p->n_find)) != NULL) {
        buf_add(out, at, (size_t)(hit - at));
        buf_add(out, p->text, p->n_text);
        at = hit + p->n_find;
    }
    buf_add(out, at, (size_t)(end - at));
}

static int replace_matches(const struct normalize_step *p, struct normalize_work *w, struct span in,
                           struct buf *out, struct err *e)
{
    struct pretokre_iter it;
    size_t copied = 0, begin, end;
    int more;

    pretokre_start(&it, p->re, w->re, in.s, in.n);
    while ((more = pretokre_next(&it, &begin, &end, e)) > 0) {
        buf_add(out, in.s + copied, begin - copied);
        buf_add(out, p->text, p->n_text);
        copied = end;
    }
    buf_add(out, in.s + copied, in.n - copied);
    return -more;
}

/* Removes blanks at the ends; borrows from IN. */
static struct span strip(const struct normalize_step *p, struct span in)
{
    while (p->left && in.n) {
        size_t len;

        if (!tokchar_is_space(utf8_decode(in.s, &len)))
            break;
        in.s += len;
        in.n -= len;
    }
    while (p->right && in.n) {
        size_t last = in.n - 1, len;

        while (((unsigned char)in.s[last] & 0xc0) == 0x80)
            last--;
        if (!tokchar_is_space(utf8_decode(in.s + last, &len)))
            break;
        in.n = last;
    }
    return in;
}

static void clean(uint32_t c, struct buf *out)
{
    if (c == 0 || c == 0xfffd || tokchar_is_control(c))
        return;
    put(out, tokchar_is_space(c) ? ' ' : c);
}

static void nmt(uint32_t c, struct buf *out)
{
    if ((c >= 1 && c <= 8) || c == 0x0b || (c >= 0x0e && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f)
        return;
    if (c == 9 || c == 0x0a || c == 0x0c || c == 0x0d || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
        c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd)
        c = ' ';
    put(out, c);
}

static void ideograph(uint32_t c, struct buf *out)
{
    if (tokchar_is_ideograph(c)) {
        put(out, ' ');
        put(out, c);
        put(out, ' ');
    } else {
        put(out, c);
    }
}

static void each_char(enum normalize_kind kind, struct span in, struct buf *out)
{
    for (size_t i = 0, len; i < in.n; i += len) {
        uint32_t c = utf8_decode(in.s + i, &len);

        if (kind == NORMALIZE_CLEAN)
            clean(c, out);
        else if (kind == NORMALIZE_NMT)
            nmt(c, out);
        else if (kind == NORMALIZE_IDEOGRAPHS)
            ideograph(c, out);
        else if (!(kind == NORMALIZE_DROP_MN ? tokchar_is_nonspacing(c) : tokchar_is_mark(c)))
            buf_add(out, in.s + i, len);
    }
}

/* Hugging Face's Precompiled: a grapheme shorter than six bytes is looked up as a whole, else character by
 * character; what is found is the shortest entry that begins it. */
static void map_graphemes(const struct spmmap *map, struct span in, struct buf *out)
{
    size_t i = 0;

    while (i < in.n) {
        utf8proc_int32_t state = 0;
        size_t len, end = i, n_to;
        const char *to;
        uint32_t c = utf8_decode(in.s + end, &len), next;

        for (end += len; end < in.n; end += len, c = next) {
            next = utf8_decode(in.s + end, &len);
            if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)c, (utf8proc_int32_t)next, &state))
                break;
        }
        if (end - i < 6 && spmmap_shortest(map, in.s + i, end - i, &to, &n_to)) {
            buf_add(out, to, n_to);
            i = end;
            continue;
        }
        for (; i < end; i += len) {
            utf8_decode(in.s + i, &len);
            if (spmmap_shortest(map, in.s + i, len, &to, &n_to))
                buf_add(out, to, n_to);
            else
                buf_add(out, in.s + i, len);
        }
    }
}

static void map_longest(const struct spmmap *map, struct span in, struct buf *out)
{
    for (size_t i = 0, len; i < in.n; i += len) {
        const char *to;
        size_t n_to;

        if (spmmap_longest(map, in.s + i, in.n - i, &len, &to, &n_to)) {
            buf_add(out, to, n_to);
        } else {
            utf8_decode(in.s + i, &len);
            buf_add(out, in.s + i, len);
        }
    }
}

/* Sentencepiece strips its own mark at the end too, but not in front. */
static bool ends_blank(struct span in, size_t *blank)
{
    *blank = in.n && in.s[in.n - 1] == ' ' ? 1 : 3;
    return in.n >= *blank && (*blank == 1 || memcmp(in.s + in.n - 3, "\xe2\x96\x81", 3) == 0);
}

static void squeeze(struct span in, struct buf *out)
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

static void spell(struct span in, struct buf *out)
{
    for (size_t i = 0; i < in.n; i++)
        put(out, tokbytes_letter((unsigned char)in.s[i]));
}

/* True when P leaves IN as it is and costs nothing to see. */
static bool is_idle(const struct normalize_step *p, struct span in)
{
    if (in.n == 0)
        return true;
    if (p->kind == NORMALIZE_FORM)
        return normalizeuni_is_plain(p->form, in.s, in.n);
    return false;
}

static int run_step(const struct normalize_step *p, struct normalize_work *w, struct span in, struct buf *out,
                    struct err *e)
{
    switch (p->kind) {
    case NORMALIZE_FORM: normalizeuni_apply(p->form, &w->uni, in.s, in.n, out); break;
    case NORMALIZE_LOWERCASE: lowercase(in, out); break;
    case NORMALIZE_REPLACE:
        if (p->re)
            return replace_matches(p, w, in, out, e);
        replace_literal(p, in, out);
        break;
    case NORMALIZE_PREPEND:
        buf_add(out, p->text, p->n_text);
        buf_add(out, in.s, in.n);
        break;
    case NORMALIZE_DROP_MARKS:
    case NORMALIZE_DROP_MN:
    case NORMALIZE_CLEAN:
    case NORMALIZE_IDEOGRAPHS:
    case NORMALIZE_NMT: each_char(p->kind, in, out); break;
    case NORMALIZE_SPELL: spell(in, out); break;
    case NORMALIZE_MAP_HF: map_graphemes(p->map, in, out); break;
    case NORMALIZE_MAP_SPM: map_longest(p->map, in, out); break;
    case NORMALIZE_BLANKS: squeeze(in, out); break;
    case NORMALIZE_STRIP: break;
    }
    return 0;
}

int normalize_run(const struct normalize *z, struct normalize_work *w, const char *s, size_t n,
                  const char **out, size_t *n_out, struct err *e)
{
    struct span in = {s, n};
    size_t turn = 0;

    for (size_t i = 0; i < z->n; i++) {
        const struct normalize_step *p = &z->step[i];
        struct buf *to = &w->out[turn & 1];
        int rc;

        if (p->kind == NORMALIZE_STRIP)
            in = strip(p, in);
        if (p->kind == NORMALIZE_STRIP || is_idle(p, in))
            continue;
        to->tag = MEM_TEXT;
        buf_clear(to);
        if ((rc = run_step(p, w, in, to, e)) != 0)
            return rc;
        if (to->oom)
            return err_nomem(e, "normalizer");
        in = (struct span){to->data ? to->data : "", to->len};
        turn++;
    }
    *out = in.s;
    *n_out = in.n;
    return 0;
}
