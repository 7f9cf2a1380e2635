/* token_masks.c - finds allowed tokens by walks over the trie, and caches the results. A walk follows the
 * states of one regular expression, or the rows of the recognizer. */
#include "text/grammar/token_masks.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum {
    NODES_OF_STEP = 32,  /* nodes of the trie that are visited in the time of a step */
    MOST_KEPT = 8 << 20, /* bytes of cached masks of rows */
    WIDE = 24,           /* minimum number of first bytes of a state whose walk is cached */
    SMALL_PART =
        1024, /* a walk based on another one visits at most so many nodes and an eighth of the trie */
};

/* A set of tokens: a list if the list is shorter than one bit per token, otherwise bits. */
struct token_masks_set {
    uint32_t *word; /* [n] tokens, or [words] words of bits; owned */
    size_t n;       /* number of tokens */
    bool is_list;
};

/* A token or trie node, and the number of repetitions that begin on the path to it. */
struct counted {
    uint32_t number, count;
};

struct counted_list {
    struct counted *of; /* [n] */
    size_t n, cap;
};

/* The state of a walk at a node of its path from the root. */
struct token_masks_place {
    uint32_t state; /* the row or, inside a regular expression, the state of the expression */
    uint32_t node;  /* the node, or the table of edges of STATE */
    uint32_t count; /* number of repetitions, or the state of the base walk */
    bool is_open;   /* the text is inside P or A of P A{least,most} Q: see token_masks_term */
};

/* The tokens that a state of a regular expression allows. States P A{least,most} Q that differ only in the
 * bounds share one record: its walk counts how often A begins. */
struct token_masks_term {
    /* Tokens after which the text is inside the expression or at its end. */
    struct token_masks_set inside;
    /* [n_ends] nodes at which the expression may end, in order. Nodes below such a node are omitted. */
    uint32_t *end;
    size_t n_ends;
    bool is_walked;   /* the members above are set */
    bool is_borrowed; /* the members above belong to a token_masks_walk */
    /* Whether the members below are set. NOT_COUNTABLE: the expressions A and Q of P A* Q can begin with the same
     * bytes, so that each state of the expression needs a walk of its own. */
    enum { NOT_COUNTED, COUNTED, NOT_COUNTABLE } counting;
    struct counted_list open;   /* tokens that end inside P or A, sorted by count */
    struct counted_list closed; /* tokens that end inside Q or at its end */
    struct counted_list ends;   /* nodes at which the expression may end */
};

static void no_memory(struct token_masks *m)
{
    struct regex_store *s = &m->r->g->regex;

    if (s->fault == REGEX_FINE)
        s->fault = REGEX_NO_MEMORY;
}

/* ---- sets ---- */

static inline void set_bit(uint32_t *bits, uint32_t id)
{
    bits[id / 32] |= UINT32_C(1) << id % 32;
}

static void set_bits(const struct token_masks *m, const struct token_trie_node *x, uint32_t *bits)
{
    int32_t id = x->token;

    set_bit(bits, (uint32_t)id);
    while (x->has_more && (id = m->trie->same[id]) >= 0)
        set_bit(bits, (uint32_t)id);
}

static size_t count_bits(const uint32_t *bits, size_t words)
{
    size_t n = 0;

    for (size_t i = 0; i < words; i++)
        n += (size_t)__builtin_popcount(bits[i]);
    return n;
}

/* Sets the bits of the tokens of X in BITS. */
static void join_set(const struct token_masks_set *x, uint32_t *bits, size_t words)
{
    if (x->is_list)
        for (size_t i = 0; i < x->n; i++)
            set_bit(bits, x->word[i]);
    else
        for (size_t i = 0; i < words; i++)
            bits[i] |= x->word[i];
}

/* Stores BITS as a set. Returns the allocated bytes. */
static size_t keep_set(struct token_masks *m, const uint32_t *bits, struct token_masks_set *out)
{
    size_t at = 0;

    out->n = count_bits(bits, m->words);
    out->is_list = out->n < m->words;
    out->word = mem_alloc((out->is_list ? out->n + 1 : m->words) * sizeof(*out->word), MEM_TEXT);
    if (!out->word) {
        no_memory(m);
        *out = (struct token_masks_set){.is_list = true};
        return 0;
    }
    if (!out->is_list)
        memcpy(out->word, bits, m->words * sizeof(*bits));
    for (size_t i = 0; out->is_list && i < m->words; i++)
        for (uint32_t rest = bits[i]; rest; rest &= rest - 1)
            out->word[at++] = (uint32_t)(32 * i) + (uint32_t)__builtin_ctz(rest);
    return (out->is_list ? out->n + 1 : m->words) * sizeof(*out->word);
}

/* ---- walks ---- */

/* Walks from ROW over the subtrees of the nodes [first, end). Sets the bits of the allowed tokens. */
static void walk_rows(struct token_masks *m, uint32_t first, uint32_t end, uint32_t row, uint32_t *bits)
{
    struct regex_store *s = &m->r->g->regex;
    size_t n = 0;

    for (uint32_t i = first; i < end && s->fault == REGEX_FINE; n++) {
        const struct token_trie_node *x = &m->trie->node[i];
        struct token_masks_place *at = &m->path[x->depth];

        at->state = i == first ? row : at->state;
        row = recognizer_next(m->r, at->state, x->byte);
        if (row == RECOGNIZER_DEAD) {
            i += x->skip;
            continue;
        }
        at[1].state = row;
        if (x->token >= 0)
            set_bits(m, x, bits);
        i++;
    }
    regex_charge(s, n / NODES_OF_STEP);
}

/* Appends node I to the nodes at which the expression may end. */
static void add_end(struct token_masks *m, struct token_masks_term *out, size_t *cap, uint32_t i)
{
    if (mem_grow((void **)&out->end, cap, out->n_ends + 1, sizeof(*out->end), MEM_TEXT))
        out->end[out->n_ends++] = i;
    else
        no_memory(m);
}

/* Frees the results of a walk that was not completed. */
static void forget_walk(struct token_masks_term *t)
{
    mem_free(t->inside.word);
    mem_free(t->end);
    t->inside = (struct token_masks_set){0};
    t->end = NULL;
    t->n_ends = 0;
}

/* Completes OUT after a walk: m->bits are its tokens, and CAP is the allocated size of OUT->end. False after
 * a fault. */
static bool end_walk(struct token_masks *m, struct token_masks_term *out, size_t cap)
{
    struct regex_store *s = &m->r->g->regex;
    size_t bytes = s->fault == REGEX_FINE ? keep_set(m, m->bits, &out->inside) : 0;

    if (s->fault == REGEX_FINE)
        s->bytes += bytes + cap * sizeof(*out->end);
    else
        forget_walk(out);
    return s->fault == REGEX_FINE;
}

/* Sets AT[1] to the state after BYTE, and returns it. REGEX_NOTHING: there is none, and AT[1] does not change. */
static inline uint32_t advance(struct regex_store *s, struct token_masks_place *at, uint8_t byte)
{
    uint32_t state = s->tables.table[at->node][byte];

    if (state == EDGES_UNKNOWN)
        state = regex_next(s, at->state, byte);
    if (state == REGEX_NOTHING)
        return state;
    at[1].state = state;
    at[1].node = at->node;
    if (state != at->state)
        at[1].node = regex_table(s, state);
    return state;
}

/* Walks over the whole trie inside the regular expression STATE, and sets the members of OUT before
 * IS_WALKED. */
static bool walk_term(struct token_masks *m, uint32_t state, struct token_masks_term *out)
{
    struct regex_store *s = &m->r->g->regex;
    const struct token_trie *t = m->trie;
    uint32_t below_end = 0;
    size_t cap = 0, n = 0;

    memset(m->bits, 0, m->words * sizeof(*m->bits));
    m->path[0] = (struct token_masks_place){.state = state, .node = regex_table(s, state)};
    for (uint32_t i = 0; i < t->n && s->fault == REGEX_FINE; n++) {
        const struct token_trie_node *x = &t->node[i];
        struct token_masks_place *at = &m->path[x->depth];

        state = advance(s, at, x->byte);
        if (state == REGEX_NOTHING) {
            i += x->skip;
            continue;
        }
        /* If a node has the state of its parent, the parent is an end too, and is already recorded. */
        if ((state != at->state || x->depth == 0) && i >= below_end && x->skip > 1 &&
            regex_matches_empty(s, state)) {
            add_end(m, out, &cap, i);
            below_end = i + x->skip;
        }
        if (x->token >= 0)
            set_bits(m, x, m->bits);
        i++;
    }
    regex_charge(s, n / NODES_OF_STEP);
    return end_walk(m, out, cap);
}

/* Appends those nodes in [first, end) at which the expression of BASE may end. */
static void add_base_ends(struct token_masks *m, struct token_masks_term *out, size_t *cap,
                          const struct token_masks_term *base, uint32_t first, uint32_t end)
{
    size_t low = 0, high = base->n_ends;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (base->end[middle] < first)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < base->n_ends && base->end[low] < end; low++)
        add_end(m, out, cap, base->end[low]);
}

static void clear_below(struct token_masks *m, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        const struct token_trie_node *x = &m->trie->node[i];

        for (int32_t id = x->token; id >= 0; id = x->has_more ? m->trie->same[id] : -1)
            m->bits[id / 32] &= ~(UINT32_C(1) << id % 32);
    }
}

/* Like walk_term(), but starts from the result BASE of the state BASE_STATE, and visits only nodes at which the two
 * states differ. False: too many nodes differ, and OUT has no result; or there is a fault. */
static bool walk_difference(struct token_masks *m, uint32_t state, uint32_t base_state,
                            const struct token_masks_term *base, struct token_masks_term *out)
{
    struct regex_store *s = &m->r->g->regex;
    const struct token_trie *t = m->trie;
    uint32_t below_end = 0, below_base_end = 0;
    size_t cap = 0, n_left = SMALL_PART + t->n / 8;

    memset(m->bits, 0, m->words * sizeof(*m->bits));
    join_set(&base->inside, m->bits, m->words);
    m->path[0] = (struct token_masks_place){.state = state, .count = base_state};
    for (uint32_t i = 0; i < t->n && n_left > 0 && s->fault == REGEX_FINE; n_left--) {
        const struct token_trie_node *x = &t->node[i];
        struct token_masks_place *at = &m->path[x->depth];
        uint32_t end = i + x->skip;

        state = regex_next(s, at->state, x->byte);
        base_state = regex_next(s, at->count, x->byte);
        if (state == base_state && (i >= below_base_end || i < below_end)) {
            if (i >= below_end)
                add_base_ends(m, out, &cap, base, i, end);
            i = end;
            continue;
        }
        if (state == REGEX_NOTHING) {
            clear_below(m, i, end);
            i = end;
            continue;
        }
        at[1].state = state;
        at[1].count = base_state;
        if (i >= below_base_end && regex_matches_empty(s, base_state))
            below_base_end = end;
        if (i >= below_end && x->skip > 1 && regex_matches_empty(s, state)) {
            add_end(m, out, &cap, i);
            below_end = end;
        }
        if (x->token >= 0)
            set_bits(m, x, m->bits);
        i++;
    }
    regex_charge(s, (SMALL_PART + t->n / 8 - n_left) / NODES_OF_STEP);
    if (n_left == 0)
        forget_walk(out);
    return n_left > 0 && end_walk(m, out, cap);
}

/* True if STATE and BASE have the same next state for most of some frequent bytes. */
static bool is_similar(struct regex_store *s, uint32_t state, uint32_t base)
{
    static const char sample[] = "eaZ 0_.\xe2";
    size_t n_equal = 0, n = sizeof(sample) - 1;

    for (size_t i = 0; i < n; i++) {
        uint32_t next = regex_next(s, state, (uint8_t)sample[i]);

        n_equal += next != REGEX_NOTHING && next == regex_next(s, base, (uint8_t)sample[i]);
    }
    return 2 * n_equal > n;
}

/* Sets the members of OUT before IS_WALKED for STATE, from a similar state or by a whole walk. False after a
 * fault. */
static bool find_term(struct token_masks *m, uint32_t state, struct token_masks_term *out)
{
    struct regex_store *s = &m->r->g->regex;

    for (size_t i = 0; i < m->n_bases && s->fault == REGEX_FINE; i++)
        if (is_similar(s, state, m->base[i]) &&
            walk_difference(m, state, m->base[i], &m->term[m->term_of[m->base[i]] - 1], out))
            return true;
    return s->fault == REGEX_FINE && walk_term(m, state, out);
}

static bool add_counted(struct token_masks *m, struct counted_list *list, uint32_t number, uint32_t count)
{
    if (!mem_grow((void **)&list->of, &list->cap, list->n + 1, sizeof(*list->of), MEM_TEXT)) {
        no_memory(m);
        return false;
    }
    list->of[list->n++] = (struct counted){number, count};
    return true;
}

/* Adds the tokens whose text ends at node X, with COUNT, to LIST. */
static bool add_tokens(struct token_masks *m, struct counted_list *list, const struct token_trie_node *x,
                       uint32_t count)
{
    bool fine = true;

    for (int32_t id = x->token; id >= 0 && fine; id = m->trie->same[id])
        fine = add_counted(m, list, (uint32_t)id, count);
    return fine;
}

/* Sorts LIST by count (counting sort); no count exceeds the longest token's length. */
static bool sort_counted(struct token_masks *m, struct counted_list *list)
{
    size_t *place = mem_zalloc(m->trie->depth + 2, sizeof(*place), MEM_TEXT);
    struct counted *sorted = mem_alloc((list->n + 1) * sizeof(*sorted), MEM_TEXT);
    bool fine = place && sorted;

    for (size_t i = 0; i < list->n && fine; i++)
        place[list->of[i].count + 1]++;
    for (size_t c = 1; c <= m->trie->depth && fine; c++)
        place[c] += place[c - 1];
    for (size_t i = 0; i < list->n && fine; i++)
        sorted[place[list->of[i].count]++] = list->of[i];
    mem_free(place);
    if (!fine) {
        mem_free(sorted);
        no_memory(m);
        return false;
    }
    mem_free(list->of);
    *list = (struct counted_list){sorted, list->n, list->n + 1};
    return true;
}

/* True if the transition from the state FROM by BYTE shows how often A begins in LOOP, which is A* Q. States
 * inside P or A are open. A closed state must not become open, and if FROM is LOOP and the next state is
 * open, BYTE must begin an A. */
static bool is_countable(struct regex_store *s, uint32_t from, bool was_open, bool is_open, uint32_t loop,
                         uint32_t element, uint8_t byte)
{
    if (is_open && !was_open)
        return false;
    return !is_open || from != loop || regex_next(s, element, byte) != REGEX_NOTHING;
}

/* Walks over the whole trie inside STATE, which is P A* Q. LOOP is A* Q, and ELEMENT is A. Counts how often A
 * begins. False: the count is ambiguous, or there is a fault. */
static bool count_term(struct token_masks *m, uint32_t state, uint32_t loop, uint32_t element,
                       struct token_masks_term *out)
{
    struct regex_store *s = &m->r->g->regex;
    const struct token_trie *t = m->trie;
    uint32_t below_end = 0;
    bool is_open = true;

    m->path[0] = (struct token_masks_place){state, regex_table(s, state), .count = 0, .is_open = true};
    if (!regex_leads_to(s, state, loop, &is_open))
        return false;
    regex_charge(s, t->n / 16);
    for (uint32_t i = 0; i < t->n && s->fault == REGEX_FINE;) {
        const struct token_trie_node *x = &t->node[i];
        struct token_masks_place *at = &m->path[x->depth];

        state = advance(s, at, x->byte);
        if (state == REGEX_NOTHING) {
            i += x->skip;
            continue;
        }
        if (!regex_leads_to(s, state, loop, &is_open) ||
            !is_countable(s, at->state, at->is_open, is_open, loop, element, x->byte))
            return false;
        at[1].is_open = is_open;
        at[1].count = at->count + (is_open && at->state == loop);
        if (x->token >= 0 && !add_tokens(m, is_open ? &out->open : &out->closed, x, at[1].count))
            return false;
        if (i >= below_end && x->skip > 1 && regex_matches_empty(s, state)) {
            if (!add_counted(m, &out->ends, i, at[1].count))
                return false;
            /* inside the repetition, nodes below this one are ends too, with other counts */
            below_end = is_open ? below_end : i + x->skip;
        }
        i++;
    }
    if (s->fault != REGEX_FINE || !sort_counted(m, &out->open))
        return false;
    s->bytes += (out->open.cap + out->closed.cap + out->ends.cap) * sizeof(struct counted);
    return true;
}

static void forget_counts(struct token_masks_term *t)
{
    mem_free(t->open.of);
    mem_free(t->closed.of);
    mem_free(t->ends.of);
    t->open = t->closed = t->ends = (struct counted_list){0};
}

/* Grows the list NUMBER [cap] by zeros until it has element I. False: memory ran out. */
static bool reach(uint32_t **number, size_t *cap, uint32_t i)
{
    size_t before = *cap;

    if (!mem_grow((void **)number, cap, (size_t)i + 1, sizeof(**number), MEM_TEXT))
        return false;
    memset(*number + before, 0, (*cap - before) * sizeof(**number));
    return true;
}

/* Returns the record of STATE, which is created if it does not exist yet. NULL after a fault. */
static struct token_masks_term *record_of(struct token_masks *m, uint32_t state)
{
    if (!reach(&m->term_of, &m->cap_states, state) ||
        !mem_grow((void **)&m->term, &m->cap_terms, m->n_terms + 1, sizeof(*m->term), MEM_TEXT)) {
        no_memory(m);
        return NULL;
    }
    if (!m->term_of[state]) {
        m->term[m->n_terms] = (struct token_masks_term){0};
        m->term_of[state] = (uint32_t)++m->n_terms;
    }
    return &m->term[m->term_of[state] - 1];
}

/* Returns the record of STATE with the results of its walk. NULL after a fault. */
static const struct token_masks_term *term_of(struct token_masks *m, uint32_t state)
{
    struct token_masks_term *t = record_of(m, state);

    if (t && !t->is_walked && !find_term(m, state, t))
        return NULL;
    if (t)
        t->is_walked = true;
    return t;
}

/* Returns the record shared by STATE and all states that differ from it only in the bounds of their
 * repetition, and sets *C to the bounds of STATE. NULL: STATE has no such repetition, its repetitions cannot
 * be counted, or there is a fault. */
static const struct token_masks_term *counted_term_of(struct token_masks *m, uint32_t state,
                                                      struct regex_counter *c)
{
    struct regex_store *s = &m->r->g->regex;
    struct token_masks_term *t;
    uint32_t loop;

    if (!regex_counter(s, state, c) || (c->least == 0 && c->most == REGEX_NO_LIMIT))
        return NULL;
    state = regex_without_counts(s, state, &loop);
    t = s->fault == REGEX_FINE && state != REGEX_NOTHING ? record_of(m, state) : NULL;
    if (t && t->counting == NOT_COUNTED) {
        t->counting = count_term(m, state, loop, c->element, t) ? COUNTED : NOT_COUNTABLE;
        if (t->counting == NOT_COUNTABLE)
            forget_counts(t);
        if (s->fault != REGEX_FINE) /* the result is not known after a fault */
            t->counting = NOT_COUNTED;
    }
    return t && t->counting == COUNTED ? t : NULL;
}

/* Continues the walk below the nodes END [n], at which a regular expression of ROW may end. Rows of the path
 * that successive nodes share are computed once. */
static void walk_ends(struct token_masks *m, uint32_t row, const uint32_t *end, size_t n, uint32_t *bits)
{
    const struct token_trie_node *node = m->trie->node;
    struct token_masks_place *path = m->path;
    size_t known =
        0; /* the states of path[1 .. known] are the rows after the nodes of path[0 .. known - 1] */

    path[0].state = row;
    for (size_t i = 0; i < n && regex_charge(&m->r->g->regex, i % 4 == 0); i++) {
        size_t depth = node[end[i]].depth + 1u, shared = 0;
        uint32_t at = end[i];

        for (size_t d = depth; d > 0; d--, at = node[at].parent) {
            if (d <= known && path[d - 1].node == at) {
                shared = d;
                break;
            }
            path[d - 1].node = at;
        }
        for (size_t d = shared; d < depth; d++)
            path[d + 1].state = recognizer_next(m->r, path[d].state, node[path[d].node].byte);
        known = depth;
        if (path[depth].state != RECOGNIZER_DEAD)
            walk_rows(m, end[i] + 1, end[i] + node[end[i]].skip, path[depth].state, bits);
    }
}

/* Sets the bits of the tokens that the record T allows within the bounds C. */
static void add_counted_term(struct token_masks *m, uint32_t row, const struct token_masks_term *t,
                             const struct regex_counter *c, uint32_t *bits)
{
    const struct counted *open = t->open.of, *closed = t->closed.of, *end = t->ends.of;

    for (size_t i = 0; i < t->open.n && open[i].count <= c->most; i++)
        set_bit(bits, open[i].number);
    for (size_t i = 0; i < t->closed.n; i++)
        if (closed[i].count >= c->least && closed[i].count <= c->most)
            set_bit(bits, closed[i].number);
    for (size_t i = 0; i < t->ends.n; i++)
        if (end[i].count >= c->least && end[i].count <= c->most)
            walk_ends(m, row, &end[i].number, 1, bits);
}

static int compare_states(const void *a, const void *b)
{
    uint32_t x = ((const struct recognizer_scan *)a)->term, y = ((const struct recognizer_scan *)b)->term;

    return (x > y) - (x < y);
}

/* True if the texts of STATE can begin with so many bytes that caching a walk inside STATE pays off. */
static bool is_wide(const struct token_masks *m, uint32_t state)
{
    struct regex_set first;
    int n = 0;

    regex_first(&m->r->g->regex, state, &first);
    for (int i = 0; i < 4; i++)
        n += __builtin_popcountll(first.bit[i]);
    return n >= WIDE;
}

/* Computes the mask of ROW into BITS. */
static void make_mask(struct token_masks *m, uint32_t row, uint32_t *bits)
{
    const struct recognizer_scan *scans;
    size_t n = recognizer_scans(m->r, row, &scans), n_narrow = 0;
    struct recognizer_scan *of = mem_alloc((n + 1) * sizeof(*of), MEM_TEXT), moved;
    uint32_t narrow = row;

    memset(bits, 0, m->words * sizeof(*bits));
    if (!of) {
        no_memory(m);
        return;
    }
    memcpy(of, scans, n * sizeof(*of));
    qsort(of, n, sizeof(*of), compare_states);
    for (size_t i = 0; i < n; i++) /* moves the states that are not wide to the front */
        if (!is_wide(m, of[i].term)) {
            moved = of[n_narrow];
            of[n_narrow++] = of[i];
            of[i] = moved;
        }
    if (n_narrow < n)
        narrow = recognizer_part(m->r, row, of, n_narrow);
    if (n_narrow)
        walk_rows(m, 0, (uint32_t)m->trie->n, narrow, bits);
    for (size_t i = n_narrow; i < n; i++) {
        const struct token_masks_term *t;
        struct regex_counter c;

        if (i > n_narrow && of[i].term == of[i - 1].term)
            continue; /* the item differs from the previous one only in its rule or origin */
        if ((t = counted_term_of(m, of[i].term, &c)) != NULL) {
            add_counted_term(m, row, t, &c, bits);
            continue;
        }
        if (!(t = term_of(m, of[i].term)))
            break;
        join_set(&t->inside, bits, m->words);
        walk_ends(m, row, t->end, t->n_ends, bits);
    }
    mem_free(of);
}

/* ---- masks of rows ---- */

static void drop_masks(struct token_masks *m)
{
    for (size_t i = 0; i < m->n_masks; i++)
        mem_free(m->mask[i].word);
    if (m->mask_of)
        memset(m->mask_of, 0, m->cap_rows * sizeof(*m->mask_of));
    m->r->g->regex.bytes -= m->kept_bytes;
    m->n_masks = m->kept_bytes = 0;
}

/* Caches MASK as the mask of ROW. */
static void keep_mask(struct token_masks *m, uint32_t row, const uint32_t *mask)
{
    size_t bytes;

    if (m->kept_bytes > MOST_KEPT)
        drop_masks(m);
    if (!reach(&m->mask_of, &m->cap_rows, row) ||
        !mem_grow((void **)&m->mask, &m->cap_masks, m->n_masks + 1, sizeof(*m->mask), MEM_TEXT))
        return;
    bytes = keep_set(m, mask, &m->mask[m->n_masks]);
    if (!m->mask[m->n_masks].word)
        return;
    m->kept_bytes += bytes;
    m->r->g->regex.bytes += bytes;
    m->mask_of[row] = (uint32_t)++m->n_masks;
}

size_t token_masks_get(struct token_masks *m, uint32_t row, uint32_t *mask)
{
    const struct token_masks_set *known;

    memset(mask, 0, m->words * sizeof(*mask));
    row = recognizer_clamp(m->r, row, (uint32_t)m->trie->depth);
    if (row == RECOGNIZER_DEAD || m->r->g->regex.fault != REGEX_FINE)
        return 0;
    if (row < m->cap_rows && m->mask_of[row]) {
        known = &m->mask[m->mask_of[row] - 1];
        join_set(known, mask, m->words);
        return known->n;
    }
    make_mask(m, row, mask);
    if (m->r->g->regex.fault != REGEX_FINE) {
        memset(mask, 0, m->words * sizeof(*mask));
        return 0;
    }
    keep_mask(m, row, mask);
    return count_bits(mask, m->words);
}

uint32_t token_masks_next(struct token_masks *m, uint32_t row, int32_t token)
{
    uint8_t *text = (uint8_t *)m->bits;
    size_t n = token_trie_text(m->trie, token, text);

    for (size_t i = 0; i < n; i++)
        row = recognizer_next(m->r, row, text[i]);
    return n ? row : RECOGNIZER_DEAD;
}

int token_masks_walk_open(struct token_masks_walk *w, struct grammar *g, uint32_t regex,
                          const struct token_trie *trie, struct err *e)
{
    struct recognizer r = {.g = g};
    struct token_masks m;
    int rc = token_masks_open(&m, &r, trie, e);

    *w = (struct token_masks_walk){0};
    if (rc)
        return rc;
    w->term = mem_zalloc(1, sizeof(*w->term), MEM_TEXT);
    rc = !w->term                         ? err_nomem(e, "the token masks of a vocabulary")
         : !walk_term(&m, regex, w->term) ? grammar_fault(g, e)
                                          : 0;
    token_masks_close(&m);
    if (rc)
        token_masks_walk_close(w);
    return rc;
}

void token_masks_walk_close(struct token_masks_walk *w)
{
    if (w->term)
        forget_walk(w->term);
    mem_free(w->term);
    w->term = NULL;
}

void token_masks_share(struct token_masks *m, uint32_t regex, const struct token_masks_walk *w)
{
    struct token_masks_term *t = w->term ? record_of(m, regex) : NULL;

    if (!t || t->is_walked)
        return;
    t->inside = w->term->inside;
    t->end = w->term->end;
    t->n_ends = w->term->n_ends;
    t->is_walked = t->is_borrowed = true;
    if (m->n_bases < TOKEN_MASKS_MOST_BASES)
        m->base[m->n_bases++] = regex;
}

int token_masks_open(struct token_masks *m, struct recognizer *r, const struct token_trie *trie,
                     struct err *e)
{
    size_t path = trie->depth + 1;

    *m = (struct token_masks){.r = r, .trie = trie, .words = (trie->n_vocab + 31) / 32};
    m->path = mem_zalloc(path, sizeof(*m->path), MEM_TEXT);
    m->bits = mem_zalloc(m->words + path, sizeof(*m->bits), MEM_TEXT);
    if (m->path && m->bits)
        return 0;
    token_masks_close(m);
    return err_nomem(e, "the token masks of a grammar");
}

void token_masks_close(struct token_masks *m)
{
    for (size_t i = 0; i < m->n_terms; i++) {
        if (!m->term[i].is_borrowed)
            forget_walk(&m->term[i]);
        forget_counts(&m->term[i]);
    }
    for (size_t i = 0; i < m->n_masks; i++)
        mem_free(m->mask[i].word);
    mem_free(m->term);
    mem_free(m->term_of);
    mem_free(m->mask);
    mem_free(m->mask_of);
    mem_free(m->path);
    mem_free(m->bits);
    *m = (struct token_masks){0};
}
