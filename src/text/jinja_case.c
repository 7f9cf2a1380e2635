/* jinja_case.c - case of whole strings: what depends on neighbours (word starts, the final sigma) is
 * decided here. */
#include "text/jinja_case.h"

#include "text/jinja_str.h"
#include "text/jinja_uni.h"

enum { SIGMA = 0x3a3, FINAL_SIGMA = 0x3c2, SMALL_SIGMA = 0x3c3 };

/* True when the sigma at byte AT ends a word: a cased character before it and none after, ignorable ones
 * aside. */
static bool ends_word(const struct jstr *s, size_t at)
{
    size_t i = at;
    bool cased = false;

    while (i > 0) {
        i -= jinja_str_back(s->p, i);
        if (!jinja_uni_case_ignorable(jinja_str_char(s->p + i))) {
            cased = jinja_uni_cased(jinja_str_char(s->p + i));
            break;
        }
    }
    if (!cased)
        return false;
    for (i = at + jinja_str_step(s->p + at); i < s->n; i += jinja_str_step(s->p + i))
        if (!jinja_uni_case_ignorable(jinja_str_char(s->p + i)))
            return !jinja_uni_cased(jinja_str_char(s->p + i));
    return true;
}

static void put_lower(struct jbuf *b, const struct jstr *s, size_t at, uint32_t c)
{
    uint32_t out[3];
    int n;

    if (c == SIGMA) {
        jinja_run_step(b->r, 16);
        jinja_str_putu(b, ends_word(s, at) ? FINAL_SIGMA : SMALL_SIGMA);
        return;
    }
    n = jinja_uni_to_lower(c, out);
    for (int i = 0; i < n; i++)
        jinja_str_putu(b, out[i]);
}

static void put_upper(struct jbuf *b, uint32_t c, bool title)
{
    uint32_t out[3];
    int n = title ? jinja_uni_to_title(c, out) : jinja_uni_to_upper(c, out);

    for (int i = 0; i < n; i++)
        jinja_str_putu(b, out[i]);
}

static void put_folded(struct jbuf *b, uint32_t c)
{
    uint32_t out[8];
    int n = jinja_uni_to_fold(c, out);

    for (int i = 0; i < n; i++)
        jinja_str_putu(b, out[i]);
}

void jinja_case_put(struct jbuf *b, struct jv v, size_t from, size_t to, enum jcase how)
{
    const struct jstr *s = v.u.str;
    bool previous_cased = false;

    for (size_t i = from; i < to && !b->r->rc; i += jinja_str_step(s->p + i)) {
        uint32_t c = jinja_str_char(s->p + i);

        switch (how) {
        case JCASE_UPPER: put_upper(b, c, false); break;
        case JCASE_LOWER: put_lower(b, s, i, c); break;
        case JCASE_FOLD: put_folded(b, c); break;
        case JCASE_CAPITALIZE:
            if (i == from)
                put_upper(b, c, true);
            else
                put_lower(b, s, i, c);
            break;
        case JCASE_TITLE:
            if (previous_cased)
                put_lower(b, s, i, c);
            else
                put_upper(b, c, true);
            previous_cased = jinja_uni_cased(c);
            break;
        case JCASE_SWAP:
            if (jinja_uni_upper(c))
                put_lower(b, s, i, c);
            else if (jinja_uni_lower(c))
                put_upper(b, c, false);
            else
                jinja_str_putu(b, c);
            break;
        }
    }
}

/* The same for ASCII, where a byte is a character and stays one. */
static struct jv map_ascii(struct jrun *r, const struct jstr *s, enum jcase how)
{
    char *to = jinja_run_alloc(r, s->n);
    bool inside = false;

    if (!to)
        return jv_none();
    for (size_t i = 0; i < s->n; i++) {
        char c = s->p[i];
        bool lower = c >= 'a' && c <= 'z', upper = c >= 'A' && c <= 'Z', up;

        switch (how) {
        case JCASE_UPPER: up = true; break;
        case JCASE_CAPITALIZE: up = i == 0; break;
        case JCASE_TITLE: up = !inside; break;
        case JCASE_SWAP: up = lower; break;
        default: up = false;
        }
        to[i] = (char)(lower && up ? c - 32 : upper && !up ? c + 32 : c);
        inside = lower || upper;
    }
    return jinja_str_ref(r, to, s->n);
}

struct jv jinja_case_map(struct jrun *r, struct jv v, enum jcase how)
{
    struct jbuf b = {.r = r};
    bool ascii = jinja_str_chars(v.u.str) == v.u.str->n;
    struct jv out;

    if (!jinja_run_step(r, v.u.str->n / (ascii ? 16 : 2)))
        return jv_none();
    if (ascii) {
        out = map_ascii(r, v.u.str, how);
    } else {
        jinja_case_put(&b, v, 0, v.u.str->n, how);
        out = jinja_str_done(&b);
    }
    if (jv_is(out, JV_STR))
        out.flags = v.flags;
    return out;
}
