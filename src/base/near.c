/* near.c - the Damerau-Levenshtein distance (optimal string alignment) of short words. */
#include "base/near.h"

#include <ctype.h>
#include <string.h>

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static char lower(char c)
{
    return c == '_' ? '-' : (char)tolower((unsigned char)c);
}

/* Returns the number of edits from A to B. Case is ignored, and hyphens equal underscores. */
static size_t distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
    size_t row[3][NEAR_MAX_BYTES + 1]; /* the previous two rows of the table, and the current row */

    for (size_t j = 0; j <= n_b; j++)
        row[1][j] = j;
    for (size_t i = 1; i <= n_a; i++) {
        row[2][0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            size_t other = lower(a[i - 1]) != lower(b[j - 1]);

            row[2][j] = least(row[1][j - 1] + other, least(row[1][j], row[2][j - 1]) + 1);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]))
                row[2][j] = least(row[2][j], row[0][j - 2] + 1);
        }
        memcpy(row[0], row[1], sizeof(row[0]));
        memcpy(row[1], row[2], sizeof(row[1]));
    }
    return row[1][n_b];
}

void near_begin(struct near *n, const char *word, size_t len)
{
    *n = (struct near){.word = word, .len = len};
}

void near_offer(struct near *n, const char *name, size_t len)
{
    size_t edits;

    if (n->len < 2 || n->len > NEAR_MAX_BYTES || len > NEAR_MAX_BYTES)
        return;
    edits = distance(n->word, n->len, name, len);
    /* a third of the letters may differ, or one of two letters */
    if (edits > n->len / 3 + (n->len == 2) || (n->name && edits >= n->edits))
        return;
    n->edits = edits;
    n->name = name;
    n->name_len = len;
}

void near_offer_list(struct near *n, const char *names)
{
    for (const char *p = names;; p++) {
        size_t len = strcspn(p, "|");

        near_offer(n, p, len);
        p += len;
        if (!*p)
            return;
    }
}
