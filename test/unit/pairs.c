/* pairs.c - see pairs.h. Each row begins with a required part - a combination of the dimensions that are
 * tested completely, or the first missing pair - and takes in each other dimension the value that adds most
 * missing pairs. */
#include "pairs.h"

enum { OPEN = SIZE_MAX }; /* marks a dimension without a value */

struct cover {
    /* the number of values, and the index of the first one among all */
    size_t size[PAIRS_DIMENSIONS], first[PAIRS_DIMENSIONS];
    size_t n, n_values;
    bool *seen; /* [n_values, n_values]: some row has the pair */
    struct pairs_row *row;
    size_t n_rows;
};

static bool *seen(const struct cover *c, size_t d, size_t value, size_t e, size_t other)
{
    size_t a = c->first[d] + value, b = c->first[e] + other;

    return &c->seen[d < e ? a * c->n_values + b : b * c->n_values + a];
}

/* Returns how many missing pairs VALUE of D would add to ROW. */
static size_t brings(const struct cover *c, const struct pairs_row *row, size_t d, size_t value)
{
    size_t n = 0;

    for (size_t e = 0; e < c->n; e++)
        n += e != d && row->at[e] != OPEN && !*seen(c, d, value, e, row->at[e]);
    return n;
}

/* Fills the free dimensions of ROW, and keeps the row. */
static void add(struct cover *c, struct pairs_row row)
{
    for (size_t d = 0; d < c->n; d++) {
        size_t best = c->n_rows % c->size[d], most = 0; /* where no pair is missing, the values take turns */

        for (size_t value = 0; row.at[d] == OPEN && value < c->size[d]; value++)
            if (brings(c, &row, d, value) > most) {
                best = value;
                most = brings(c, &row, d, value);
            }
        row.at[d] = row.at[d] == OPEN ? best : row.at[d];
    }
    for (size_t d = 0; d < c->n; d++)
        for (size_t e = d + 1; e < c->n; e++)
            *seen(c, d, row.at[d], e, row.at[e]) = true;
    c->row = realloc(c->row, (c->n_rows + 1) * sizeof(*c->row));
    assert_non_null(c->row);
    c->row[c->n_rows++] = row;
}

static void add_whole(struct cover *c, struct pairs_row row, unsigned whole, size_t d)
{
    while (d < c->n && !(whole >> d & 1))
        d++;
    for (size_t value = 0; d < c->n && value < c->size[d]; value++) {
        row.at[d] = value;
        add_whole(c, row, whole, d + 1);
    }
    if (d == c->n)
        add(c, row);
}

static int in_order(const void *a, const void *b)
{
    const struct pairs_row *x = a, *y = b;

    for (size_t d = 0; d < PAIRS_DIMENSIONS; d++)
        if (x->at[d] != y->at[d])
            return x->at[d] < y->at[d] ? -1 : 1;
    return 0;
}

struct pairs_row *pairs_cover(const size_t *size, size_t n, unsigned whole, size_t *n_rows)
{
    struct cover c = {.n = n};
    struct pairs_row open = {{0}};

    assert_true(n <= PAIRS_DIMENSIONS);
    for (size_t d = 0; d < n; d++) {
        assert_true(size[d] > 0);
        c.size[d] = size[d];
        c.first[d] = c.n_values;
        c.n_values += size[d];
        open.at[d] = OPEN;
    }
    assert_non_null(c.seen = calloc(c.n_values * c.n_values, sizeof(*c.seen)));
    if (whole)
        add_whole(&c, open, whole, 0);
    for (size_t d = 0; d < n; d++)
        for (size_t e = d + 1; e < n; e++)
            for (size_t k = 0; k < size[d] * size[e]; k++)
                if (!*seen(&c, d, k / size[e], e, k % size[e])) {
                    struct pairs_row row = open;

                    row.at[d] = k / size[e];
                    row.at[e] = k % size[e];
                    add(&c, row);
                }
    free(c.seen);
    qsort(c.row, c.n_rows, sizeof(*c.row), in_order);
    *n_rows = c.n_rows;
    return c.row;
}
