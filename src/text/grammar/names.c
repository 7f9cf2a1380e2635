/* names.c - reads the text of an answer backwards to find the earlier names of the object that is being written.
 *
 * An item inside a name says that the text before it is the beginning of an object. The object's names can therefore
 * be found by brackets, quotes and colons alone, whatever precedes the object.
 */
#include "text/grammar/names.h"

#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "text/grammar/schema/json_names.h"

enum { BYTES_OF_STEP = 64 /* bytes of text that are read in the time of a step of the recognizer */ };

/* ---- names in a text ---- */

/* True if an odd number of backslashes precedes TEXT[at]. */
static bool is_escaped(const char *text, size_t at)
{
    size_t n = 0;

    while (n < at && text[at - 1 - n] == '\\')
        n++;
    return n % 2 == 1;
}

/* Returns the offset behind the quote that begins the string to which TEXT[end - 1] belongs. */
static size_t string_begin(const char *text, size_t end)
{
    const char *quote = end ? memrchr(text, '"', end) : NULL;

    while (quote && is_escaped(text, (size_t)(quote - text)))
        quote = quote > text ? memrchr(text, '"', (size_t)(quote - text)) : NULL;
    return quote ? (size_t)(quote - text) + 1 : 0;
}

/* The contents of a string: text[at, end). */
struct span {
    size_t at, end;
};

/* The earlier names of an object, from the last one to the first. */
struct earlier {
    const char *text;
    size_t at; /* text[at ..] is already read */
};

/* Returns the earlier names of the object of the name that begins at TEXT[begin]. */
static struct earlier names_before(const char *text, size_t begin)
{
    return (struct earlier){text, begin ? begin - 1 : 0};
}

/* Finds the next earlier name. False: there is none. */
static bool next_earlier(struct earlier *x, struct span *name)
{
    size_t depth = 0, end;
    bool is_name = false;

    while (x->at > 0)
        switch (x->text[--x->at]) {
        case '"':
            end = x->at;
            *name = (struct span){string_begin(x->text, end), end};
            x->at = name->at ? name->at - 1 : 0;
            if (is_name)
                return true;
            break;
        case ':': is_name = depth == 0; break;
        case '}':
        case ']': depth++; break;
        case '{':
        case '[':
            if (depth-- == 0)
                return false;
            break;
        default: break;
        }
    return false;
}

/* A position in the value of a name, which is decoded from its spelling. */
struct value {
    size_t at, end; /* the bytes of the text that are left */
    struct json_names_decoder decoder;
    char byte[4]; /* [n] decoded bytes, of which the first I are already returned */
    uint8_t n, i;
};

/* Returns the next byte of the value; -1: the text ends before there is one. */
static int next_byte(const char *text, struct value *v)
{
    while (v->i == v->n) {
        if (v->at == v->end)
            return -1;
        v->i = 0;
        v->n = (uint8_t)json_names_decode(&v->decoder, (uint8_t)text[v->at++], v->byte);
    }
    return (uint8_t)v->byte[v->i++];
}

/* If the value of NAME begins with the value of TEXT[begin, end), sets *REST to the rest of it, and returns true. */
static bool begins_with(const char *text, struct span name, size_t begin, size_t end, struct value *rest)
{
    struct value v = {.at = begin, .end = end};
    int byte;

    *rest = (struct value){.at = name.at, .end = name.end};
    while ((byte = next_byte(text, &v)) >= 0)
        if (next_byte(text, rest) != byte)
            return false;
    return true;
}

static void charge(struct recognizer *r, size_t n_bytes)
{
    struct regex_store *s = &r->g->regex;

    s->steps += n_bytes / BYTES_OF_STEP;
    if (s->steps > s->max_steps && s->fault == REGEX_FINE)
        s->fault = REGEX_OVER_WORK;
}

/* True if the name that TEXT [n] ends with occurs earlier in its object. */
static bool is_repeated(struct recognizer *r, const char *text, size_t n)
{
    size_t begin = string_begin(text, n);
    struct earlier names = names_before(text, begin);
    bool is_found = false;
    struct value rest;
    struct span name;

    while (!is_found && next_earlier(&names, &name))
        is_found = begins_with(text, name, begin, n, &rest) && next_byte(text, &rest) < 0;
    charge(r, n - names.at);
    return is_found;
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

uint32_t names_next(struct recognizer *r, uint32_t row, const char *text, size_t at)
{
    if (text[at] == '"' && recognizer_in_name(r, row) && may_have_quote(r, row) && !is_escaped(text, at) &&
        is_repeated(r, text, at))
        return recognizer_next_outside(r, row, '"');
    return recognizer_next(r, row, (uint8_t)text[at]);
}

bool names_match(struct recognizer *r, const char *text, size_t n)
{
    uint32_t row = RECOGNIZER_BEGIN;

    for (size_t i = 0; i < n && row != RECOGNIZER_DEAD; i++)
        row = names_next(r, row, text, i);
    return row != RECOGNIZER_DEAD && recognizer_may_end(r, row);
}

/* True if the states of TERM have matched a whole name: what follows is a colon and white space. */
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
    const char *text; /* the text up to the name that is being written, which begins at BEGIN */
    size_t begin;
    bool is_given; /* the text ends inside an escape, which need not be canonical */
    size_t n;      /* bytes of the value so far */
    char value[JSON_NAMES_LONGEST + 4];
};

/* Compares the value so far with the earlier names. *IS_ONE: it is one of them. Returns whether it begins one. */
static bool begins_earlier(struct search *x, bool *is_one)
{
    struct earlier names = names_before(x->text, x->begin);
    bool begins = false;
    struct span name;

    *is_one = false;
    while (next_earlier(&names, &name)) {
        struct value v = {.at = name.at, .end = name.end};
        size_t i = 0;

        while (i < x->n && next_byte(x->text, &v) == (uint8_t)x->value[i])
            i++;
        begins = begins || i == x->n;
        *is_one = *is_one || (i == x->n && next_byte(x->text, &v) < 0);
    }
    charge(x->r, BYTES_OF_STEP + x->begin - names.at);
    return begins;
}

/* True if a name that STATE, behind the value so far and D, matches does not occur earlier, or if that is unknown. */
static bool has_free_name(struct search *x, uint32_t state, struct json_names_decoder d)
{
    struct regex_store *s = &x->r->g->regex;
    bool is_given = x->is_given, is_one;
    struct regex_set first;

    if (s->fault != REGEX_FINE || x->n > JSON_NAMES_LONGEST ||
        (json_names_is_whole(&d) &&
         (!begins_earlier(x, &is_one) || (!is_one && regex_next(s, state, '"') != REGEX_NOTHING))))
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
        is_free = !after.is_odd && has_free_name(x, to, after);
        x->n -= n;
        x->is_given = is_given;
        if (is_free)
            return true;
    }
    return false;
}

/* Begins a search for the name that TEXT [n] ends with. False: it is too long to search. */
static bool search_begin(struct search *x, struct recognizer *r, const char *text, size_t n,
                         struct json_names_decoder *d)
{
    *d = (struct json_names_decoder){0};
    x->r = r;
    x->text = text;
    x->begin = string_begin(text, n);
    x->n = 0;
    for (size_t i = x->begin; i < n; i++) {
        if (x->n > JSON_NAMES_LONGEST)
            return false;
        x->n += json_names_decode(d, (uint8_t)text[i], x->value + x->n);
    }
    d->is_odd = false; /* only what follows must be canonical */
    x->is_given = !json_names_is_whole(d);
    return true;
}

/* True if ROW, to which TEXT [n] leads, is inside a name of the kind FEW_NAMES, and all its ends occur earlier. */
static bool is_used_up(struct recognizer *r, uint32_t row, const char *text, size_t n)
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
    if (!search_begin(&x, r, text, n, &d))
        return false;
    for (size_t i = 0; i < n_scans; i++) /* a search adds no rows, so that SCAN stays valid */
        if (has_free_name(&x, scan[i].term, d))
            return false;
    return true;
}

/* ---- tokens ---- */

uint32_t names_add(const struct names *x, const struct token_trie *trie, uint32_t row, char *text, size_t *n,
                   int32_t token)
{
    size_t end = *n + token_trie_text(trie, token, (uint8_t *)text + *n);

    for (size_t i = *n; i < end && row != RECOGNIZER_DEAD; i++)
        row = names_next(x->r, row, text, i);
    if (end == *n || row == RECOGNIZER_DEAD || is_used_up(x->r, row, text, end) ||
        x->r->g->regex.fault != REGEX_FINE)
        return RECOGNIZER_DEAD;
    *n = end;
    return row;
}

/* Finds quotes in TEXT [n] at which a name can begin. *HAS_NAME: one of these names can end in the text, too. *OPENS:
 * the text can end inside one of them. */
static void find_names(const char *text, size_t n, bool *has_name, bool *opens)
{
    *has_name = *opens = false;
    for (size_t i = 0; i < n; i++) {
        size_t end = i + 1, before = i;

        if (text[i] != '"')
            continue;
        while (before > 0 && utf8_is_blank(text[before - 1]))
            before--;
        if (before > 0 && text[before - 1] != '{' && text[before - 1] != ',' && text[before - 1] != '\\')
            continue;
        while (end < n && text[end] != '"')
            end += text[end] == '\\' ? 2 : 1;
        if (end >= n) {
            *opens = true;
            continue;
        }
        for (end++; end < n && utf8_is_blank(text[end]);)
            end++;
        *has_name = *has_name || end == n || text[end] == ':';
    }
}

static bool list_token(struct names_list *list, size_t id)
{
    if (!mem_grow((void **)&list->id, &list->cap, list->n + 1, sizeof(*list->id), MEM_TEXT))
        return false;
    list->id[list->n++] = (int32_t)id;
    return true;
}

int names_tokens_open(struct names_tokens *t, const struct token_trie *trie, struct err *e)
{
    uint8_t *text = mem_alloc(trie->depth + 1, MEM_TEXT);
    bool fine = text != NULL, has_name, opens;

    *t = (struct names_tokens){.whole.n = 0};
    for (size_t id = 0; id < trie->n_vocab && fine; id++) {
        find_names((const char *)text, token_trie_text(trie, (int32_t)id, text), &has_name, &opens);
        fine = (!has_name || list_token(&t->whole, id)) && (!opens || list_token(&t->opening, id));
    }
    mem_free(text);
    if (fine)
        return 0;
    names_tokens_close(t);
    return err_nomem(e, "the token masks of a vocabulary");
}

void names_tokens_close(struct names_tokens *t)
{
    mem_free(t->whole.id);
    mem_free(t->opening.id);
    *t = (struct names_tokens){.whole.n = 0};
}

/* ---- masks ---- */

/* A node on the path of a walk: the rest of an earlier name, and the spelling of the name that the path writes. */
struct names_path {
    struct value rest;
    struct json_names_decoder decoder;
};

/* A mask under construction. */
struct filter {
    const struct names *x;
    const struct token_trie *trie;
    uint32_t row;
    char *text; /* [n] */
    size_t n;
    uint32_t *mask;
    bool is_few; /* names of the kind FEW_NAMES can be written */
    size_t n_removed;
};

/* Removes the token ID if IS_WRONG, or if names_add() does not allow it. */
static void remove_token(struct filter *f, int32_t id, bool is_wrong)
{
    uint32_t bit = UINT32_C(1) << id % 32;
    size_t n = f->n;

    if (f->mask[id / 32] & bit &&
        (is_wrong || names_add(f->x, f->trie, f->row, f->text, &n, id) == RECOGNIZER_DEAD)) {
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
static bool step(const char *text, const struct names_path *p, uint8_t byte, struct names_path *to)
{
    char out[4];
    size_t n;

    *to = *p;
    n = json_names_decode(&to->decoder, byte, out);
    for (size_t i = 0; i < n; i++)
        if (next_byte(text, &to->rest) != (uint8_t)out[i])
            return false;
    return true;
}

/* True if no byte of the value is left. */
static bool is_at_end(const char *text, struct value rest)
{
    return next_byte(text, &rest) < 0;
}

/* True if no token below the node AT, with whose quote the name ends, is allowed. */
static bool excludes_all(struct filter *f, uint32_t at)
{
    const struct token_trie_node *node = f->trie->node;
    struct recognizer *r = f->x->r;
    uint32_t row = f->row, up = node[at].parent;
    size_t n = f->n;

    for (size_t k = node[at].depth; k-- > 0; up = node[up].parent)
        f->text[n + k] = (char)node[up].byte;
    for (size_t k = 0; k < node[at].depth && row != RECOGNIZER_DEAD; k++)
        row = names_next(r, row, f->text, n++);
    return row == RECOGNIZER_DEAD ||
           (may_have_quote(r, row) && recognizer_next_outside(r, row, '"') == RECOGNIZER_DEAD);
}

/* Removes the tokens at and below the node AT, with whose quote the name becomes the earlier one and ends. */
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

    for (uint32_t i = first; i < end;) {
        const struct token_trie_node *x = &f->trie->node[i];
        const struct names_path *p = &path[x->depth];

        if (x->byte == '"' && p->decoder.part == 0) {
            if (json_names_is_whole(&p->decoder) && is_at_end(f->text, p->rest))
                remove_below(f, i);
            i += x->skip;
        } else if ((!f->is_few && !x->has_quote) || !step(f->text, p, x->byte, &path[x->depth + 1])) {
            i += x->skip;
        } else {
            if (f->is_few)
                remove_at(f, i, false);
            i++;
        }
    }
}

/* True if the name that is being written can become the earlier one of which REST is left, and go on to one that does
 * not occur earlier. Then no beginning of the earlier one is used up. False also if that is unknown. */
static bool goes_on(struct filter *f, struct value rest)
{
    struct recognizer *r = f->x->r;
    const struct recognizer_scan *scan;
    size_t n = recognizer_scans(r, f->row, &scan);
    struct json_names_decoder d;
    struct search x;
    int byte;

    if (!search_begin(&x, r, f->text, f->n, &d) || !json_names_is_whole(&d) || rest.i < rest.n)
        return false;
    for (struct value v = rest; (byte = next_byte(f->text, &v)) >= 0 && x.n < JSON_NAMES_LONGEST;)
        x.value[x.n++] = (char)byte;
    for (size_t i = 0; i < n && x.n < JSON_NAMES_LONGEST; i++) {
        uint32_t state = has_begun(r, &scan[i]) ? scan[i].term : REGEX_NOTHING;

        for (size_t at = rest.at; at < rest.end && state != REGEX_NOTHING; at++)
            state = regex_next(&r->g->regex, state, (uint8_t)f->text[at]);
        if (state != REGEX_NOTHING && has_free_name(&x, state, (struct json_names_decoder){0}))
            return true;
    }
    return false;
}

/* Removes the tokens with which the name that is being written becomes an earlier one, of which f->x->path[0] has the
 * rest. */
static void remove_earlier(struct filter *f)
{
    const struct names_path *p = &f->x->path[0];
    struct value rest = p->rest;
    int byte = next_byte(f->text, &rest);
    uint32_t of[2];
    size_t n = 0;

    charge(f->x->r, BYTES_OF_STEP);
    if (!json_names_is_whole(&p->decoder)) {
        walk(f, 0, (uint32_t)f->trie->n);
        return;
    }
    of[n++] = f->trie->first[byte < 0 ? '"' : byte];
    /* letters and digits have one spelling */
    if (byte >= 0 && !((byte | 32) >= 'a' && (byte | 32) <= 'z') && !(byte >= '0' && byte <= '9'))
        of[n++] = f->trie->first['\\'];
    for (size_t i = 0; i < n; i++)
        if (of[i] != UINT32_MAX)
            walk(f, of[i], of[i] + f->trie->node[of[i]].skip);
}

/* Sets f->is_few. Returns whether a name is being written at f->row. */
static bool read_row(struct filter *f)
{
    struct recognizer *r = f->x->r;
    const struct recognizer_scan *scan;
    size_t n = recognizer_in_name(r, f->row) ? recognizer_scans(r, f->row, &scan) : 0;
    bool is_in_name = false;

    for (size_t i = 0; i < n; i++)
        if (has_begun(r, &scan[i]) && !is_behind_name(&r->g->regex, scan[i].term)) {
            is_in_name = true;
            f->is_few = f->is_few || grammar_name_of(r->g, scan[i].rule) == GRAMMAR_FEW_NAMES;
        }
    return is_in_name;
}

size_t names_filter(const struct names *x, const struct token_trie *trie, uint32_t row, char *text, size_t n,
                    uint32_t *mask)
{
    struct filter f = {.x = x, .trie = trie, .row = row, .text = text, .n = n, .mask = mask};
    struct earlier names;
    struct span name;
    size_t begin;
    bool is_few;

    for (size_t i = 0; i < x->tokens->whole.n; i++)
        remove_token(&f, x->tokens->whole.id[i], false);
    for (size_t i = 0; x->r->g->has_few_names && i < x->tokens->opening.n; i++)
        remove_token(&f, x->tokens->opening.id[i], false);
    if (!read_row(&f))
        return f.n_removed;
    is_few = f.is_few;
    begin = string_begin(text, n);
    names = names_before(text, begin);
    while (next_earlier(&names, &name))
        if (begins_with(text, name, begin, n, &x->path[0].rest)) {
            struct json_names_decoder *d = &x->path[0].decoder;
            char out[4];

            *d = (struct json_names_decoder){0};
            for (size_t i = begin; i < n; i++)
                json_names_decode(d, (uint8_t)text[i], out);
            f.is_few = is_few && !goes_on(&f, x->path[0].rest);
            remove_earlier(&f);
        }
    charge(x->r, n - names.at);
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
    *x = (struct names){0};
}
