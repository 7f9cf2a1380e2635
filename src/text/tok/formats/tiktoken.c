/* tiktoken.c - reads a tiktoken file. Each line has a token as base64, a blank, and the token's rank, which
 * is also its id.
 *
 * tiktoken merges the two neighbours whose joined bytes have the lowest rank. So every way to cut an entry
 * into two entries is a merge rule, and a word that is an entry needs no merging.
 */
#include <stdio.h>
#include <string.h>

#include "text/settings.h"
#include "text/tok/bpe.h"
#include "text/tok/build.h"
#include "text/tok/formats/family.h"
#include "text/tok/formats/readers.h"
#include "text/tok/tok.h"
#include "text/tok/unicode.h"
#include "text/tok/vocabulary.h"

enum { MAX_TOKEN = 1024 };

static int sextet(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool tok_from_base64(const char *s, size_t n, char *out, size_t *n_out)
{
    size_t end = n, m = 0;
    uint32_t bits = 0;
    int have = 0;

    while (end > 0 && s[end - 1] == '=' && n - end < 2)
        end--;
    for (size_t i = 0; i < end; i++) {
        int v = sextet(s[i]);

        if (v < 0)
            return false;
        bits = (bits << 6) | (uint32_t)v;
        have += 6;
        if (have >= 8) {
            have -= 8;
            out[m++] = (char)((bits >> have) & 0xff);
        }
    }
    *n_out = m;
    return have < 6;
}

/* Reads one line into BYTES[MAX_TOKEN] and *RANK. False: the line is malformed. */
static bool read_line(const char *s, size_t n, char *bytes, size_t *n_bytes, int64_t *rank)
{
    const char *blank = memchr(s, ' ', n);
    size_t coded = blank ? (size_t)(blank - s) : 0;

    if (!blank || coded == 0 || coded > MAX_TOKEN || !tok_from_base64(s, coded, bytes, n_bytes))
        return false;
    *rank = 0;
    if (coded + 1 == n)
        return false;
    for (size_t i = coded + 1; i < n; i++) {
        if (s[i] < '0' || s[i] > '9' || *rank > VOCAB_MAX_ID)
            return false;
        *rank = *rank * 10 + (s[i] - '0');
    }
    return true;
}

size_t tok_line(const char *s, const char *end, const char **next)
{
    const char *nl = memchr(s, '\n', (size_t)(end - s)), *stop = nl ? nl : end;

    *next = nl ? nl + 1 : end;
    if (stop > s && stop[-1] == '\r')
        stop--;
    return (size_t)(stop - s);
}

bool tok_is_tiktoken(const char *text, size_t len)
{
    const char *next;
    char bytes[MAX_TOKEN];
    size_t n;
    int64_t rank;

    return len > 0 && read_line(text, tok_line(text, text + len, &next), bytes, &n, &rank);
}

static int read_ranks(struct tok *t, const char *text, size_t len, struct err *e)
{
    const char *s = text, *end = text + len, *next;
    size_t line = 0;

    for (; s < end; s = next) {
        char bytes[MAX_TOKEN], letters[2 * MAX_TOKEN];
        size_t n = tok_line(s, end, &next), m;
        int64_t rank;
        int rc;

        line++;
        if (n == 0)
            continue;
        if (!read_line(s, n, bytes, &m, &rank))
            return err_set(e, ERR_INPUT, "line %zu is not a token in base64, a blank and a rank", line);
        rc = vocab_add(&t->vocab, letters, unicode_spell(bytes, m, letters), rank, e);
        if (rc) {
            err_prefix(e, "line %zu", line);
            return rc;
        }
    }
    return 0;
}

int tok_read_tiktoken(struct tok *t, const char *text, size_t len, const struct settings *conf, struct err *e)
{
    const struct family *f;
    int32_t bos;
    int rc = read_ranks(t, text, len, e);

    if (rc)
        return rc;
    f = family_of_ranks(t->vocab.n);
    if (!f)
        f = family_known_as(FAMILY_CLASS, conf->class, strlen(conf->class));
    if (!f)
        return err_set(
            e, ERR_UNSUPPORTED,
            "a tiktoken file does not contain the pre-tokenizer's pattern, and no known tokenizer has the %zu ranks "
            "of this file; a tokenizer.json contains the pattern",
            t->vocab.n);
    t->model = TOK_BPE;
    t->bpe.ignore_merges = true;
    if ((rc = bpe_derive(&t->bpe, &t->vocab, NULL, e)) != 0 || (rc = family_apply(f, t, false, e)) != 0 ||
        (rc = conf->n_added > conf->n_of_class ? tok_add_settings(t, conf, e)
                                               : family_add_special(f, t, e)) != 0 ||
        (rc = tok_seal(t, e)) != 0)
        return rc;
    if (f->bos && conf->add_bos != SETTINGS_NO && tok_id_of(t, f->bos, strlen(f->bos), &bos))
        rc = tok_add_around(t, bos, -1, e);
    return rc;
}
