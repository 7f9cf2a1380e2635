/* test_history.c - the history of earlier sequences finds what a search through them finds, while chunks are
 * overwritten, and never a token of another realm. */
#include "engine/guess/history.h"

#include "check.h"
#include "help.h"

enum { MAX_CHUNKS = 4000, MAX_TOKENS = 2000, N_PLACES = 16, N_NEXT = 6 };

static const uint64_t realm[2][2] = {{1, 2}, {1, 3}};

/* A sequence of the test. */
struct text {
    struct history_writer writer;
    int32_t token[MAX_TOKENS];
    size_t n, n_skipped;
};

/* All chunks that were written, in order, by the words of history.h. */
struct ring {
    struct {
        struct text *text;
        size_t from, n;
    } chunk[MAX_CHUNKS];
    size_t n, n_lost; /* chunks before n_lost were overwritten or erased */
};

static void write_text(struct history *h, struct ring *r, struct text *t, bool ends)
{
    size_t from = t->writer.n_written;

    history_write(h, &t->writer, t->token, t->n, ends);
    for (; t->n - from >= HISTORY_CHUNK || (ends && from < t->n); r->n++) {
        r->chunk[r->n].text = t;
        r->chunk[r->n].from = from;
        r->chunk[r->n].n = t->n - from < HISTORY_CHUNK ? t->n - from : HISTORY_CHUNK;
        from += r->chunk[r->n].n;
    }
    assert_true(r->n < MAX_CHUNKS);
    assert_int_equal(t->writer.n_written, from);
    if (r->n > h->n_chunks + r->n_lost)
        r->n_lost = r->n - h->n_chunks;
}

/* Returns whether token I of T is in the ring. */
static bool is_there(const struct ring *r, const struct text *t, size_t i)
{
    for (size_t c = r->n_lost; c < r->n; c++)
        if (r->chunk[c].text == t && i >= r->chunk[c].from && i < r->chunk[c].from + r->chunk[c].n)
            return true;
    return false;
}

/* Compares a search for the last tokens of T with a search through the ring. */
static size_t assert_equals_search(const struct history *h, const struct ring *r, const struct text *t,
                                   size_t most)
{
    struct history_place place[N_PLACES];
    size_t n_places, found, best = 0, n = 0;

    struct {
        const struct text *text;
        size_t at;
    } want[N_PLACES];

    for (size_t c = r->n; c-- > r->n_lost;)
        for (size_t i = r->chunk[c].n; i-- > 0;) {
            const struct text *x = r->chunk[c].text;
            size_t at = r->chunk[c].from + i, k = 0;

            if (x == t || memcmp(x->writer.realm, t->writer.realm, sizeof(x->writer.realm)) != 0 ||
                h->n_sequences - x->writer.sequence >= h->max_sequences)
                continue;
            while (k < most && k < t->n && k <= at && is_there(r, x, at - k) &&
                   x->token[at - k] == t->token[t->n - 1 - k])
                k++;
            if (k < HISTORY_SHORT || k < best)
                continue;
            n = k > best ? 0 : n;
            best = k;
            if (n < N_PLACES) {
                want[n].text = x;
                want[n++].at = at;
            }
        }
    found = history_find(h, &t->writer, t->token, t->n, most, place, N_PLACES, &n_places);
    assert_int_equal(found, best);
    assert_int_equal(n_places, n);
    for (size_t p = 0; p < n; p++)
        for (size_t k = 1; k <= N_NEXT; k++) {
            bool more = want[p].at + k < want[p].text->n && is_there(r, want[p].text, want[p].at + k);
            int32_t token = -1;

            assert_int_equal(history_next(h, &place[p], &token), more);
            if (!more)
                break;
            assert_int_equal(token, want[p].text->token[want[p].at + k]);
        }
    return best;
}

/* Interleaves sequences of two realms in a small ring, which is overwritten several times. */
static void found_is_what_a_search_finds(struct check_rng *g, size_t max_sequences, size_t most)
{
    enum { N = 60, RUNNING = 7 };
    static struct text text[N];
    static struct ring ring;
    struct history h;
    size_t n_found = 0, begun = 0, running[RUNNING], n_running = 0;

    ring.n = ring.n_lost = 0;
    assert_int_equal(history_open(&h, HISTORY_MIN_BYTES, max_sequences, check_u32(g), NULL), 0);
    while (begun < N || n_running) {
        size_t i = check_below(g, RUNNING);
        struct text *t;

        if (i >= n_running) {
            if (begun == N)
                continue;
            running[n_running] = begun++;
            t = &text[running[n_running++]];
            t->n = 0;
            t->n_skipped = check_below(g, 4) ? 0 : 10;
            t->writer = history_writer(realm[check_below(g, 2)], t->n_skipped);
        } else {
            t = &text[running[i]];
        }
        for (size_t k = 10 + check_below(g, 40); k > 0; k--)
            t->token[t->n++] = (int32_t)check_below(g, 16);
        if (check_below(g, 2))
            for (size_t from = check_below(g, t->n), k = 0; k < 20 && begun > 1; k++)
                t->token[t->n++] = text[0].token[(from + k) % text[0].n];
        if (i < n_running && (check_below(g, 8) == 0 || t->n + 100 > MAX_TOKENS)) {
            write_text(&h, &ring, t, true);
            running[i] = running[--n_running];
        } else {
            write_text(&h, &ring, t, false);
        }
        n_found += assert_equals_search(&h, &ring, t, most) > 0;
    }
    assert_true(max_sequences == 0 || most < HISTORY_SHORT ? n_found == 0 : n_found > 10);
    assert_true(ring.n > 2 * h.n_chunks);
    history_close(&h);
}

static void any_history_has_the_matches_of_a_search(void **state)
{
    struct check_rng g = {1};

    for (size_t round = 0; round < 4; round++)
        found_is_what_a_search_finds(&g, HISTORY_MAX_SEQUENCES, 24);
    found_is_what_a_search_finds(&g, 5, 24);
    found_is_what_a_search_finds(&g, 1, 64);
    found_is_what_a_search_finds(&g, 0, 24);
    found_is_what_a_search_finds(&g, HISTORY_MAX_SEQUENCES, HISTORY_LONG - 1);
    found_is_what_a_search_finds(&g, HISTORY_MAX_SEQUENCES, HISTORY_SHORT);
    found_is_what_a_search_finds(&g, HISTORY_MAX_SEQUENCES, HISTORY_SHORT - 1);
}

/* Writes N tokens of REALM_NUMBER that count up from FROM as a sequence that has ended. */
static void write_counting(struct history *h, size_t realm_number, int32_t from, size_t n)
{
    struct history_writer w = history_writer(realm[realm_number], 0);
    int32_t token[100];

    for (size_t i = 0; i < n; i++)
        token[i] = from + (int32_t)i;
    history_write(h, &w, token, n, true);
}

/* Returns the length of the longest match of 5 tokens that count up from FROM. */
static size_t find_counting(const struct history *h, size_t realm_number, int32_t from)
{
    const int32_t token[] = {from, from + 1, from + 2, from + 3, from + 4};
    struct history_writer w = history_writer(realm[realm_number], 0);
    struct history_place place[N_PLACES];
    size_t n;

    return history_find(h, &w, token, 5, 24, place, N_PLACES, &n);
}

static void a_realm_sees_nothing_of_another(void **state)
{
    struct history h;

    assert_int_equal(history_open(&h, HISTORY_MIN_BYTES, HISTORY_MAX_SEQUENCES, 0, NULL), 0);
    write_counting(&h, 0, 1000, 100);
    assert_int_equal(find_counting(&h, 0, 1050), 5);
    assert_int_equal(find_counting(&h, 1, 1050), 0);
    write_counting(&h, 1, 1040, 13);
    assert_int_equal(find_counting(&h, 1, 1048), 5);
    assert_int_equal(find_counting(&h, 1, 1049), 0);
    history_close(&h);
}

static void a_text_of_one_token_is_found_in_bounded_steps(void **state)
{
    static const int32_t token[5000];
    struct history h;
    struct history_writer w = history_writer(realm[0], 0), other = history_writer(realm[0], 0);
    struct history_place place[N_PLACES];
    size_t n;

    assert_int_equal(history_open(&h, HISTORY_MIN_BYTES, HISTORY_MAX_SEQUENCES, 0, NULL), 0);
    history_write(&h, &w, token, 5000, true);
    assert_int_equal(history_find(&h, &other, token, 100, 24, place, N_PLACES, &n), 24);
    assert_int_equal(n, N_PLACES);
    assert_int_equal(history_find(&h, &other, token, 2, 24, place, N_PLACES, &n), 0);
    assert_int_equal(history_find(&h, &other, token, 0, 24, place, N_PLACES, &n), 0);
    assert_int_equal(history_find(&h, &w, token, 100, 24, place, N_PLACES, &n), 0); /* its own */
    history_close(&h);
}

static void the_default_size_holds_three_million_tokens(void **state)
{
    struct history h;

    assert_int_equal(history_open(&h, HISTORY_BYTES, HISTORY_MAX_SEQUENCES, 0, NULL), 0);
    assert_true(history_capacity(&h) > 3000000 && history_capacity(&h) < 4000000);
    history_close(&h);
    history_close(&h);
}

static int open_history(void *arg, struct err *e)
{
    struct history h;
    int rc = history_open(&h, HISTORY_MIN_BYTES, 1, 0, e);

    history_close(&h);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    help_every_allocation(open_history, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_history_has_the_matches_of_a_search),
        cmocka_unit_test(a_realm_sees_nothing_of_another),
        cmocka_unit_test(a_text_of_one_token_is_found_in_bounded_steps),
        cmocka_unit_test(the_default_size_holds_three_million_tokens),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
