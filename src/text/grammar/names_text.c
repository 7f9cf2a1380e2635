/* names_text.c - records names, and reads the text of an answer backwards to find the one before a new one. */
#include "text/grammar/names_text.h"

#include <string.h>

#include "base/mem.h"

void names_text_close(struct names_text *t)
{
    if (t->cap)
        mem_free(t->text);
    mem_free(t->entry);
    mem_free(t->live);
    *t = (struct names_text){0};
}

bool names_text_reserve(struct names_text *t, size_t n)
{
    return t->n + n <= t->cap ||
           (t->n + n < UINT32_MAX / 2 && mem_grow((void **)&t->text, &t->cap, t->n + n, 1, MEM_TEXT));
}

void names_text_cut(struct names_text *t, size_t n)
{
    while (t->n_entries > 0 && t->entry[t->n_entries - 1].end >= n)
        t->n_entries--;
    if (t->open > n)
        t->open = 0;
    t->n = n;
}

bool names_text_is_escaped(const struct names_text *t, size_t at)
{
    size_t n = 0;

    while (n < at && t->text[at - 1 - n] == '\\')
        n++;
    return n % 2 == 1;
}

size_t names_text_begin(const struct names_text *t, size_t end)
{
    const char *quote = end ? memrchr(t->text, '"', end) : NULL;

    while (quote && names_text_is_escaped(t, (size_t)(quote - t->text)))
        quote = quote > t->text ? memrchr(t->text, '"', (size_t)(quote - t->text)) : NULL;
    return quote ? (size_t)(quote - t->text) + 1 : 0;
}

/* Returns 1 + index of the record of the name that begins at AT; 0: it is not recorded. */
static uint32_t find(const struct names_text *t, size_t at)
{
    size_t low = 0, high = t->n_entries;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (t->entry[middle].at < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->n_entries && t->entry[low].at == at ? (uint32_t)low + 1 : 0;
}

/* Reads backwards from the quote before AT to the last recorded name in the same object or array. */
static uint32_t read_back(const struct names_text *t, size_t at, size_t *n_read)
{
    size_t depth = 0, from = at;
    bool is_done = false;
    uint32_t found = 0;

    for (at = at ? at - 1 : 0; at > 0 && !found && !is_done;)
        switch (t->text[--at]) {
        case '"':
            at = names_text_begin(t, at);
            found = depth == 0 ? find(t, at) : 0;
            at = at ? at - 1 : 0;
            break;
        case '}':
        case ']': depth++; break;
        case '{':
        case '[':
            is_done = depth == 0;
            depth--;
            break;
        default: break;
        }
    *n_read += from - at;
    return found;
}

uint32_t names_text_before(struct names_text *t, size_t at, size_t *n_read)
{
    uint32_t older;

    if (at == t->open && at > 0)
        return t->open_older;
    older = read_back(t, at, n_read);
    if (at <= t->n) { /* the text before AT is not a trial */
        t->open = (uint32_t)at;
        t->open_older = older;
    }
    return older;
}

bool names_text_add(struct names_text *t, size_t at, size_t end, uint32_t older)
{
    if (!mem_grow((void **)&t->entry, &t->cap_entries, t->n_entries + 1, sizeof(*t->entry), MEM_TEXT))
        return false;
    t->entry[t->n_entries++] = (struct names_entry){(uint32_t)at, (uint32_t)end, older,
                                                    memchr(t->text + at, '\\', end - at) != NULL};
    return true;
}

/* ---- values of names ---- */

int names_value_next(const struct names_text *t, struct names_value *v)
{
    while (v->i == v->n) {
        if (v->at == v->end)
            return -1;
        v->i = 0;
        v->n = (uint8_t)json_names_decode(&v->decoder, (uint8_t)t->text[v->at++], v->byte);
    }
    return (uint8_t)v->byte[v->i++];
}

bool names_value_begins(const struct names_text *t, const struct names_entry *e, size_t at, size_t end,
                        struct names_value *rest)
{
    struct names_value v = {.at = at, .end = end};
    int byte;

    *rest = (struct names_value){.at = e->at, .end = e->end};
    while ((byte = names_value_next(t, &v)) >= 0)
        if (names_value_next(t, rest) != byte)
            return false;
    return true;
}

bool names_value_occurs(const struct names_text *t, uint32_t e, size_t at, size_t end, size_t *n)
{
    bool has_escape = memchr(t->text + at, '\\', end - at) != NULL;

    for (; e; e = t->entry[e - 1].older) {
        const struct names_entry *x = &t->entry[e - 1];
        struct names_value rest;

        ++*n;
        if (!has_escape && !x->has_escape) {
            if (x->end - x->at == end - at && memcmp(t->text + x->at, t->text + at, end - at) == 0)
                return true;
        } else if (names_value_begins(t, x, at, end, &rest) && names_value_next(t, &rest) < 0) {
            return true;
        }
    }
    return false;
}
