/* names.c - compares a name that ends with the earlier names of its object, and finds the tokens that end such a name.
 */
#include "text/grammar/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

/* Bytes of text that are read, and nodes of a trie that are visited, in the time of a step of the recognizer. */
enum { BYTES_OF_STEP = 64, NODES_OF_STEP = 16 };

static void charge(struct recognizer *r, size_t n_bytes)
{
    regex_charge(&r->g->regex, n_bytes / BYTES_OF_STEP);
}

/* Returns 1 + index of the last name before the one that begins at text[at]; 0: there is none. */
static uint32_t name_before(struct recognizer *r, struct names_text *t, size_t at)
{
    size_t n_read = 0;
    uint32_t older = names_text_before(t, at, &n_read);

    charge(r, n_read);
    return older;
}

/* ---- rows ---- */

/* True if S is an item of a name, and has matched its first bytes. */
static bool has_begun(const struct recognizer *r, const struct recognizer_scan *s)
{
    return s->origin != 0 && grammar_name_of(r->g, s->rule) != GRAMMAR_NO_NAME;
}

/* True if a name can end at ROW, or if a quote at ROW is an escaped character of a name. */
static bool may_have_quote(struct recognizer *r, uint32_t row)
{
    const struct recognizer_scan *scan;
    size_t n = recognizer_scans(r, row, &scan);

    for (size_t i = 0; i < n; i++)
        if (has_begun(r, &scan[i]) && regex_next(&r->g->regex, scan[i].term, '"') != REGEX_NOTHING)
            return true;
    return false;
}

/* Returns the row after byte AT of the text, a quote that ends a name at ROW. Records the name if it is new. */
static uint32_t end_name(struct recognizer *r, uint32_t row, struct names_text *t, size_t at)
{
    size_t begin = names_text_begin(t, at), n = 0;
    uint32_t older = name_before(r, t, begin);

    bool is_old = names_value_occurs(t, older, begin, at, &n);

    charge(r, n * BYTES_OF_STEP / 8);
    if (is_old)
        return recognizer_next_outside(r, row, '"');
    if (!names_text_add(t, begin, at, older)) {
        r->g->regex.fault = r->g->regex.fault ? r->g->regex.fault : REGEX_NO_MEMORY;
        return RECOGNIZER_DEAD;
    }
    return recognizer_next(r, row, '"');
}

/* Returns the row after byte AT of the text, which is at ROW. RECOGNIZER_DEAD: the byte is not allowed. */
static uint32_t next_row(struct recognizer *r, uint32_t row, struct names_text *t, size_t at)
{
    if (t->text[at] == '"' && recognizer_in_name(r, row) && may_have_quote(r, row) &&
        !names_text_is_escaped(t, at))
        return end_name(r, row, t, at);
    return recognizer_next(r, row, (uint8_t)t->text[at]);
}

bool names_match(struct recognizer *r, const char *text, size_t n)
{
    struct names_text t = {.text = (char *)text, .n = n}; /* the text is not changed, as its CAP is 0 */
    uint32_t row = RECOGNIZER_BEGIN;

    for (size_t i = 0; i < n && row != RECOGNIZER_DEAD; i++)
        row = next_row(r, row, &t, i);
    names_text_close(&t);
    return row != RECOGNIZER_DEAD && recognizer_may_end(r, row);
}

/* True if TERM is a state behind the whole name: what follows is a colon and white space. */
static bool is_behind_name(struct regex_store *s, uint32_t term)
{
    static const char others[] = " \t\n\r:";
    struct regex_set first, set = {{0}};

    for (size_t i = 0; others[i]; i++)
        regex_set_add(&set, (uint8_t)others[i]);
    regex_first(s, term, &first);
    for (int i = 0; i < 4; i++)
        if (first.bit[i] & ~set.bit[i])
            return false;
    if (regex_matches_empty(s, term) || regex_matches_empty(s, regex_next(s, term, ':')))
        return true;
    return !regex_is_empty(s, regex_and(s, term, regex_repeat(s, regex_bytes(s, &set), 0, REGEX_NO_LIMIT)));
}

/* ---- names of which there are few ---- */

/* A search for a name that does not occur earlier. */
struct search {
    struct recognizer *r;
    struct names_text *t;
    size_t n_live; /* the earlier names that begin with the value at the start of the search, in t->live */
    bool is_given; /* the text ends inside an escape, which need not be canonical */
    size_t n;      /* bytes of the value so far */
    char value[JSON_NAMES_LONGEST + 4];
};

/* Moves those of the first N names of t->live that begin with the value so far to the front, and returns their number.
 * *IS_ONE: one of them is the value. */
static size_t keep_begun(struct search *x, size_t n, bool *is_one)
{
    uint32_t *live = x->t->live;
    size_t n_kept = 0;

    *is_one = false;
    for (size_t k = 0; k < n; k++) {
        uint32_t name = live[k];
        const struct names_entry *e = &x->t->entry[name - 1];
        struct names_value v = {.at = e->at, .end = e->end};
        size_t i = 0;

        while (i < x->n && names_value_next(x->t, &v) == (uint8_t)x->value[i])
            i++;
        if (i < x->n)
            continue;
        *is_one = *is_one || names_value_next(x->t, &v) < 0;
        live[k] = live[n_kept];
        live[n_kept++] = name;
    }
    charge(x->r, (n + 1) * BYTES_OF_STEP / 2);
    return n_kept;
}

/* True if a name that STATE, behind the value so far and D, matches does not occur earlier, or if that is unknown. Only
 * the first N_LIVE names of t->live may begin with the value. */
static bool has_free_name(struct search *x, uint32_t state, struct json_names_decoder d, size_t n_live)
{
    struct regex_store *s = &x->r->g->regex;
    bool is_given = x->is_given, is_one;
    struct regex_set first;

    if (s->fault != REGEX_FINE || x->n > JSON_NAMES_LONGEST ||
        (json_names_is_whole(&d) && ((n_live = keep_begun(x, n_live, &is_one)) == 0 ||
                                     (!is_one && regex_next(s, state, '"') != REGEX_NOTHING))))
        return true;
    regex_first(s, state, &first);
    for (unsigned byte = 0; byte < 256; byte++) {
        struct json_names_decoder after = d;
        bool is_free = false;
        uint32_t to;
        size_t n;

        if (!regex_set_has(&first, (uint8_t)byte) || (byte == '"' && d.part == 0) ||
            (to = regex_next(s, state, (uint8_t)byte)) == REGEX_NOTHING)
            continue;
        n = json_names_decode(&after, (uint8_t)byte, x->value + x->n);
        after.is_odd = after.is_odd && !is_given;
        x->is_given = is_given && !json_names_is_whole(&after);
        x->n += n;
        is_free = !after.is_odd && has_free_name(x, to, after, n_live);
        x->n -= n;
        x->is_given = is_given;
        if (is_free)
            return true;
    }
    return false;
}

/* Begins a search for the name that the first END bytes of the text end with. False: it is too long to search. */
static bool search_begin(struct search *x, struct recognizer *r, struct names_text *t, size_t end,
                         struct json_names_decoder *d)
{
    size_t begin = names_text_begin(t, end), n = 0;
    bool is_one;

    *d = (struct json_names_decoder){0};
    x->r = r;
    x->t = t;
    x->n = 0;
    if (!mem_grow((void **)&t->live, &t->cap_live, t->n_entries, sizeof(*t->live), MEM_TEXT))
        return false;
    for (uint32_t i = name_before(r, t, begin); i; i = t->entry[i - 1].older)
        t->live[n++] = i;
    for (size_t i = begin; i < end; i++) {
        if (x->n > JSON_NAMES_LONGEST)
            return false;
        x->n += json_names_decode(d, (uint8_t)t->text[i], x->value + x->n);
    }
    x->n_live = keep_begun(x, n, &is_one);
    d->is_odd = false; /* only what follows must be canonical */
    x->is_given = !json_names_is_whole(d);
    return true;
}

/* True if ROW, to which the first END bytes of the text lead, is inside a name of the kind FEW_NAMES, and all its ends
 * occur earlier. */
static bool is_used_up(struct recognizer *r, uint32_t row, struct names_text *t, size_t end)
{
    const struct recognizer_scan *scan;
    size_t n_scans = recognizer_scans(r, row, &scan);
    struct json_names_decoder d;
    struct search x;

    if (!recognizer_in_name(r, row))
        return false;
    for (size_t i = 0; i < n_scans; i++)
        if (!has_begun(r, &scan[i]) || grammar_name_of(r->g, scan[i].rule) != GRAMMAR_FEW_NAMES ||
            is_behind_name(&r->g->regex, scan[i].term))
            return false;
    if (!search_begin(&x, r, t, end, &d) || x.n_live == 0)
        return false;
    for (size_t i = 0; i < n_scans; i++) /* a search adds no rows, so that SCAN stays valid */
        if (has_free_name(&x, scan[i].term, d, x.n_live))
            return false;
    return true;
}

/* ---- tokens ---- */

/* Returns the row after TOKEN at ROW, and sets *END to the end of the text with it. T->n does not change, but names
 * that end in the token are recorded: see names_text_cut(). */
static uint32_t try_token(struct names *x, const struct token_trie *trie, uint32_t row, struct names_text *t,
                          int32_t token, size_t *end)
{
    *end = t->n + token_trie_text(trie, token, (uint8_t *)t->text + t->n);
    for (size_t i = t->n; i < *end && row != RECOGNIZER_DEAD; i++)
        row = next_row(x->r, row, t, i);
    if (*end == t->n || row == RECOGNIZER_DEAD || is_used_up(x->r, row, t, *end) ||
        x->r->g->regex.fault != REGEX_FINE)
        return RECOGNIZER_DEAD;
    return row;
}

uint32_t names_add(struct names *x, const struct token_trie *trie, uint32_t row, struct names_text *t,
                   int32_t token)
{
    size_t end;

    row = try_token(x, trie, row, t, token, &end);
    if (row == RECOGNIZER_DEAD)
        names_text_cut(t, t->n);
    else
        t->n = end;
    return row;
}

/* What find_names() finds in the text of a token. */
struct found {
    size_t n_whole;      /* names that can end in the text */
    size_t quote, n;     /* the quote of the last of them, and the bytes of its name */
    size_t opening;      /* the quote of a name in which the text can end; SIZE_MAX: none */
    bool is_behind_text; /* other text than white space and commas precedes the last whole name */
};

/* Finds the quotes in TEXT [n] at which a name can begin. */
static struct found find_names(const char *text, size_t n)
{
    struct found f = {.opening = SIZE_MAX};
    size_t n_blank = 0;

    while (n_blank < n && (utf8_is_blank(text[n_blank]) || text[n_blank] == ','))
        n_blank++;
    for (size_t i = 0; i < n; i++) {
        size_t end = i + 1, before = i, n_name;

        if (text[i] != '"')
            continue;
        while (before > 0 && utf8_is_blank(text[before - 1]))
            before--;
        if (before > 0 && !strchr("{[,", text[before - 1]))
            continue;
        while (end < n && text[end] != '"')
            end += text[end] == '\\' ? 2 : 1;
        if (end >= n) {
            f.opening = i;
            continue;
        }
        n_name = end - i - 1;
        for (end++; end < n && utf8_is_blank(text[end]);)
            end++;
        if (end < n && !strchr(":,]", text[end]))
            continue;
        f.n_whole++;
        f.quote = i;
        f.n = n_name;
        f.is_behind_text = i > n_blank;
    }
    return f;
}

static bool list_token(struct names_list *list, struct names_token token)
{
    if (!mem_grow((void **)&list->token, &list->cap, list->n + 1, sizeof(*list->token), MEM_TEXT))
        return false;
    list->token[list->n++] = token;
    return true;
}

/* Adds TOKEN to the list WHOLE, or to WINDING if its name has no value. */
static bool list_whole(struct names_tokens *t, struct names_token token)
{
    const char *name;
    struct json_names_decoder d = {0};
    size_t n = 0;

    if (!mem_grow((void **)&t->text, &t->cap_text, t->n_text + token.n, 1, MEM_TEXT))
        return false;
    name = t->text + token.text + token.quote + 1;
    for (size_t i = 0; i < token.n; i++) /* a value is never longer than its spelling */
        n += json_names_decode(&d, (uint8_t)name[i], t->text + t->n_text + n);
    if (!json_names_is_whole(&d))
        return list_token(&t->winding, token);
    token.value = (uint32_t)t->n_text;
    token.n_value = (uint16_t)n;
    t->begins[n ? (uint8_t)t->text[t->n_text] : '"'] = true;
    t->n_text += n;
    return list_token(&t->whole, token);
}

/* Adds the token ID to the lists of T. */
static bool list_names(struct names_tokens *t, const struct token_trie *trie, size_t id)
{
    struct names_token token;
    struct found f;
    char *text;
    size_t n;

    if (!mem_grow((void **)&t->text, &t->cap_text, t->n_text + trie->depth + 1, 1, MEM_TEXT))
        return false;
    text = t->text + t->n_text;
    n = token_trie_text(trie, (int32_t)id, (uint8_t *)text);
    text[n] = 0;
    if (!memchr(text, '"', n))
        return true;
    if (n > 1 && text[0] != '"')
        t->pair[(uint8_t)text[0]][(uint8_t)text[1] / 32] |= UINT32_C(1) << (uint8_t)text[1] % 32;
    f = find_names(text, n);
    token = (struct names_token){.id = (int32_t)id, .text = (uint32_t)t->n_text};
    t->n_text += f.n_whole > 0 || f.opening != SIZE_MAX ? n + 1 : 0;
    if (f.opening != SIZE_MAX) {
        token.quote = (uint16_t)f.opening;
        token.n = (uint16_t)(n - f.opening - 1);
        if (!list_token(&t->opening, token))
            return false;
    }
    token.quote = (uint16_t)f.quote;
    token.n = (uint16_t)f.n;
    return f.n_whole == 0 ||
           (f.n_whole == 1 && !f.is_behind_text ? list_whole(t, token) : list_token(&t->winding, token));
}

/* Compares the values of two tokens of the list WHOLE by their indices. */
static int compare_values(const void *a, const void *b, void *tokens)
{
    const struct names_tokens *t = tokens;
    const struct names_token *x = &t->whole.token[*(const uint32_t *)a];
    const struct names_token *y = &t->whole.token[*(const uint32_t *)b];
    int order =
        memcmp(t->text + x->value, t->text + y->value, x->n_value < y->n_value ? x->n_value : y->n_value);

    return order ? order : (int)x->n_value - (int)y->n_value;
}

static bool sort_values(struct names_tokens *t)
{
    t->by_value = mem_zalloc(t->whole.n + 1, sizeof(*t->by_value), MEM_TEXT);
    for (size_t i = 0; i < t->whole.n && t->by_value; i++)
        t->by_value[i] = (uint32_t)i;
    if (t->whole.n > 1 && t->by_value)
        qsort_r(t->by_value, t->whole.n, sizeof(*t->by_value), compare_values, t);
    return t->by_value != NULL;
}

int names_tokens_open(struct names_tokens *t, const struct token_trie *trie, struct err *e)
{
    bool fine = true;

    *t = (struct names_tokens){.n_text = 0};
    for (size_t id = 0; id < trie->n_vocab && fine; id++)
        fine = trie->ending[id] == UINT32_MAX || list_names(t, trie, id);
    if (fine && sort_values(t))
        return 0;
    names_tokens_close(t);
    return err_nomem(e, "the token masks of a vocabulary");
}

void names_tokens_close(struct names_tokens *t)
{
    mem_free(t->whole.token);
    mem_free(t->winding.token);
    mem_free(t->opening.token);
    mem_free(t->by_value);
    mem_free(t->text);
    *t = (struct names_tokens){.n_text = 0};
}

/* ---- what a row says of names ---- */

enum {
    ROW_KNOWN = 1,
    ROW_IN_NAME = 2,  /* a name is being written */
    ROW_FEW = 4,      /* of the kind FEW_NAMES */
    ROW_BEFORE = 8,   /* a token of the list WHOLE can write a name */
    ROW_WINDING = 16, /* a token of the list WINDING can end a name that it begins */
    ROW_OPENS = 32,   /* a token of the list OPENING can end inside a name of the kind FEW_NAMES */
};

/* True if a name may end in TEXT behind its first byte. */
static bool ends_name(struct recognizer *r, uint32_t row, const char *text)
{
    for (size_t i = 0; text[i] && row != RECOGNIZER_DEAD; i++) {
        if (i > 0 && text[i] == '"' && recognizer_in_name(r, row) && may_have_quote(r, row))
            return true;
        row = recognizer_next(r, row, (uint8_t)text[i]);
    }
    return false;
}

/* True if a name of the kind KIND or a later kind may begin behind TEXT [n]. */
static bool begins_name(struct recognizer *r, uint32_t row, const char *text, size_t n,
                        enum grammar_name kind)
{
    const struct recognizer_scan *scan;
    size_t n_scans;

    for (size_t i = 0; i < n && row != RECOGNIZER_DEAD; i++)
        row = recognizer_next(r, row, (uint8_t)text[i]);
    n_scans = row == RECOGNIZER_DEAD ? 0 : recognizer_scans(r, row, &scan);
    for (size_t i = 0; i < n_scans; i++)
        if (scan[i].origin == 0 && grammar_name_of(r->g, scan[i].rule) >= kind)
            return true;
    return false;
}

/* True if a name of the kind KIND or a later kind may begin at the quote of a token of LIST. */
static bool begins_any(struct names *x, uint32_t row, const struct names_list *list, enum grammar_name kind,
                       const uint32_t *mask)
{
    const char *last = NULL;
    size_t n_last = 0;

    for (size_t i = 0; i < list->n; i++) {
        const struct names_token *k = &list->token[i];
        const char *text = x->tokens->text + k->text;

        if (!(mask[k->id / 32] >> k->id % 32 & 1) ||
            (last && n_last == k->quote && memcmp(last, text, n_last) == 0))
            continue;
        if (begins_name(x->r, row, text, k->quote, kind))
            return true;
        last = text;
        n_last = k->quote;
    }
    return false;
}

/* Returns what ROW, whose mask is MASK, says of names. */
static uint8_t read_row(struct names *x, uint32_t row, const uint32_t *mask)
{
    const struct names_list *winding = &x->tokens->winding;
    const struct recognizer_scan *scan;
    size_t n = recognizer_in_name(x->r, row) ? recognizer_scans(x->r, row, &scan) : 0;
    unsigned info = ROW_KNOWN;

    for (size_t i = 0; i < n; i++)
        if (has_begun(x->r, &scan[i]) && !is_behind_name(&x->r->g->regex, scan[i].term))
            info |= grammar_name_of(x->r->g, scan[i].rule) == GRAMMAR_FEW_NAMES ? ROW_IN_NAME | ROW_FEW
                                                                                : ROW_IN_NAME;
    if (begins_any(x, row, &x->tokens->whole, GRAMMAR_ANY_NAME, mask))
        info |= ROW_BEFORE;
    if (x->r->g->has_few_names && begins_any(x, row, &x->tokens->opening, GRAMMAR_FEW_NAMES, mask))
        info |= ROW_OPENS;
    for (size_t i = 0; i < winding->n && !(info & ROW_WINDING); i++) {
        const struct names_token *k = &winding->token[i];

        if (mask[k->id / 32] >> k->id % 32 & 1 && ends_name(x->r, row, x->tokens->text + k->text))
            info |= ROW_WINDING;
    }
    return (uint8_t)info;
}

/* Like read_row(), which is called once for each row. */
static uint8_t info_of(struct names *x, uint32_t row, const uint32_t *mask)
{
    struct regex_store *s = &x->r->g->regex;
    size_t before = x->cap_info;

    if (row >= x->cap_info) {
        bool fine = regex_reserve(s, (void **)&x->info, &x->cap_info, 0, (size_t)row + 1, 1);

        if (x->cap_info > before)
            memset(x->info + before, 0, x->cap_info - before);
        if (!fine)
            return ROW_KNOWN;
    }
    if (!x->info[row])
        x->info[row] = read_row(x, row, mask);
    return x->info[row];
}

/* ---- masks ---- */

/* A node on the path of a walk: the rest of an earlier name, and the spelling of the name that the path writes. */
struct names_path {
    struct names_value rest;
    struct json_names_decoder decoder;
};

/* A mask under construction. */
struct filter {
    struct names *x;
    const struct token_trie *trie;
    uint32_t row;
    struct names_text *t;
    uint32_t *mask;
    bool is_few; /* names of the kind FEW_NAMES can be written */
    size_t n_removed;
};

/* Removes the token ID if IS_WRONG, or if names_add() does not allow it. */
static void remove_token(struct filter *f, int32_t id, bool is_wrong)
{
    uint32_t bit = UINT32_C(1) << id % 32;
    size_t end;

    if (!(f->mask[id / 32] & bit))
        return;
    if (!is_wrong) {
        is_wrong = try_token(f->x, f->trie, f->row, f->t, id, &end) == RECOGNIZER_DEAD;
        names_text_cut(f->t, f->t->n);
    }
    if (is_wrong) {
        f->mask[id / 32] &= ~bit;
        f->n_removed++;
    }
}

/* Removes the tokens of the node AT, as remove_token() does. */
static void remove_at(struct filter *f, uint32_t at, bool is_wrong)
{
    const struct token_trie_node *x = &f->trie->node[at];

    for (int32_t id = x->token; id >= 0; id = x->has_more ? f->trie->same[id] : -1)
        remove_token(f, id, is_wrong);
}

/* Steps from the state P of a path by BYTE. Returns false if the name can no longer become the earlier one. */
static bool step(const struct names_text *t, const struct names_path *p, uint8_t byte, struct names_path *to)
{
    char out[4];
    size_t n;

    if (!json_names_fits(&p->decoder, byte))
        return false;
    *to = *p;
    n = json_names_decode(&to->decoder, byte, out);
    for (size_t i = 0; i < n; i++)
        if (names_value_next(t, &to->rest) != (uint8_t)out[i])
            return false;
    return true;
}

/* Returns the next byte of REST, which does not change; -1: there is none. */
static int peek(const struct names_text *t, struct names_value rest)
{
    return names_value_next(t, &rest);
}

/* True if no token below the node AT, with whose quote the name becomes an earlier one, is allowed. */
static bool excludes_all(struct filter *f, uint32_t at)
{
    const struct token_trie_node *node = f->trie->node;
    struct recognizer *r = f->x->r;
    uint32_t row = f->row, up = node[at].parent;
    char *text = f->t->text + f->t->n;

    for (size_t k = node[at].depth; k-- > 0; up = node[up].parent)
        text[k] = (char)node[up].byte;
    for (size_t k = 0; k < node[at].depth && row != RECOGNIZER_DEAD; k++)
        row = recognizer_next(r, row, (uint8_t)text[k]);
    return row == RECOGNIZER_DEAD ||
           (may_have_quote(r, row) && recognizer_next_outside(r, row, '"') == RECOGNIZER_DEAD);
}

/* Removes the tokens at and below the node AT, with whose quote the name becomes an earlier one. */
static void remove_below(struct filter *f, uint32_t at)
{
    bool all = excludes_all(f, at);

    for (uint32_t k = at; k < at + f->trie->node[at].skip; k++)
        remove_at(f, k, all);
}

/* Walks over the nodes [first, end) and below them, where path[0] is the state before a token. Removes the tokens with
 * which the name becomes the earlier one and ends, or from which on it can only do so. */
static void walk(struct filter *f, uint32_t first, uint32_t end)
{
    struct names_path *path = f->x->path;
    size_t n = 0;

    for (uint32_t i = first; i < end; n++) {
        const struct token_trie_node *x = &f->trie->node[i];
        const struct names_path *p = &path[x->depth];

        if (x->byte == '"' && p->decoder.part == 0) {
            if (json_names_is_whole(&p->decoder) && peek(f->t, p->rest) < 0)
                remove_below(f, i);
            i += x->skip;
        } else if ((!f->is_few && !x->has_quote) || !step(f->t, p, x->byte, &path[x->depth + 1])) {
            i += x->skip;
        } else {
            if (f->is_few)
                remove_at(f, i, false);
            i++;
        }
    }
    charge(f->x->r, n * BYTES_OF_STEP / NODES_OF_STEP);
}

/* True if the name that is being written can become the earlier one of which REST is left, and go on to one that does
 * not occur earlier. Then no beginning of the earlier one is used up. False also if that is unknown. */
static bool goes_on(struct filter *f, struct names_value rest)
{
    struct recognizer *r = f->x->r;
    const struct recognizer_scan *scan;
    size_t n = recognizer_scans(r, f->row, &scan);
    struct json_names_decoder d;
    struct names_value v = rest;
    struct search x;
    int byte;

    if (!search_begin(&x, r, f->t, f->t->n, &d) || !json_names_is_whole(&d) || rest.i < rest.n)
        return false;
    while ((byte = names_value_next(f->t, &v)) >= 0 && x.n < JSON_NAMES_LONGEST)
        x.value[x.n++] = (char)byte;
    for (size_t i = 0; i < n && x.n < JSON_NAMES_LONGEST; i++) {
        uint32_t state = has_begun(r, &scan[i]) ? scan[i].term : REGEX_NOTHING;

        for (size_t at = rest.at; at < rest.end && state != REGEX_NOTHING; at++)
            state = regex_next(&r->g->regex, state, (uint8_t)f->t->text[at]);
        if (state != REGEX_NOTHING && has_free_name(&x, state, (struct json_names_decoder){0}, x.n_live))
            return true;
    }
    return false;
}

/* True if the character that begins with BYTE has one spelling; false also for others. */
static bool has_one_spelling(int byte)
{
    return ((byte | 32) >= 'a' && (byte | 32) <= 'z') || (byte >= '0' && byte <= '9') || byte == '_' ||
           byte == '-' || byte == ' ' || byte == '.';
}

/* True if no token has REST [n], n > 0, the rest of an earlier name that has no escapes, and a quote behind it. */
static bool lacks_quote(const struct names_tokens *t, const char *rest, size_t n)
{
    unsigned a = (uint8_t)rest[0], b = n > 1 ? (uint8_t)rest[1] : '"';

    return has_one_spelling((int)a) && !(t->pair[a][b / 32] >> b % 32 & 1) &&
           (b == '"' || has_one_spelling((int)b) || !(t->pair[a]['\\' / 32] >> '\\' % 32 & 1));
}

/* Removes the tokens with which the name that is being written becomes an earlier one, of which f->x->path[0] has the
 * rest. */
static void remove_earlier(struct filter *f)
{
    const struct names_path *p = &f->x->path[0];
    int byte = peek(f->t, p->rest);
    uint32_t of[2];
    size_t n = 0;

    charge(f->x->r, BYTES_OF_STEP);
    if (!json_names_is_whole(&p->decoder)) {
        walk(f, 0, (uint32_t)f->trie->n);
        return;
    }
    of[n++] = f->trie->first[byte < 0 ? '"' : byte];
    if (byte >= 0 && !has_one_spelling(byte))
        of[n++] = f->trie->first['\\'];
    for (size_t i = 0; i < n; i++)
        if (of[i] != UINT32_MAX)
            walk(f, of[i], of[i] + f->trie->node[of[i]].skip);
}

/* Removes tokens inside a name. */
static void filter_name(struct filter *f)
{
    struct names_text *t = f->t;
    size_t begin = names_text_begin(t, t->n), n = t->n - begin, n_older = 0;
    bool is_plain = n == 0 || !memchr(t->text + begin, '\\', n), is_few = f->is_few;
    struct names_path *p = &f->x->path[0];
    char out[4];

    for (uint32_t i = name_before(f->x->r, t, begin); i; i = t->entry[i - 1].older, n_older++) {
        const struct names_entry *e = &t->entry[i - 1];

        if (is_plain && !e->has_escape) {
            size_t left = e->end - e->at - n;

            if (e->end - e->at < n || memcmp(t->text + e->at, t->text + begin, n) != 0 ||
                (!is_few && left > 0 && lacks_quote(f->x->tokens, t->text + e->end - left, left)))
                continue;
            p->rest = (struct names_value){.at = e->at + n, .end = e->end};
        } else if (!names_value_begins(t, e, begin, t->n, &p->rest)) {
            continue;
        }
        p->decoder = (struct json_names_decoder){0};
        for (size_t k = begin; k < t->n && !is_plain; k++)
            json_names_decode(&p->decoder, (uint8_t)t->text[k], out);
        f->is_few = is_few && !goes_on(f, p->rest);
        remove_earlier(f);
    }
    charge(f->x->r, n_older * BYTES_OF_STEP / 8);
}

/* Compares the value of the name E with that of the token X. */
static int compare_name(const struct filter *f, const struct names_entry *e, const struct names_token *x)
{
    const char *value = f->x->tokens->text + x->value;
    struct names_value v = {.at = e->at, .end = e->end};
    int byte;

    for (size_t i = 0; i < x->n_value; i++)
        if ((byte = names_value_next(f->t, &v)) != (uint8_t)value[i])
            return byte - (uint8_t)value[i];
    return names_value_next(f->t, &v) < 0 ? 0 : 1;
}

/* Returns the place in by_value of the first token whose value is not less than that of the name E. */
static size_t find_value(const struct filter *f, const struct names_entry *e)
{
    const struct names_tokens *k = f->x->tokens;
    size_t low = 0, high = k->whole.n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare_name(f, e, &k->whole.token[k->by_value[middle]]) > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Removes tokens of the list WHOLE. The text ends outside of strings, and the object that these tokens name a property
 * of is the innermost one. */
static void filter_whole(struct filter *f)
{
    const struct names_tokens *k = f->x->tokens;
    size_t n_older = 0;

    for (uint32_t i = name_before(f->x->r, f->t, f->t->n + 1); i; n_older++) {
        const struct names_entry e = f->t->entry[i - 1]; /* a copy: trials of tokens record names */
        struct names_value v = {.at = e.at, .end = e.end};
        int byte = names_value_next(f->t, &v);

        for (size_t at = k->begins[byte < 0 ? '"' : byte] ? find_value(f, &e) : k->whole.n;
             at < k->whole.n && compare_name(f, &e, &k->whole.token[k->by_value[at]]) == 0; at++)
            remove_token(f, k->whole.token[k->by_value[at]].id, false);
        i = e.older;
    }
    charge(f->x->r, n_older * BYTES_OF_STEP / 2);
}

/* Removes tokens of the list OPENING. */
static void filter_opening(struct filter *f)
{
    const struct names_list *list = &f->x->tokens->opening;
    const struct names_text *t = f->t;
    bool begins[256] = {false};

    for (size_t i = 0; i < t->n_entries; i++)
        begins[(uint8_t)t->text[t->entry[i].at]] = true;
    for (size_t i = 0; i < list->n; i++) {
        const struct names_token *k = &list->token[i];
        const char *text = f->x->tokens->text + k->text;
        uint8_t next = (uint8_t)text[k->quote + 1];

        /* a token with another quote may end a name before it begins this one */
        if (memchr(text, '"', k->quote) ||
            (t->n_entries > 0 && (k->n == 0 || begins[next] || !has_one_spelling(next))))
            remove_token(f, k->id, false);
    }
    charge(f->x->r, t->n_entries);
}

size_t names_filter(struct names *x, const struct token_trie *trie, uint32_t row, struct names_text *t,
                    uint32_t *mask)
{
    struct filter f = {.x = x, .trie = trie, .row = row, .t = t, .mask = mask};
    uint8_t info = info_of(x, row, mask);

    f.is_few = info & ROW_FEW;
    if (info & ROW_BEFORE)
        filter_whole(&f);
    for (size_t i = 0; info & ROW_WINDING && i < x->tokens->winding.n; i++)
        remove_token(&f, x->tokens->winding.token[i].id, false);
    if (info & ROW_OPENS)
        filter_opening(&f);
    if (info & ROW_IN_NAME)
        filter_name(&f);
    return f.n_removed;
}

int names_open(struct names *x, struct recognizer *r, const struct names_tokens *tokens, size_t depth,
               struct err *e)
{
    *x = (struct names){.r = r, .tokens = tokens};
    x->path = mem_zalloc(depth + 1, sizeof(*x->path), MEM_TEXT);
    return x->path ? 0 : err_nomem(e, "a constraint");
}

void names_close(struct names *x)
{
    mem_free(x->path);
    mem_free(x->info);
    *x = (struct names){0};
}
