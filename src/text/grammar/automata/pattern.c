/* pattern.c - compiles the tree of a regular expression into an expression for the texts that it accepts.
 *
 * A part without assertions is a regular language. Other parts are compiled from the end of the pattern:
 * before() takes the continuations (the texts that may follow) after a part, and computes the continuations
 * that begin with the part. So an assertion about the text ahead is an intersection. An assertion about the
 * text behind is stored as a condition of a continuation until that text is known. The condition is that
 * the text behind ends with a word character, ends with another character, or is empty.
 *
 * A search accepts any text around its match, so b+ at its end equals b, and b{3,5} equals b{3}. Such
 * repetitions at the start and end of a search are shortened. Otherwise searching for .{1,1000} would need
 * 1000 counters in a state.
 */
#include "text/grammar/automata/pattern.h"

#include <string.h>

#include "base/mem.h"
#include "text/grammar/automata/pattern_tree.h"

/* Conditions on the text before a continuation, which exclude each other apart from ANY. */
enum { ANY, BEHIND_WORD, BEHIND_OTHER, AT_START, N_PASTS };

/* The continuations at a point of the pattern: for each condition, the texts that may follow. */
struct ways {
    uint32_t of[N_PASTS];
};

/* Indices of the languages of a part with ^ or $. Bit 0: at the start of the text; bit 1: at its end. */
enum { FROM_START = 1, TO_END = 2, N_EDGES = 4 };

struct edged {
    uint32_t of[N_EDGES];
};

struct compiler {
    struct regex_store *s;
    const struct pattern_part *part;
    pattern_alphabet *alphabet;
    bool is_wide; /* \w includes the letters and digits of Unicode */
    uint32_t all; /* matches any text */
    /* Expressions of a word character and of another character; REGEX_NOTHING until an assertion needs them */
    uint32_t word, other;
    uint32_t *work; /* [n_work] stack: members of unions under construction */
    size_t n_work, cap_work;
    int code;
    struct err *e;
};

/* Returns the conjunction of two conditions; -1: they contradict each other. */
static int both_pasts(int a, int b)
{
    if (a == b || b == ANY)
        return a;
    return a == ANY ? b : -1;
}

/* Adds LANGUAGE to the continuations with the condition PAST, unless PAST is -1. */
static void add_way(struct compiler *c, struct ways *w, int past, uint32_t language)
{
    if (past >= 0)
        w->of[past] = regex_or(c->s, w->of[past], language);
}

static bool has_conditions(const struct ways *w)
{
    return w->of[BEHIND_WORD] || w->of[BEHIND_OTHER] || w->of[AT_START];
}

static void push_member(struct compiler *c, uint32_t r)
{
    if (!mem_grow((void **)&c->work, &c->cap_work, c->n_work + 1, sizeof(*c->work), MEM_TEXT))
        c->s->fault = c->s->fault ? c->s->fault : REGEX_NO_MEMORY;
    else
        c->work[c->n_work++] = r;
}

/* ---- parts without assertions ---- */

/* Returns the language of part I. LEAD: any text may precede the part; TAIL: any text may follow it. In these
 * cases repetitions can be shortened. */
static uint32_t plain(struct compiler *c, uint32_t i, bool lead, bool tail)
{
    struct pattern_part x = c->part[i];
    size_t start = c->n_work;
    uint32_t r = REGEX_EMPTY;

    if (x.may_be_empty && (lead || tail))
        return REGEX_EMPTY;
    switch ((enum pattern_kind)x.kind) {
    case PATTERN_ONE: return x.a;
    case PATTERN_SEQUENCE:
        for (uint32_t m = x.a; m; m = c->part[m].before) {
            r = regex_concat(c->s, plain(c, m, lead && c->part[m].leads, tail), r);
            tail = tail && c->part[m].may_be_empty;
        }
        return r;
    case PATTERN_CHOICE:
        for (uint32_t m = x.a; m; m = c->part[m].before)
            push_member(c, plain(c, m, lead, tail));
        r = regex_union(c->s, c->work + start, c->n_work - start);
        c->n_work = start;
        return r;
    case PATTERN_REPEAT:
        if (lead || tail)
            x.most = x.least;
        if (x.most == 1 && x.least == 1)
            return plain(c, x.a, lead, tail);
        return regex_repeat(c->s, plain(c, x.a, false, false), x.least, x.most);
    default: return REGEX_EMPTY;
    }
}

/* ---- parts with ^ or $ inside a repetition ---- */

static struct edged edged_concat(struct compiler *c, const struct edged *a, const struct edged *b)
{
    struct edged out = {{0}};

    for (unsigned i = 0; i < N_EDGES; i++)
        for (unsigned k = 0; k < N_EDGES; k++) {
            uint32_t x = a->of[i], y = b->of[k];

            /* The text before ^ and the text after $ must be empty. */
            if (k & FROM_START)
                x = regex_matches_empty(c->s, x) ? REGEX_EMPTY : REGEX_NOTHING;
            if (i & TO_END)
                y = regex_matches_empty(c->s, y) ? REGEX_EMPTY : REGEX_NOTHING;
            out.of[i | k] = regex_or(c->s, out.of[i | k], regex_concat(c->s, x, y));
        }
    return out;
}

static void edged_join(struct compiler *c, struct edged *a, const struct edged *b)
{
    for (unsigned i = 0; i < N_EDGES; i++)
        a->of[i] = regex_or(c->s, a->of[i], b->of[i]);
}

static uint32_t less(uint32_t count, uint32_t by)
{
    return count == REGEX_NO_LIMIT ? count : count > by ? count - by : 0;
}

/* Returns X repeated LEAST to MOST times. Of the iterations that are not empty, only the first can be at the
 * start of the text, and only the last can be at its end; the iterations between have no assertions. */
static struct edged edged_times(struct compiler *c, const struct edged *x, uint32_t least, uint32_t most)
{
    struct edged out = {{0}}, middle = {{0}}, some;

    if (least == 0)
        out.of[0] = REGEX_EMPTY;
    if (least <= 1 && most >= 1)
        edged_join(c, &out, x);
    if (most >= 2) {
        middle.of[0] = regex_repeat(c->s, x->of[0], less(least, 2), less(most, 2));
        some = edged_concat(c, x, &middle);
        some = edged_concat(c, &some, x);
        edged_join(c, &out, &some);
    }
    return out;
}

/* Returns X repeated LEAST to MOST times, including iterations that match the empty text. */
static struct edged edged_repeat(struct compiler *c, const struct edged *x, uint32_t least, uint32_t most)
{
    struct edged out, any, empty;

    if (regex_matches_empty(c->s, x->of[0]))
        least = 0;
    out = edged_times(c, x, least, most);
    if (least == 0 || most == 0)
        return out;
    /* An iteration that is empty at the start or end of the text can be repeated there up to LEAST times. */
    any = edged_times(c, x, 0, most);
    for (unsigned i = 1; i < N_EDGES; i++)
        if (regex_matches_empty(c->s, x->of[i])) {
            struct edged sum;

            empty = (struct edged){{0}};
            empty.of[i] = REGEX_EMPTY;
            sum = i & FROM_START ? edged_concat(c, &empty, &any) : edged_concat(c, &any, &empty);
            edged_join(c, &out, &sum);
        }
    return out;
}

static struct edged edged(struct compiler *c, uint32_t i)
{
    struct pattern_part x = c->part[i];
    struct edged out = {{0}}, y;

    if (x.asks == PATTERN_ASKS_NOTHING) {
        out.of[0] = plain(c, i, false, false);
        return out;
    }
    switch ((enum pattern_kind)x.kind) {
    case PATTERN_START: out.of[FROM_START] = REGEX_EMPTY; break;
    case PATTERN_END: out.of[TO_END] = REGEX_EMPTY; break;
    case PATTERN_SEQUENCE:
        out.of[0] = REGEX_EMPTY;
        for (uint32_t m = x.a; m; m = c->part[m].before) {
            y = edged(c, m);
            out = edged_concat(c, &y, &out);
        }
        break;
    case PATTERN_CHOICE:
        for (uint32_t m = x.a; m; m = c->part[m].before) {
            y = edged(c, m);
            edged_join(c, &out, &y);
        }
        break;
    case PATTERN_REPEAT:
        y = edged(c, x.a);
        out = edged_repeat(c, &y, x.least, x.most);
        break;
    default: break;
    }
    return out;
}

/* ---- all parts, compiled from the end ---- */

/* Returns the continuations that consist of a text of LANGUAGE and a continuation of NEXT. */
static struct ways text_before(struct compiler *c, uint32_t language, const struct ways *next)
{
    struct ways out = {{0}};
    uint32_t ends[N_PASTS] = {0, c->word, c->other, REGEX_NOTHING};

    out.of[ANY] = regex_concat(c->s, language, next->of[ANY]);
    for (int past = BEHIND_WORD; past < N_PASTS; past++) {
        if (next->of[past] == REGEX_NOTHING)
            continue;
        if (ends[past] != REGEX_NOTHING)
            add_way(c, &out, ANY,
                    regex_concat(c->s, regex_and(c->s, language, regex_concat(c->s, c->all, ends[past])),
                                 next->of[past]));
        if (regex_matches_empty(c->s, language))
            add_way(c, &out, past, next->of[past]);
    }
    return out;
}

static struct ways start_before(struct compiler *c, const struct ways *next)
{
    struct ways out = {{0}};

    for (int past = ANY; past < N_PASTS; past++)
        add_way(c, &out, both_pasts(past, AT_START), next->of[past]);
    return out;
}

static struct ways end_before(struct compiler *c, const struct ways *next)
{
    struct ways out = {{0}};

    for (int past = ANY; past < N_PASTS; past++)
        out.of[past] = regex_matches_empty(c->s, next->of[past]) ? REGEX_EMPTY : REGEX_NOTHING;
    return out;
}

/* Matches a word character or, if IS_OTHER, any other character. */
static uint32_t word_character(struct compiler *c, bool is_other)
{
    struct pattern_set set = {0};
    uint32_t r;

    pattern_set_add_kind(&set, 'w', c->is_wide);
    if (is_other)
        pattern_set_negate(&set);
    r = pattern_set_regex(&set, c->s, c->alphabet);
    pattern_set_fini(&set);
    return r;
}

static void tell_words_apart(struct compiler *c)
{
    if (c->word == REGEX_NOTHING) {
        c->word = word_character(c, false);
        c->other = word_character(c, true);
    }
}

/* Compiles \b or, if IS_INSIDE, \B, which matches between two word characters or two other characters. */
static struct ways boundary_before(struct compiler *c, bool is_inside, const struct ways *next)
{
    struct ways out = {{0}};
    uint32_t word, other;

    tell_words_apart(c);
    word = regex_concat(c->s, c->word, c->all);
    other = regex_or(c->s, REGEX_EMPTY, regex_concat(c->s, c->other, c->all));
    for (int past = BEHIND_WORD; past < N_PASTS; past++)
        for (int k = ANY; k < N_PASTS; k++)
            add_way(c, &out, both_pasts(past, k),
                    regex_and(c->s, next->of[k], (past == BEHIND_WORD) == is_inside ? word : other));
    return out;
}

static struct ways before(struct compiler *c, uint32_t i, const struct ways *next, bool lead);

/* Returns the complement of W. If W has conditions on the text before it, each condition gets a
 * complement. */
static struct ways ways_not(struct compiler *c, const struct ways *w)
{
    struct ways out = {{0}};

    if (!has_conditions(w)) {
        out.of[ANY] = regex_not(c->s, w->of[ANY]);
        return out;
    }
    tell_words_apart(c);
    for (int past = BEHIND_WORD; past < N_PASTS; past++)
        out.of[past] = regex_not(c->s, regex_or(c->s, w->of[ANY], w->of[past]));
    return out;
}

static struct ways ahead_before(struct compiler *c, uint32_t i, const struct ways *next)
{
    const struct ways any = {{c->all}};
    struct ways seen = before(c, c->part[i].a, &any, false), out = {{0}};

    if (c->part[i].kind == PATTERN_NOT_AHEAD)
        seen = ways_not(c, &seen);
    for (int past = ANY; past < N_PASTS; past++)
        for (int k = ANY; k < N_PASTS; k++)
            add_way(c, &out, both_pasts(past, k), regex_and(c->s, next->of[past], seen.of[k]));
    return out;
}

static struct ways repeat_before(struct compiler *c, uint32_t i, const struct ways *next, bool lead)
{
    struct pattern_part x = c->part[i];
    struct ways out = {{0}}, one;
    struct edged y;

    if (x.most == 0)
        return *next;
    if (x.most == 1) {
        out = before(c, x.a, next, lead);
        for (int past = ANY; past < N_PASTS && x.least == 0; past++)
            add_way(c, &out, past, next->of[past]);
        return out;
    }
    if (x.asks == PATTERN_ASKS_CONTEXT) {
        if (!c->code)
            c->code = err_set(c->e, ERR_UNSUPPORTED,
                              "offset %u of the regular expression: a word boundary or look-ahead inside a "
                              "repetition is not supported",
                              x.at);
        return out;
    }
    y = edged(c, i);
    for (unsigned k = 0; k < N_EDGES; k++) {
        if (y.of[k] == REGEX_NOTHING)
            continue;
        one = k & TO_END ? end_before(c, next) : *next;
        one = text_before(c, y.of[k], &one);
        one = k & FROM_START ? start_before(c, &one) : one;
        for (int past = ANY; past < N_PASTS; past++)
            add_way(c, &out, past, one.of[past]);
    }
    return out;
}

static struct ways choice_before(struct compiler *c, uint32_t i, const struct ways *next, bool lead)
{
    struct ways out;
    size_t start = c->n_work, n = 0;

    for (uint32_t m = c->part[i].a; m; m = c->part[m].before, n++) {
        struct ways one = before(c, m, next, lead);

        for (int past = ANY; past < N_PASTS; past++)
            push_member(c, one.of[past]);
    }
    for (int past = ANY; past < N_PASTS && !c->s->fault; past++) {
        for (size_t k = 0; k < n; k++)
            push_member(c, c->work[start + k * N_PASTS + (size_t)past]);
        if (!c->s->fault)
            out.of[past] = regex_union(c->s, c->work + start + n * N_PASTS, n);
        c->n_work = start + n * N_PASTS;
    }
    c->n_work = start;
    return c->s->fault ? (struct ways){{0}} : out;
}

/* Returns the continuations of part I followed by NEXT. LEAD: any text may precede part I. */
static struct ways before(struct compiler *c, uint32_t i, const struct ways *next, bool lead)
{
    struct pattern_part x = c->part[i];
    struct ways out = *next;

    if (c->code || c->s->fault)
        return (struct ways){{0}};
    if (x.asks == PATTERN_ASKS_NOTHING) {
        bool tail = next->of[ANY] == c->all && !has_conditions(next);

        return text_before(c, plain(c, i, lead, tail), next);
    }
    switch ((enum pattern_kind)x.kind) {
    case PATTERN_SEQUENCE:
        for (uint32_t m = x.a; m; m = c->part[m].before)
            out = before(c, m, &out, lead && c->part[m].leads);
        return out;
    case PATTERN_CHOICE: return choice_before(c, i, next, lead);
    case PATTERN_REPEAT: return repeat_before(c, i, next, lead);
    case PATTERN_START: return start_before(c, next);
    case PATTERN_END: return end_before(c, next);
    case PATTERN_BOUNDARY: return boundary_before(c, false, next);
    case PATTERN_INSIDE: return boundary_before(c, true, next);
    case PATTERN_AHEAD:
    case PATTERN_NOT_AHEAD: return ahead_before(c, i, next);
    default: return out;
    }
}

/* Returns the language of the texts that contain a match of TREE (IS_SEARCH) or are a match of TREE. */
static uint32_t whole_texts(struct compiler *c, const struct pattern_tree *tree, bool is_search)
{
    struct ways next = {{is_search ? c->all : REGEX_EMPTY}}, w = before(c, tree->root, &next, is_search);
    struct regex_store *s = c->s;
    uint32_t r = w.of[AT_START];

    if (!is_search)
        return regex_or(s, r, w.of[ANY]);
    if (regex_matches_empty(s, w.of[ANY]) && w.of[ANY] == c->all)
        return c->all;
    if (w.of[ANY] != REGEX_NOTHING)
        r = regex_or(s, r, regex_concat(s, c->all, w.of[ANY]));
    if (w.of[BEHIND_WORD] != REGEX_NOTHING)
        r = regex_or(s, r, regex_concat(s, c->all, regex_concat(s, c->word, w.of[BEHIND_WORD])));
    if (w.of[BEHIND_OTHER] != REGEX_NOTHING)
        r = regex_or(s, r, regex_concat(s, c->all, regex_concat(s, c->other, w.of[BEHIND_OTHER])));
    return r;
}

int pattern_read(struct regex_store *s, const char *text, size_t n, pattern_alphabet *alphabet,
                 enum pattern_dialect dialect, uint32_t *out, struct err *e)
{
    struct pattern_tree tree;
    struct compiler c = {.s = s, .alphabet = alphabet, .is_wide = dialect == PATTERN_WHOLE, .e = e};

    *out = REGEX_NOTHING;
    c.code = pattern_tree_read(&tree, s, text, n, alphabet, dialect, e);
    if (!c.code) {
        c.part = tree.part;
        c.all = regex_repeat(s, alphabet(s, 0, PATTERN_LAST_CHARACTER), 0, REGEX_NO_LIMIT);
        *out = whole_texts(&c, &tree, dialect == PATTERN_SEARCH);
    }
    pattern_tree_fini(&tree);
    mem_free(c.work);
    if (c.code || s->fault)
        *out = REGEX_NOTHING;
    if (c.code || !s->fault)
        return c.code;
    return s->fault == REGEX_NO_MEMORY
               ? err_nomem(e, "a regular expression")
               : err_set(e, ERR_NOSPACE, "the regular expression is too complex: the limit of %s is reached",
                         s->fault == REGEX_OVER_MEMORY ? "memory" : "steps");
}
