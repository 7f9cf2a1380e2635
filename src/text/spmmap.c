/* spmmap.c - walks the trie with every index checked: the file is not trusted. */
#include "text/spmmap.h"

#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

struct spmmap {
    uint32_t *unit;
    size_t n_units;
    char *text;
    size_t n_text;
};

int spmmap_new(struct spmmap **out, const char *bytes, size_t n, struct err *e)
{
    struct spmmap *m;
    uint32_t trie = 0;

    *out = NULL;
    if (n >= 4)
        memcpy(&trie, bytes, 4);
    if (n < 4 || trie % 4 != 0 || trie == 0 || trie > n - 4)
        return err_set(e, ERR_INPUT, "the precompiled character map of %zu bytes is damaged", n);
    if (utf8_valid_prefix(bytes + 4 + trie, n - 4 - trie) != n - 4 - trie)
        return err_set(e, ERR_INPUT, "the replacements of the precompiled character map are not UTF-8");
    m = mem_zalloc(1, sizeof(*m), MEM_TEXT);
    if (!m)
        return err_nomem(e, "character map");
    m->n_units = trie / 4;
    m->n_text = n - 4 - trie;
    m->unit = mem_alloc(trie, MEM_TEXT);
    m->text = mem_strndup(bytes + 4 + trie, m->n_text, MEM_TEXT);
    if (!m->unit || !m->text) {
        spmmap_free(m);
        return err_nomem(e, "character map");
    }
    memcpy(m->unit, bytes + 4, trie);
    *out = m;
    return 0;
}

void spmmap_free(struct spmmap *m)
{
    if (!m)
        return;
    mem_free(m->unit);
    mem_free(m->text);
    mem_free(m);
}

static size_t offset_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & 0x200u) >> 6);
}

/* Walks S; for the first entry (FIRST) or the last one met, sets *len and *value. */
static bool walk(const struct spmmap *m, const char *s, size_t n, bool first, size_t *len, size_t *value)
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

static bool replacement(const struct spmmap *m, size_t at, const char **to, size_t *n_to)
{
    const char *end;

    if (at > m->n_text || (at < m->n_text && ((unsigned char)m->text[at] & 0xc0) == 0x80))
        return false; /* a damaged map must not make half a character */
    end = memchr(m->text + at, 0, m->n_text - at);
    *to = m->text + at;
    *n_to = end ? (size_t)(end - *to) : m->n_text - at;
    return true;
}

bool spmmap_longest(const struct spmmap *m, const char *s, size_t n, size_t *len, const char **to,
                    size_t *n_to)
{
    size_t value, l;

    if (!walk(m, s, n, false, &l, &value) || !replacement(m, value, to, n_to))
        return false;
    if (l < n && ((unsigned char)s[l] & 0xc0) == 0x80)
        return false; /* nor may it eat half of one */
    *len = l;
    return true;
}

bool spmmap_shortest(const struct spmmap *m, const char *s, size_t n, const char **to, size_t *n_to)
{
    size_t value, len;

    return walk(m, s, n, true, &len, &value) && replacement(m, value, to, n_to);
}
