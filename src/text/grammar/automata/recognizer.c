/* recognizer.c - an Earley recognizer that stores its item sets (rows) and the transitions between them, like the
 * states of a lazily built automaton.
 *
 * A row is computed from its kernel: the items inside terminals after the last byte. The closure of the kernel
 * adds the items of Earley completion and prediction. Rules that match the empty text need no special case, because
 * grammar_heads() looks past them. Hash tables find equal rows and equal frames, so that each is stored once.
 */
#include "text/grammar/automata/recognizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { FIRST_SLOTS = 64 };

/* A row: the Earley items after a byte. An item is stored as a tuple of four numbers, in three layouts:
 *
 *     to be expanded (recognizer.position):                (RULE, REST, ORIGIN, 0)
 *     next symbol is the rule NUMBER (waiting, frames):    (NUMBER, RULE, REST, ORIGIN)
 *     at or inside a terminal (kernels, scanning):         struct recognizer_scan
 */
struct recognizer_row {
    uint32_t kernel, n_kernel;     /* index in recognizer.tuple and count: the kernel */
    uint32_t scanning, n_scanning; /* index in recognizer.tuple and count: items at or inside terminals */
    uint32_t frame;                /* index of the frame of the row's items whose next symbol is a rule */
    struct regex_set first;        /* superset of the bytes that may follow */
    struct edges next;             /* computed transitions: the next row for each byte */
    uint32_t clamped; /* the result of recognizer_clamp() for recognizer.clamp_most; 0: not known */
    bool may_end;     /* the text may end here */
};

/* A frame: the items of a row whose next symbol is a rule. When a rule that was predicted in this row is complete,
 * these items advance over it. Rows with equal frames are interchangeable as origins. */
struct recognizer_frame {
    uint32_t waiting, n; /* index in recognizer.tuple and count: items, sorted by the next rule */
};

/* As the origin of an item under construction: the item was predicted in this row, whose frame has no number
 * yet. In a stored tuple: the frame of the tuple's own row. */
enum { SELF = 0 };

static bool has_fault(const struct recognizer *r)
{
    return r->g->regex.fault != REGEX_FINE;
}

static void no_memory(struct recognizer *r)
{
    if (!has_fault(r))
        r->g->regex.fault = REGEX_NO_MEMORY;
}

/* Counts the work on N tuples against the step limit: 8 tuples cost about as much as one step. */
static void recognizer_charge(struct recognizer *r, size_t n)
{
    regex_charge(&r->g->regex, n / 8);
}

/* ---- the closure of a kernel ---- */

static void item_add(struct recognizer *r, struct tuples *to, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    if (tuples_add(to, (struct tuple){{a, b, c, d}}) == TUPLES_NO_MEMORY)
        no_memory(r);
}

/* Finds the items of the frame ORIGIN whose next symbol is RULE, by binary search. Returns the index of the
 * first item in r->tuple, and sets *N to their number. The work counts against the step limit. */
static uint32_t find_waiting(struct recognizer *r, uint32_t rule, uint32_t origin, uint32_t *n)
{
    const struct recognizer_frame *from = &r->frame[origin];
    const struct tuple *w = r->tuple + from->waiting;
    uint32_t low = 0, high = from->n;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (w[middle].v[0] < rule)
            low = middle + 1;
        else
            high = middle;
    }
    for (*n = 0; low + *n < from->n && w[low + *n].v[0] == rule;)
        ++*n;
    recognizer_charge(r, *n);
    return from->waiting + low;
}

/* Earley completion: RULE, predicted in the frame ORIGIN, is complete, so the items of ORIGIN that wait for RULE
 * advance over it. Returns true if RULE is the start rule: then the text may end. */
static bool complete(struct recognizer *r, uint32_t rule, uint32_t origin)
{
    uint32_t n, first;

    if (rule == r->g->start)
        return true;
    first = find_waiting(r, rule, origin, &n);
    for (uint32_t i = 0; i < n; i++) {
        struct tuple w = r->tuple[first + i];

        item_add(r, &r->position, w.v[1], w.v[2], w.v[3] == SELF ? origin : w.v[3], 0);
    }
    return false;
}

/* Adds an item of RULE (predicted in the frame ORIGIN) whose next symbol is the rule NUMBER, followed by REST. If
 * REST is empty, the items of ORIGIN that wait for RULE are added instead, with NUMBER as their next symbol, as in
 * Leo's algorithm: then right recursion adds no frames. */
static void wait_for(struct recognizer *r, uint32_t number, uint32_t rule, uint32_t rest, uint32_t origin)
{
    uint32_t n = 0, first = 0;

    if (rest == GRAMMAR_END && origin != SELF && rule != r->g->start)
        first = find_waiting(r, rule, origin, &n);
    for (uint32_t i = 0; i < n; i++) {
        struct tuple w = r->tuple[first + i];

        item_add(r, &r->waiting, number, w.v[1], w.v[2], w.v[3] == SELF ? origin : w.v[3]);
    }
    if (n == 0)
        item_add(r, &r->waiting, number, rule, rest, origin);
}

/* Expands the items of r->position by prediction and completion until no new item appears. Fills r->scanning and
 * r->waiting. Returns true if the text may end. */
static bool close_row(struct recognizer *r)
{
    bool may_end = false;

    for (size_t i = 0; i < r->position.n && !has_fault(r); i++) {
        uint32_t rule = r->position.tuple[i].v[0], at = r->position.tuple[i].v[1],
                 origin = r->position.tuple[i].v[2];
        const struct grammar_head *heads = NULL;
        size_t n = grammar_heads(r->g, at, &heads);

        recognizer_charge(r, 8 + n);
        for (size_t k = 0; k < n; k++)
            if (heads[k].symbol == GRAMMAR_TERM) {
                item_add(r, &r->scanning, rule, heads[k].rest, heads[k].number, origin);
            } else {
                wait_for(r, heads[k].number, rule, heads[k].rest, origin);
                item_add(r, &r->position, heads[k].number, grammar_body(r->g, heads[k].number), SELF, 0);
            }
        if (grammar_may_end(r->g, at) && (origin != SELF || rule == r->g->start))
            may_end = complete(r, rule, origin) || may_end;
    }
    return may_end;
}

/* ---- hash tables that find equal lists of tuples ---- */

/* Returns the tuples that identify the frame or row NUMBER (a row: its kernel). Sets *N to their count. */
static const struct tuple *run_of(const struct recognizer *r, bool is_frame, uint32_t number, size_t *n)
{
    *n = is_frame ? r->frame[number].n : r->row[number].n_kernel;
    return r->tuple + (is_frame ? r->frame[number].waiting : r->row[number].kernel);
}

static bool grow_table(struct recognizer *r, struct recognizer_table *t, bool is_frame)
{
    size_t n = t->n ? 2 * t->n : FIRST_SLOTS, n_run;
    uint32_t *slot = mem_zalloc(n, sizeof(*slot), MEM_TEXT);

    if (!slot) {
        no_memory(r);
        return false;
    }
    for (uint32_t i = 1; i < (is_frame ? r->n_frames : r->n); i++) {
        const struct tuple *run = run_of(r, is_frame, i, &n_run);
        size_t at = tuples_hash(run, n_run) & (n - 1);

        while (slot[at])
            at = (at + 1) & (n - 1);
        slot[at] = i;
    }
    mem_free(t->slot);
    r->g->regex.bytes += (n - t->n) * sizeof(*slot);
    *t = (struct recognizer_table){slot, n};
    return true;
}

static int compare_tuples(const void *a, const void *b)
{
    const struct tuple *x = a, *y = b;

    for (int i = 0; i < 4; i++)
        if (x->v[i] != y->v[i])
            return x->v[i] < y->v[i] ? -1 : 1;
    return 0;
}

/* Looks up a row or frame by the tuples from index FIRST to the end of r->tuple, which are first sorted and freed of
 * duplicates. If it exists, removes these tuples and returns the number of the row or frame. Otherwise returns 0 and
 * sets *SLOT to the table's slot for the new number, or to NULL after a fault. */
static uint32_t find_run(struct recognizer *r, bool is_frame, uint32_t first, uint32_t **slot)
{
    struct recognizer_table *t = is_frame ? &r->frames : &r->rows;
    size_t n = r->n_tuples - first, at, kept = 0, n_run;
    struct tuple *x = r->tuple + first;

    *slot = NULL;
    recognizer_charge(r, n);
    if (n > 1)
        qsort(x, n, sizeof(*x), compare_tuples);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || compare_tuples(&x[i], &x[i - 1]) != 0)
            x[kept++] = x[i];
    r->n_tuples = first + kept;
    if (2 * ((is_frame ? r->n_frames : r->n) + 1) > t->n && !grow_table(r, t, is_frame))
        return 0;
    for (at = tuples_hash(x, kept) & (t->n - 1); t->slot[at]; at = (at + 1) & (t->n - 1)) {
        const struct tuple *run = run_of(r, is_frame, t->slot[at], &n_run);

        if (n_run == kept && (kept == 0 || memcmp(run, x, kept * sizeof(*x)) == 0)) {
            r->n_tuples = first;
            return t->slot[at];
        }
    }
    *slot = &t->slot[at];
    return 0;
}

/* ---- rows ---- */

/* Appends the tuples of FROM to r->tuple. False: out of memory or over the limit. */
static bool keep(struct recognizer *r, const struct tuples *from)
{
    if (!regex_reserve(&r->g->regex, (void **)&r->tuple, &r->cap_tuples, r->n_tuples, from->n,
                       sizeof(*r->tuple)))
        return false;
    if (from->n > 0)
        memcpy(r->tuple + r->n_tuples, from->tuple, from->n * sizeof(*r->tuple));
    r->n_tuples += from->n;
    return true;
}

/* Returns the number of the frame with the items of r->waiting. Creates the frame if it is new. */
static uint32_t frame_of_row(struct recognizer *r)
{
    uint32_t first = (uint32_t)r->n_tuples, found, *slot;

    if (!keep(r, &r->waiting))
        return SELF;
    found = find_run(r, true, first, &slot);
    if (found || !slot ||
        !regex_reserve(&r->g->regex, (void **)&r->frame, &r->cap_frames, r->n_frames, 1, sizeof(*r->frame)))
        return found;
    r->frame[r->n_frames] = (struct recognizer_frame){first, (uint32_t)r->n_tuples - first};
    return *slot = (uint32_t)r->n_frames++;
}

/* Adds a row with the kernel r->tuple[KERNEL .. KERNEL + N_KERNEL - 1] and the items already in r->position. Returns
 * the number of the row, or RECOGNIZER_DEAD after a fault. */
static uint32_t add_row(struct recognizer *r, uint32_t kernel, uint32_t n_kernel)
{
    struct recognizer_row x = {.kernel = kernel, .n_kernel = n_kernel};
    struct regex_set first;

    tuples_clear(&r->waiting);
    tuples_clear(&r->scanning);
    for (uint32_t i = 0; i < n_kernel; i++) {
        struct tuple k = r->tuple[kernel + i];

        if (k.v[2] != REGEX_EMPTY)
            item_add(r, &r->scanning, k.v[0], k.v[1], k.v[2], k.v[3]);
        if (regex_matches_empty(&r->g->regex, k.v[2]))
            item_add(r, &r->position, k.v[0], k.v[1], k.v[3], 0);
    }
    x.may_end = close_row(r);
    for (size_t i = 0; i < r->scanning.n; i++) {
        regex_first(&r->g->regex, r->scanning.tuple[i].v[2], &first);
        regex_set_join(&x.first, &first);
    }
    x.frame = has_fault(r) ? SELF : frame_of_row(r);
    if (has_fault(r)) /* also after a pause: an incomplete row must not be found later */
        return RECOGNIZER_DEAD;
    x.scanning = (uint32_t)r->n_tuples;
    x.n_scanning = (uint32_t)r->scanning.n;
    if (!keep(r, &r->scanning) ||
        !regex_reserve(&r->g->regex, (void **)&r->row, &r->cap, r->n, 1, sizeof(*r->row)))
        return RECOGNIZER_DEAD;
    r->row[r->n] = x;
    return (uint32_t)r->n++;
}

/* Returns the number of the row with the kernel r->tuple[KERNEL ..]. Creates the row if it is new. */
static uint32_t row_of_kernel(struct recognizer *r, uint32_t kernel)
{
    uint32_t *slot, found = find_run(r, false, kernel, &slot);

    if (found || !slot)
        return found;
    if (has_fault(r)) {
        r->n_tuples = kernel;
        return RECOGNIZER_DEAD;
    }
    tuples_clear(&r->position);
    found = add_row(r, kernel, (uint32_t)r->n_tuples - kernel);
    if (found != RECOGNIZER_DEAD)
        *slot = found;
    return has_fault(r) ? RECOGNIZER_DEAD : found;
}

int recognizer_open(struct recognizer *r, struct grammar *g, struct err *e)
{
    *r = (struct recognizer){.g = g};
    if (regex_reserve(&r->g->regex, (void **)&r->row, &r->cap, 0, 1, sizeof(*r->row)) &&
        regex_reserve(&r->g->regex, (void **)&r->frame, &r->cap_frames, 0, 1, sizeof(*r->frame)) &&
        regex_reserve(&r->g->regex, (void **)&r->tuple, &r->cap_tuples, 0, 1, sizeof(*r->tuple))) {
        r->row[r->n++] = (struct recognizer_row){0};
        r->frame[r->n_frames++] = (struct recognizer_frame){0};
        item_add(r, &r->position, g->start, grammar_body(g, g->start), SELF, 0);
        if (add_row(r, 0, 0) == RECOGNIZER_BEGIN && !has_fault(r))
            return 0;
    }
    recognizer_close(r);
    return grammar_fault(g, e);
}

void recognizer_close(struct recognizer *r)
{
    mem_free(r->row);
    mem_free(r->frame);
    mem_free(r->tuple);
    mem_free(r->rows.slot);
    mem_free(r->frames.slot);
    edges_fini(&r->tables);
    tuples_fini(&r->position);
    tuples_fini(&r->waiting);
    tuples_fini(&r->scanning);
    *r = (struct recognizer){0};
}

/* ---- scanning and results ---- */

/* Earley scanning: returns the row after BYTE at ROW. RECOGNIZER_DEAD: BYTE is not allowed, or a fault. */
static uint32_t compute_next(struct recognizer *r, uint32_t row, uint8_t byte)
{
    struct recognizer_row x = r->row[row];
    uint32_t kernel = (uint32_t)r->n_tuples;

    for (uint32_t i = 0; i < x.n_scanning; i++) {
        struct tuple s = r->tuple[x.scanning + i];
        uint32_t term = regex_next(&r->g->regex, s.v[2], byte);

        if (term == REGEX_NOTHING)
            continue;
        if (!regex_reserve(&r->g->regex, (void **)&r->tuple, &r->cap_tuples, r->n_tuples, 1,
                           sizeof(*r->tuple)))
            return RECOGNIZER_DEAD;
        r->tuple[r->n_tuples++] = (struct tuple){{s.v[0], s.v[1], term, s.v[3] == SELF ? x.frame : s.v[3]}};
    }
    if (has_fault(r))
        r->n_tuples = kernel;
    return r->n_tuples == kernel ? RECOGNIZER_DEAD : row_of_kernel(r, kernel);
}

uint32_t recognizer_next(struct recognizer *r, uint32_t row, uint8_t byte)
{
    struct regex_store *s = &r->g->regex;
    uint32_t to;
    size_t taken;

    if (!regex_set_has(&r->row[row].first, byte) || has_fault(r))
        return RECOGNIZER_DEAD;
    to = edges_get(&r->tables, &r->row[row].next, byte);
    if (to != EDGES_UNKNOWN)
        return to;
    if (!regex_charge(s, 1))
        return RECOGNIZER_DEAD;
    to = compute_next(r, row, byte);
    if (has_fault(r))
        return RECOGNIZER_DEAD;
    taken = edges_set(&r->tables, &r->row[row].next, byte, to);
    if (taken == SIZE_MAX)
        no_memory(r);
    else
        s->bytes += taken;
    return has_fault(r) ? RECOGNIZER_DEAD : to;
}

bool recognizer_may_end(const struct recognizer *r, uint32_t row)
{
    return r->row[row].may_end;
}

size_t recognizer_scans(const struct recognizer *r, uint32_t row, const struct recognizer_scan **scans)
{
    *scans = (const struct recognizer_scan *)(const void *)(r->tuple + r->row[row].scanning);
    return r->row[row].n_scanning;
}

uint32_t recognizer_part(struct recognizer *r, uint32_t row, const struct recognizer_scan *scans, size_t n)
{
    uint32_t kernel = (uint32_t)r->n_tuples, frame = r->row[row].frame;

    if (n == 0 || has_fault(r) ||
        !regex_reserve(&r->g->regex, (void **)&r->tuple, &r->cap_tuples, r->n_tuples, n, sizeof(*r->tuple)))
        return RECOGNIZER_DEAD;
    for (size_t i = 0; i < n; i++)
        r->tuple[r->n_tuples++] = (struct tuple){
            {scans[i].rule, scans[i].rest, scans[i].term, scans[i].origin == SELF ? frame : scans[i].origin}};
    return row_of_kernel(r, kernel);
}

uint32_t recognizer_clamp(struct recognizer *r, uint32_t row, uint32_t most)
{
    struct recognizer_row x = r->row[row];
    uint32_t kernel = (uint32_t)r->n_tuples;

    if (row == RECOGNIZER_DEAD || row == RECOGNIZER_BEGIN || has_fault(r))
        return row;
    r->clamp_most = r->clamp_most ? r->clamp_most : most;
    if (x.clamped != RECOGNIZER_DEAD && most == r->clamp_most)
        return x.clamped;
    for (uint32_t i = 0; i < x.n_kernel && !has_fault(r); i++) {
        struct tuple k = r->tuple[x.kernel + i];

        k.v[1] = grammar_clamp(r->g, k.v[1], most);
        k.v[2] = regex_clamp(&r->g->regex, k.v[2], most);
        if (!regex_reserve(&r->g->regex, (void **)&r->tuple, &r->cap_tuples, r->n_tuples, 1,
                           sizeof(*r->tuple)))
            return RECOGNIZER_DEAD;
        r->tuple[r->n_tuples++] = k;
    }
    if (has_fault(r)) {
        r->n_tuples = kernel;
        return RECOGNIZER_DEAD;
    }
    kernel = row_of_kernel(r, kernel);
    if (most == r->clamp_most)
        r->row[row].clamped = kernel;
    return kernel;
}

bool recognizer_matches(struct recognizer *r, const char *text, size_t n)
{
    uint32_t row = RECOGNIZER_BEGIN;

    for (size_t i = 0; i < n && row != RECOGNIZER_DEAD; i++)
        row = recognizer_next(r, row, (uint8_t)text[i]);
    return row != RECOGNIZER_DEAD && r->row[row].may_end;
}
