/* decode.c - runs the steps of a decoder: each step passes its output to the next one, and the last step
 * writes to the caller's buffer.
 *
 * A step holds back text in HOLD: the first bytes of a character (ByteLevel, ByteFallback), a whole run of byte
 * pieces (ByteFallback, if asked for), or the last token (BPEDecoder).
 */
#include "text/tok/decode.h"

#include <string.h>

#include "base/utf8.h"
#include "text/tok/pattern.h"
#include "text/tok/steps.h"
#include "text/tok/unicode.h"

/* Initial bytes of the buffers: decoding tokens up to this size in an engine step allocates nothing. */
enum { USUAL_PIECE = 64 };

struct state {
    const struct step *p;
    bool fragments;        /* an earlier step joins tokens, so one token arrives in fragments */
    struct buf hold, made; /* HOLD: text held back; MADE: the output of the step */
    size_t count;          /* characters removed (Strip); tokens seen or held (other steps) */
    bool special;          /* Suffix: the token that is held is a special token */
    bool done;             /* Strip: no more characters are removed from this token; ByteFallback: the run
                              of byte pieces is no text (byte_fallback()) */
};

struct decode_run {
    struct state *state;
    size_t n;
    bool whole; /* runs of byte pieces are judged as a whole (decode_run_new()) */
    struct pattern_work *re;
    struct buf *out;
    struct err *e;
    bool special;     /* the text that the steps pass on comes from a special token */
    size_t n_special; /* the number of special tokens that decode_n_special() returns */
};

static bool joins(const struct step *p)
{
    return p->kind == DECODE_BYTE_LEVEL || p->kind == DECODE_FUSE;
}

int decode_check(const struct steps *c, struct err *e)
{
    bool joined = false;

    for (size_t i = 0; i < c->n; i++) {
        if (joined && c->step[i].kind != DECODE_FUSE && c->step[i].kind != DECODE_STRIP)
            return err_set(e, ERR_UNSUPPORTED,
                           "a decoder in which another step than a Strip follows a ByteLevel or a Fuse is "
                           "not supported");
        joined = joined || joins(&c->step[i]);
    }
    return 0;
}

struct decode_run *decode_run_new(const struct steps *c, bool whole)
{
    struct decode_run *r = mem_zalloc(1, sizeof(*r), MEM_TEXT);
    bool joined = false, patterns = false, room = true;

    if (!r)
        return NULL;
    r->n = c->n;
    r->whole = whole;
    r->state = mem_zalloc(c->n, sizeof(*r->state), MEM_TEXT);
    for (size_t i = 0; r->state && i < c->n; i++) {
        r->state[i] = (struct state){.p = &c->step[i], .fragments = joined};
        buf_init(&r->state[i].hold, MEM_TEXT);
        buf_init(&r->state[i].made, MEM_TEXT);
        room = room && buf_reserve(&r->state[i].hold, USUAL_PIECE) &&
               buf_reserve(&r->state[i].made, USUAL_PIECE);
        joined = joined || joins(&c->step[i]);
        patterns = patterns || c->step[i].re;
    }
    if (!r->state || !room || (patterns && !(r->re = pattern_work_new()))) {
        decode_run_free(r);
        return NULL;
    }
    return r;
}

void decode_run_free(struct decode_run *r)
{
    if (!r)
        return;
    for (size_t i = 0; r->state && i < r->n; i++) {
        buf_fini(&r->state[i].hold);
        buf_fini(&r->state[i].made);
    }
    mem_free(r->state);
    pattern_work_free(r->re);
    mem_free(r);
}

static int feed(struct decode_run *r, size_t k, const char *s, size_t n);

/* Passes the output of step K to the next step. */
static int feed_made(struct decode_run *r, size_t k)
{
    const struct buf *made = &r->state[k].made;

    return made->oom ? err_nomem(r->e, "decoder") : feed(r, k + 1, made->data ? made->data : "", made->len);
}

/* Outputs the complete characters among the bytes that step K holds back, and keeps an incomplete last one. Bytes that
 * are not UTF-8 become U+FFFD: one for a sequence that is cut short; or with BREAKS, one for each of these bytes and of
 * all bytes after them. */
static int pass_characters(struct decode_run *r, size_t k, bool breaks)
{
    struct state *x = &r->state[k];
    size_t at = 0;
    int rc = 0;

    buf_clear(&x->made);
    while (at < x->hold.len) {
        bool good;
        size_t len = utf8_sequence(x->hold.data + at, x->hold.len - at, &good);

        if (!good && utf8_is_partial(x->hold.data + at, x->hold.len - at))
            break;
        if (!good && breaks) {
            x->done = true;
            len = x->hold.len - at;
        }
        if (good)
            buf_add(&x->made, x->hold.data + at, len);
        for (size_t i = 0; !good && i < (breaks ? len : 1); i++)
            buf_str(&x->made, "\xef\xbf\xbd");
        at += len;
    }
    if (x->hold.oom || x->made.oom)
        return err_nomem(r->e, "decoder");
    if (at) {
        memmove(x->hold.data, x->hold.data + at, x->hold.len - at);
        x->hold.len -= at;
    }
    if (x->made.len)
        rc = feed(r, k + 1, x->made.data, x->made.len);
    return rc;
}

/* Turns the letters S into bytes; if a character of S is not a letter of GPT-2's alphabet, S itself is the
 * bytes. Passes on the complete characters and holds back an incomplete one. */
static int byte_level(struct decode_run *r, size_t k, const char *s, size_t n)
{
    struct state *x = &r->state[k];
    size_t m;

    buf_clear(&x->made);
    buf_add(&x->made, s, n); /* reserves room for the bytes */
    if (x->made.oom)
        return err_nomem(r->e, "decoder");
    if (n && unicode_unspell(s, n, x->made.data, &m))
        buf_add(&x->hold, x->made.data, m);
    else
        buf_add(&x->hold, s, n);
    return pass_characters(r, k, false);
}

/* Returns the byte of a byte piece <0xHH>, or -1. "+A" counts as "0A", as in the Hugging Face library. */
static int fallback_byte(const char *s, size_t n)
{
    int hi, lo;

    if (n != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>')
        return -1;
    hi = s[3] == '+' ? 0 : utf8_hex_digit(s[3]);
    lo = utf8_hex_digit(s[4]);
    return hi < 0 || lo < 0 ? -1 : (hi << 4) | lo;
}

bool decode_part_of_character(const struct steps *c, const char *token, size_t n, struct buf *out)
{
    size_t begin = out->len, m = 0;

    for (size_t i = 0; i < c->n && out->len == begin; i++) {
        if (c->step[i].kind == DECODE_BYTE_FALLBACK && fallback_byte(token, n) >= 0)
            buf_char(out, (char)fallback_byte(token, n));
        if (c->step[i].kind == DECODE_BYTE_LEVEL && n && buf_reserve(out, begin + n)) {
            if (unicode_unspell(token, n, out->data + begin, &m))
                out->len = begin + m;
        }
    }
    if (out->len > begin && utf8_valid_prefix(out->data + begin, out->len - begin) < out->len - begin)
        return true;
    out->len = begin;
    return false;
}

size_t decode_inside(const struct steps *c, const char *token, size_t n, char *out, size_t size)
{
    static const char blank[] = "\xe2\x96\x81"; /* U+2581 */
    size_t m = 0;

    for (size_t i = 0; i < c->n; i++) {
        if (c->step[i].kind == DECODE_BYTE_LEVEL && n > size)
            return 0;
        if (c->step[i].kind == DECODE_BYTE_LEVEL && unicode_unspell(token, n, out, &m))
            return m;
        if (c->step[i].kind == DECODE_BYTE_FALLBACK && fallback_byte(token, n) >= 0 && size > 0) {
            out[0] = (char)fallback_byte(token, n);
            return 1;
        }
    }
    m = 0;
    for (size_t i = 0; i < n && m < size; m++) {
        bool is_blank = n - i >= sizeof(blank) - 1 && memcmp(token + i, blank, sizeof(blank) - 1) == 0;

        out[m] = is_blank ? ' ' : token[i];
        i += is_blank ? sizeof(blank) - 1 : 1;
    }
    return m;
}

/* Ends a run of byte pieces: passes on its text if the run is valid UTF-8, else U+FFFD for each byte. */
static int end_bytes(struct decode_run *r, size_t k)
{
    struct state *x = &r->state[k];
    bool special = r->special;
    size_t n = x->hold.len;
    int rc = 0;

    x->done = false;
    if (n == 0)
        return 0;
    x->hold.len = 0;
    r->special = false; /* byte pieces are not special tokens */
    if (utf8_valid_prefix(x->hold.data, n) == n)
        rc = feed(r, k + 1, x->hold.data, n);
    else
        for (size_t i = 0; i < n && rc == 0; i++)
            rc = feed(r, k + 1, "\xef\xbf\xbd", 3);
    r->special = special;
    return rc;
}

/* A run of byte pieces that is not valid UTF-8 becomes U+FFFD for each of its bytes, as in the Hugging Face library. If
 * complete characters are passed on at once, U+FFFD begins at the first byte that is not part of a character. */
static int byte_fallback(struct decode_run *r, size_t k, const char *s, size_t n)
{
    struct state *x = &r->state[k];
    int byte = fallback_byte(s, n), rc;

    if (byte >= 0 && x->done)
        return feed(r, k + 1, "\xef\xbf\xbd", 3);
    if (byte >= 0) {
        buf_char(&x->hold, (char)byte);
        if (!r->whole)
            return pass_characters(r, k, true);
        return x->hold.oom ? err_nomem(r->e, "decoder") : 0;
    }
    rc = end_bytes(r, k);
    return rc ? rc : feed(r, k + 1, s, n);
}

static int replace(struct decode_run *r, size_t k, const char *s, size_t n)
{
    struct state *x = &r->state[k];
    size_t done;
    int rc;

    buf_clear(&x->made);
    rc = pattern_replace(x->p, r->re, (struct json_str){s, n}, &x->made, &done, NULL, r->e);
    if (rc)
        return rc;
    buf_add(&x->made, s + done, n - done);
    return feed_made(r, k);
}

/* Removes characters CH from the front of S until the step's limit is reached. */
static void strip_front(struct state *x, const char **s, size_t *n)
{
    while (!x->done && *n) {
        size_t len;

        if (x->count == x->p->start || utf8_decode(*s, &len) != x->p->ch) {
            x->done = true;
            break;
        }
        x->count++;
        *s += len;
        *n -= len;
    }
}

static int strip(struct decode_run *r, size_t k, const char *s, size_t n)
{
    struct state *x = &r->state[k];

    if (!x->fragments) { /* the limit applies to each token */
        x->count = 0;
        x->done = false;
    }
    strip_front(x, &s, &n);
    return x->fragments && n == 0 ? 0 : feed(r, k + 1, s, n);
}

static int metaspace(struct decode_run *r, size_t k, const char *s, size_t n)
{
    struct state *x = &r->state[k];
    bool drop = x->count == 0 && x->p->first;

    x->count = 1;
    buf_clear(&x->made);
    for (size_t i = 0, len; i < n; i += len) {
        if (utf8_decode(s + i, &len) != x->p->ch)
            buf_add(&x->made, s + i, len);
        else if (!drop)
            buf_char(&x->made, ' ');
    }
    return feed_made(r, k);
}

/* Passes on the token that was held back, with each suffix in it replaced by BETWEEN. */
static int end_suffix(struct decode_run *r, size_t k, const char *between)
{
    struct state *x = &r->state[k];
    const char *s, *end, *hit;

    if (x->count == 0)
        return 0;
    s = x->hold.data; /* not NULL: a token was added, even if it was empty */
    end = s + x->hold.len;
    x->count = 0;
    buf_clear(&x->made);
    while (s < end && (hit = memmem(s, (size_t)(end - s), x->p->find.s, x->p->find.n)) != NULL) {
        buf_add(&x->made, s, (size_t)(hit - s));
        buf_str(&x->made, between);
        s = hit + x->p->find.n;
    }
    buf_add(&x->made, s, (size_t)(end - s));
    buf_clear(&x->hold);
    return feed_made(r, k);
}

static int suffix(struct decode_run *r, size_t k, const char *s, size_t n)
{
    struct state *x = &r->state[k];
    bool special = r->special;
    int rc;

    r->special = x->special;
    rc = end_suffix(r, k, " ");
    r->special = x->special = special;
    if (rc)
        return rc;
    buf_add(&x->hold, s, n);
    x->count = 1;
    return x->hold.oom ? err_nomem(r->e, "decoder") : 0;
}

static int join(struct decode_run *r, size_t k, const char *s, size_t n)
{
    struct state *x = &r->state[k];
    bool special = r->special;
    int rc;

    r->special = false;
    rc = x->count++ ? feed(r, k + 1, " ", 1) : 0;
    r->special = special;
    return rc ? rc : feed(r, k + 1, s, n);
}

/* Passes one token, or one fragment of a token, to step K. */
static int feed(struct decode_run *r, size_t k, const char *s, size_t n)
{
    if (k == r->n) {
        buf_add(r->out, s, n);
        r->n_special = r->special ? r->n_special + n : 0;
        return r->out->oom ? err_nomem(r->e, "text") : 0;
    }
    switch (r->state[k].p->kind) {
    case DECODE_BYTE_LEVEL: return byte_level(r, k, s, n);
    case DECODE_BYTE_FALLBACK: return byte_fallback(r, k, s, n);
    case DECODE_FUSE: return n ? feed(r, k + 1, s, n) : 0;
    case DECODE_REPLACE: return replace(r, k, s, n);
    case DECODE_STRIP: return strip(r, k, s, n);
    case DECODE_METASPACE: return metaspace(r, k, s, n);
    case DECODE_SUFFIX: return suffix(r, k, s, n);
    default: return join(r, k, s, n);
    }
}

/* Ends step K: passes on the text that it has held back. */
static int finish(struct decode_run *r, size_t k)
{
    switch (r->state[k].p->kind) {
    case DECODE_BYTE_LEVEL: /* HOLD has the first bytes of an incomplete character */
        return r->state[k].hold.len ? feed(r, k + 1, "\xef\xbf\xbd", 3) : 0;
    case DECODE_BYTE_FALLBACK: return end_bytes(r, k);
    case DECODE_SUFFIX: r->special = r->state[k].special; return end_suffix(r, k, "");
    default: return 0;
    }
}

int decode_put(struct decode_run *r, const char *token, size_t n, bool special, struct buf *out,
               struct err *e)
{
    r->out = out;
    r->e = e;
    r->special = special;
    r->n_special = 0;
    return feed(r, 0, token, n);
}

int decode_end(struct decode_run *r, struct buf *out, struct err *e)
{
    int rc = 0;

    r->out = out;
    r->e = e;
    r->n_special = 0;
    for (size_t k = 0; k < r->n && rc == 0; k++) {
        r->special = false;
        rc = finish(r, k);
    }
    for (size_t k = 0; k < r->n; k++) {
        buf_clear(&r->state[k].hold);
        r->state[k].count = 0;
        r->state[k].done = false;
    }
    return rc;
}

size_t decode_n_special(const struct decode_run *r)
{
    return r->n_special;
}

int decode_copy(struct decode_run *to, const struct decode_run *from, struct err *e)
{
    bool room = true;

    for (size_t k = 0; k < from->n; k++) {
        const struct state *a = &from->state[k];
        struct state *b = &to->state[k];

        buf_clear(&b->hold);
        buf_add(&b->hold, a->hold.data ? a->hold.data : "", a->hold.len);
        b->count = a->count;
        b->done = a->done;
        b->special = a->special;
        room = room && !b->hold.oom;
    }
    return room ? 0 : err_nomem(e, "decoder");
}
