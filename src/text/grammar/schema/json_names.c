/* json_names.c - decodes escapes, and counts names by a search through the states of their expression. */
#include "text/grammar/schema/json_names.h"

#include <string.h>

#include "base/utf8.h"

enum { BEHIND_BACKSLASH = 1, FIRST_DIGIT = 2, LAST_DIGIT = 5 };

/* MOST_VISITS: states of one count. VISIT_STEPS: a visit takes as long as this number of steps. */
enum { MOST_VISITS = 20000, VISIT_STEPS = 8 };

static const char letters[] = "\"\\/bfnrt", characters[] = "\"\\/\b\f\n\r\t";

/* Ends the escape of the number d->value. */
static size_t end_escape(struct json_names_decoder *d, char *out)
{
    uint32_t c = d->value;

    d->part = 0;
    if (c >= 0xd800 && c < 0xdc00) {
        d->high = (uint16_t)c;
        return 0;
    }
    if (d->high && c >= 0xdc00 && c < 0xe000)
        c = 0x10000 + ((uint32_t)(d->high - 0xd800) << 10) + (c - 0xdc00);
    d->high = 0;
    d->is_odd = d->is_odd || c >= ' ' || memchr(characters, (int)c, sizeof(characters) - 1);
    return utf8_encode(c, out);
}

bool json_names_fits(const struct json_names_decoder *d, uint8_t byte)
{
    if (d->part == 0)
        return !d->high || byte == '\\';
    if (d->part == BEHIND_BACKSLASH)
        return byte == 'u' || (!d->high && byte && strchr(letters, byte));
    return utf8_hex_digit((char)byte) >= 0;
}

size_t json_names_decode(struct json_names_decoder *d, uint8_t byte, char *out)
{
    const char *letter;

    if (d->part == 0) {
        if (byte == '\\') {
            d->part = BEHIND_BACKSLASH;
            return 0;
        }
        out[0] = (char)byte;
        return 1;
    }
    if (d->part == BEHIND_BACKSLASH) {
        d->part = byte == 'u' ? FIRST_DIGIT : 0;
        d->value = 0;
        letter = byte ? strchr(letters, byte) : NULL;
        if (byte == 'u' || !letter)
            return 0;
        d->is_odd = d->is_odd || byte == '/';
        out[0] = characters[letter - letters];
        return 1;
    }
    d->is_odd = d->is_odd || (byte >= 'A' && byte <= 'F');
    d->value = (uint16_t)((unsigned)d->value << 4 | (unsigned)(utf8_hex_digit((char)byte) & 15));
    if (d->part == LAST_DIGIT)
        return end_escape(d, out);
    d->part++;
    return 0;
}

/* A count of names. */
struct count {
    struct regex_store *s;
    size_t n, most, n_visits;
    size_t depth;
};

/* Adds the canonical names whose rest, behind the state D, STATE matches. */
static void add_names(struct count *c, uint32_t state, struct json_names_decoder d)
{
    struct regex_set first;
    char out[4];

    if (++c->n_visits > MOST_VISITS || c->depth > JSON_NAMES_LONGEST || !regex_charge(c->s, VISIT_STEPS)) {
        c->n = c->most + 1;
        return;
    }
    if (json_names_is_whole(&d) && regex_matches_empty(c->s, state))
        c->n++;
    regex_first(c->s, state, &first);
    for (unsigned byte = 0; byte < 256 && c->n <= c->most; byte++) {
        struct json_names_decoder after = d;
        uint32_t to =
            regex_set_has(&first, (uint8_t)byte) ? regex_next(c->s, state, (uint8_t)byte) : REGEX_NOTHING;

        if (to == REGEX_NOTHING)
            continue;
        json_names_decode(&after, (uint8_t)byte, out);
        c->depth++;
        if (!after.is_odd)
            add_names(c, to, after);
        c->depth--;
    }
}

size_t json_names_count(struct regex_store *s, uint32_t contents, size_t most)
{
    struct count c = {.s = s, .most = most};

    add_names(&c, contents, (struct json_names_decoder){0});
    return c.n <= most ? c.n : most + 1;
}
