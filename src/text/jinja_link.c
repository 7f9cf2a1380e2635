/* jinja_link.c - finds web and mail addresses by the rules of Jinja's urlize, word by word, without
 * regular expressions. */
#include "text/jinja_link.h"

#include <string.h>

#include "text/jinja_html.h"
#include "text/jinja_iter.h"
#include "text/jinja_repr.h"
#include "text/jinja_split.h"
#include "text/jinja_str.h"
#include "text/jinja_uni.h"

struct text {
    const char *p;
    size_t n;
};

struct link {
    struct jrun *r;
    struct jbuf out;
    struct jbuf attributes; /* rel="..." target="..." */
    int64_t limit;          /* of shown characters; -1: none */
    struct jv schemes;      /* a list of further prefixes */
};

static bool begins(struct text t, const char *with)
{
    return t.n >= strlen(with) && memcmp(t.p, with, strlen(with)) == 0;
}

static bool begins_anycase(struct text t, const char *with)
{
    return t.n >= strlen(with) && strncasecmp(t.p, with, strlen(with)) == 0;
}

static bool is_word(uint32_t c)
{
    return c == '_' || jinja_uni_alnum(c);
}

/* Number of characters of T, or 0 when one of them is no part of a host label. */
static size_t label(struct text t)
{
    size_t n = 0;

    for (size_t i = 0; i < t.n; i += jinja_str_step(t.p + i), n++)
        if (!is_word(jinja_str_char(t.p + i)) && t.p[i] != '%' && t.p[i] != '-')
            return 0;
    return n;
}

static bool top_label(struct text t)
{
    static const char *const idna = "xn--";

    if (t.n >= 6 && t.n <= 63 && strncasecmp(t.p, idna, 4) == 0)
        return label(t) && !memchr(t.p + 4, '-', t.n - 4);
    for (size_t i = 0; i < t.n; i++)
        if ((t.p[i] | 32) < 'a' || (t.p[i] | 32) > 'z')
            return false;
    return t.n >= 2 && t.n <= 63;
}

static bool known_top(struct text t)
{
    static const char *const tops[] = {"com", "net", "int", "edu", "gov", "org", "info", "mil"};

    for (size_t i = 0; i < sizeof(tops) / sizeof(tops[0]); i++)
        if (t.n == strlen(tops[i]) && strncasecmp(t.p, tops[i], t.n) == 0)
            return true;
    return false;
}

/* Labels with dots between them; LOOSE: any top label and labels of any length. */
static bool domain(struct text t, bool loose)
{
    const char *dot = memrchr(t.p, '.', t.n);
    struct text top = dot ? (struct text){dot + 1, t.n - (size_t)(dot + 1 - t.p)} : t;
    size_t from = 0;

    if (!(loose ? top_label(top) : dot && known_top(top)))
        return false;
    for (size_t i = 0; dot && i <= (size_t)(dot - t.p); i++)
        if (t.p[i] == '.') {
            size_t n = label((struct text){t.p + from, i - from});

            if (n == 0 || (!loose && (n < 2 || n > 63)))
                return false;
            from = i + 1;
        }
    return true;
}

static bool numeric_host(struct text t)
{
    size_t dots = 0, digits = 0;

    if (t.n > 2 && t.p[0] == '[' && t.p[t.n - 1] == ']') {
        for (size_t i = 1; i + 1 < t.n; i++) {
            if (!strchr("0123456789abcdefABCDEF:", t.p[i]))
                return false;
            dots += t.p[i] == ':';
        }
        return dots >= 2;
    }
    for (size_t i = 0; i < t.n; i++) {
        if (t.p[i] == '.' && digits && dots < 3) {
            dots++;
            digits = 0;
        } else if (t.p[i] < '0' || t.p[i] > '9' || ++digits > 3) {
            return false;
        }
    }
    return dots == 3 && digits;
}

static bool is_url(struct text t)
{
    bool scheme = begins_anycase(t, "http://") || begins_anycase(t, "https://"),
         www = begins_anycase(t, "www.");
    size_t skip = begins_anycase(t, "https://") ? 8 : scheme ? 7 : www ? 4 : 0, end = skip, port;
    struct text host;

    if (end < t.n && t.p[end] == '[')
        while (end < t.n && t.p[end] != ']')
            end++;
    while (end < t.n && !strchr(":/?#", t.p[end]))
        end++;
    host = (struct text){t.p + skip, end - skip};
    if (end < t.n && t.p[end] == ':') {
        for (port = end + 1; port < t.n && t.p[port] >= '0' && t.p[port] <= '9';)
            port++;
        if (port == end + 1 || port - end - 1 > 5)
            return false;
        end = port;
    }
    if (end < t.n && !strchr("/?#", t.p[end]))
        return false;
    if (host.n == 0)
        return false;
    if ((scheme || www) && domain(host, true))
        return true;
    return (scheme && numeric_host(host)) || (!scheme && domain((struct text){t.p, host.n + skip}, false));
}

static bool is_mail(struct text t)
{
    const char *at = memrchr(t.p, '@', t.n), *dot = memrchr(t.p, '.', t.n);
    const char *end = t.p + t.n;

    if (!at || at == t.p || !dot || dot < at + 2 || dot + 1 == end)
        return false;
    for (const char *p = at + 1; p < end; p += jinja_str_step(p))
        if (!is_word(jinja_str_char(p)) && (p > dot || p == at + 1 || (*p != '.' && *p != '-')))
            return false;
    return true;
}

static void put_link(struct link *l, const char *prefix, struct text href, struct text shown, bool attributes)
{
    struct jbuf *b = &l->out;

    jinja_str_puts(b, "<a href=\"");
    jinja_str_puts(b, prefix);
    jinja_str_put(b, href.p, href.n);
    jinja_str_putc(b, '"');
    if (attributes)
        jinja_str_put(b, l->attributes.p, l->attributes.n);
    jinja_str_putc(b, '>');
    jinja_str_put(b, shown.p, shown.n);
    jinja_str_puts(b, "</a>");
}

static void put_url(struct link *l, struct text t)
{
    struct jbuf shown = {.r = l->r};
    size_t cut = 0;

    jinja_str_put(&shown, t.p, t.n);
    if (!l->r->rc && l->limit >= 0 && jinja_str_count(t.p, t.n) > (size_t)l->limit) {
        for (int64_t i = 0; i < l->limit; i++)
            cut += jinja_str_step(t.p + cut);
        shown.n = cut;
        jinja_str_puts(&shown, "...");
    }
    put_link(l, begins(t, "https://") || begins(t, "http://") ? "" : "https://", t,
             (struct text){shown.p, shown.n}, true);
}

static bool put_scheme(struct link *l, struct text t)
{
    struct jiter *it = jv_is(l->schemes, JV_MISSING) ? NULL : jinja_iter_open(l->r, l->schemes);
    struct jv v;

    while (it && jinja_iter_next(l->r, it, &v)) {
        struct text s;

        if (!jv_is(v, JV_STR))
            continue;
        s = (struct text){v.u.str->p, v.u.str->n};
        if (t.n > s.n && memcmp(t.p, s.p, s.n) == 0) {
            put_link(l, "", t, t, true);
            return true;
        }
    }
    return false;
}

static void put_middle(struct link *l, struct text t)
{
    struct text mail = t;

    if (begins(t, "mailto:"))
        mail = (struct text){t.p + 7, t.n - 7};
    if (t.n && is_url(t))
        put_url(l, t);
    else if (begins(t, "mailto:") && is_mail(mail))
        put_link(l, "", t, mail, false);
    else if (!begins(t, "www.") && t.n && t.p[0] != '@' && !memchr(t.p, ':', t.n) && is_mail(t))
        put_link(l, "mailto:", t, t, false);
    else if (!put_scheme(l, t))
        jinja_str_put(&l->out, t.p, t.n);
}

static size_t count(struct text t, const char *s)
{
    size_t n = 0, hit;

    while ((hit = jinja_str_find(t.p, t.n, s, strlen(s))) != SIZE_MAX) {
        t.p += hit + strlen(s);
        t.n -= hit + strlen(s);
        n++;
    }
    return n;
}

/* Opening punctuation in front and closing punctuation behind do not belong to an address, unless they
 * balance. */
static void put_word(struct link *l, struct text t)
{
    static const char *const pair[3][2] = {{"(", ")"}, {"<", ">"}, {"&lt;", "&gt;"}};
    struct text middle = t, tail;
    size_t end;

    while (middle.n && (middle.p[0] == '(' || middle.p[0] == '<' || begins(middle, "&lt;"))) {
        size_t n = middle.p[0] == '&' ? 4 : 1;

        middle.p += n;
        middle.n -= n;
    }
    jinja_str_put(&l->out, t.p, (size_t)(middle.p - t.p));
    for (end = middle.n; end;) {
        if (strchr(")>.,\n", middle.p[end - 1]) && middle.p[end - 1])
            end--;
        else if (end >= 4 && memcmp(middle.p + end - 4, "&gt;", 4) == 0)
            end -= 4;
        else
            break;
    }
    tail = (struct text){middle.p + end, middle.n - end};
    middle.n = end;
    for (int k = 0; k < 3; k++) {
        size_t opened = count(middle, pair[k][0]), closing = count(tail, pair[k][1]);

        if (opened <= count(middle, pair[k][1]))
            continue;
        for (size_t i = 0; i < (opened < closing ? opened : closing); i++) {
            size_t n = jinja_str_find(tail.p, tail.n, pair[k][1], strlen(pair[k][1])) + strlen(pair[k][1]);

            middle.n += n;
            tail.p += n;
            tail.n -= n;
        }
    }
    put_middle(l, middle);
    jinja_str_put(&l->out, tail.p, tail.n);
}

static int in_order(const struct text *a, const struct text *b)
{
    size_t n = a->n < b->n ? a->n : b->n;
    int c = memcmp(a->p, b->p, n);

    return c ? c : (a->n > b->n) - (a->n < b->n);
}

/* rel="..." with the words of REL, nofollow if asked, and noopener, sorted and without repetition. */
static void put_rel(struct link *l, struct jv rel, bool nofollow)
{
    struct text last = {"", 0}, words[16] = {{"noopener", 8}};
    struct jargs none = {.n = 0};
    size_t n = 1;
    struct jv list;

    if (nofollow)
        words[n++] = (struct text){"nofollow", 8};
    list = jv_is(rel, JV_STR) ? jinja_split_split(l->r, rel, &none) : jv_none();
    for (size_t i = 0; jv_is(list, JV_LIST) && i < list.u.list->n && n < 16; i++)
        words[n++] = (struct text){list.u.list->v[i].u.str->p, list.u.list->v[i].u.str->n};
    jinja_str_puts(&l->attributes, " rel=\"");
    for (size_t k = 0; k < n; k++) {
        const struct text *least = NULL;

        for (size_t i = 0; i < n; i++)
            if (in_order(&words[i], &last) > 0 && (!least || in_order(&words[i], least) < 0))
                least = &words[i];
        if (!least)
            break;
        if (last.n)
            jinja_str_putc(&l->attributes, ' ');
        jinja_html_put(&l->attributes, least->p, least->n);
        last = *least;
    }
    jinja_str_putc(&l->attributes, '"');
}

struct jv jinja_link_filter(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct link l = {.r = r, .out = {.r = r}, .attributes = {.r = r}, .limit = -1};
    struct jv p[5], s;
    size_t i = 0, from;

    if (!jinja_args_bind(r, "urlize", a, "trim_url_limit nofollow target rel extra_schemes", 0, p) ||
        (!jv_is(p[0], JV_NONE) && !jinja_args_index(r, "urlize", p[0], &l.limit)))
        return jv_none();
    put_rel(&l, p[3], jinja_args_true(p[1], false));
    if (jv_is(p[2], JV_STR)) {
        jinja_str_puts(&l.attributes, " target=\"");
        jinja_html_put(&l.attributes, p[2].u.str->p, p[2].u.str->n);
        jinja_str_putc(&l.attributes, '"');
    }
    l.schemes = jv_is(p[4], JV_NONE) ? jv_missing() : p[4];
    s = jinja_html_escape(r, v);
    while (!r->rc && i < s.u.str->n && jinja_run_step(r, 4)) {
        const char *t = s.u.str->p;

        for (from = i; i < s.u.str->n && jinja_uni_space(jinja_str_char(t + i));)
            i += jinja_str_step(t + i);
        jinja_str_put(&l.out, t + from, i - from);
        for (from = i; i < s.u.str->n && !jinja_uni_space(jinja_str_char(t + i));)
            i += jinja_str_step(t + i);
        if (i > from && jinja_run_step(r, (i - from) / 4))
            put_word(&l, (struct text){t + from, i - from});
    }
    v = jinja_str_done(&l.out);
    if (r->autoescape && jv_is(v, JV_STR))
        v.flags = JV_MARKUP;
    return v;
}
