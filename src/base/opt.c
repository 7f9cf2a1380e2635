/* opt.c - parses options with getopt_long(), fills structs, and prints help pages. */
#include "base/opt.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/near.h"

enum { HELP_COLUMNS = 80, HELP_INDENT = 26, FIRST_LONG = 256 };

struct opt_slot {
    const struct opt_row *row;
    enum opt_source source;
    struct param_value *value; /* [n] */
    size_t n;
};

/* Returns the name, type, allowed values and member of ROW. */
static struct param param_of(const struct opt_row *row)
{
    return (struct param){row->name, row->type, row->values, row->into};
}

static bool is_number(const struct opt_row *row)
{
    return row->type == PARAM_INT || row->type == PARAM_REAL;
}

const char *opt_arg(const struct opt_row *row)
{
    static const char *const name[] = {"flag", "N", "N", "X", "TEXT", "CHOICE"};

    if (row->arg)
        return row->arg;
    return row->type == PARAM_CHOICE ? row->values : name[row->type];
}

/* Writes the source of a bad value to TEXT for messages: "--name" or "NAME in the environment". Returns TEXT. */
static const char *origin(const struct opt_row *row, enum opt_source source, char *text, size_t size)
{
    if (source == OPT_ENV)
        snprintf(text, size, "%s in the environment", row->env);
    else
        snprintf(text, size, "--%s", row->name);
    return text;
}

/* Sets the error for FOUND, which is not a choice of ROW: the reason why this word is refused, if the row has one, else
 * the list of choices and the most similar one. */
static int bad_choice(const struct opt_row *row, const char *where, const char *found, struct err *e)
{
    struct near near;

    near_begin(&near, found, strlen(found));
    near_offer_list(&near, row->values);
    for (const struct opt_word *w = row->words; w && w->text; w++) {
        if (!w->means && strcasecmp(w->text, found) == 0)
            return err_set(e, ERR_USAGE, "%s: found '%s', %s", where, found, w->refusal);
        if (w->means)
            near_offer(&near, w->text, strlen(w->text));
    }
    if (near.name)
        return err_set(e, ERR_USAGE, "%s: found '%s', expected one of %s; did you mean %.*s?", where, found,
                       row->values, (int)near.name_len, near.name);
    return err_set(e, ERR_USAGE, "%s: found '%s', expected one of %s", where, found, row->values);
}

static int bad_value(const struct opt_row *row, enum opt_source source, const char *found, struct err *e)
{
    const struct param p = param_of(row);
    char where[160], expected[160];

    origin(row, source, where, sizeof(where));
    if (row->type == PARAM_CHOICE)
        return bad_choice(row, where, found, e);
    return err_set(e, ERR_USAGE, "%s: found '%s', expected %s", where, found,
                   row->type == PARAM_FLAG   ? "1 or 0"
                   : row->type == PARAM_BITS ? "a whole number from 0 to 18446744073709551615"
                                             : param_expected(&p, expected, sizeof(expected)));
}

static bool read_flag(const char *text, int64_t *v)
{
    static const char *const word[2][4] = {{"0", "false", "no", "off"}, {"1", "true", "yes", "on"}};

    for (int yes = 0; yes < 2; yes++)
        for (int i = 0; i < 4; i++)
            if (strcasecmp(text, word[yes][i]) == 0) {
                *v = yes;
                return true;
            }
    return false;
}

/* Sets V to the choice whose name or other spelling is TEXT. False: there is no such choice. */
static bool read_choice(const struct opt_row *row, const char *text, struct param_value *v)
{
    for (const struct opt_word *w = row->words; w && w->text; w++)
        if (w->means && strcasecmp(w->text, text) == 0)
            v->text = text = w->means;
    v->i = param_index(row->values, text, strlen(text));
    return v->i >= 0;
}

/* Converts TEXT to a value of ROW's type and range. False: TEXT is not such a value. */
static bool convert(const struct opt_row *row, const char *text, struct param_value *v)
{
    char *end;

    *v = (struct param_value){.text = text};
    errno = 0;
    switch (row->type) {
    case PARAM_FLAG: return read_flag(text, &v->i);
    case PARAM_INT:
        v->i = strtoll(text, &end, 10);
        v->f = (double)v->i;
        break;
    case PARAM_BITS:
        if (strchr(text, '-')) /* strtoull() converts "-1" to 2^64 - 1 */
            return false;
        v->i = (int64_t)strtoull(text, &end, 10);
        break;
    case PARAM_REAL:
        v->f = strtod(text, &end);
        errno = 0; /* accepts underflow to 0 */
        break;
    case PARAM_CHOICE: return read_choice(row, text, v);
    default: return true;
    }
    return end != text && *end == 0 && errno == 0 && param_in_range(row->values, v->f);
}

bool opt_has_name(const struct opt_row *row, const char *name, size_t n)
{
    return param_index(row->name, name, n) == 0 || param_index(row->aliases, name, n) >= 0;
}

/* Returns whether ROW's member can hold every value that the row allows. */
static bool fits_member(const struct opt_row *row)
{
    const struct param p = param_of(row);

    return row->repeat || row->into.kind == PARAM_TO_LIST ? row->into.kind == PARAM_TO_LIST : param_fits(&p);
}

/* Asserts that all members of a row are in the struct whose size the table gives. */
static void check_members(const struct opt_part *table)
{
    for (const struct opt_part *part = table; part->rows; part++)
        for (const struct opt_row *r = part->rows; r->name; r++) {
            size_t outer = r->into.outer;

            ASSERT(!r->into.kind || fits_member(r), "--%s: its member does not fit", r->name);
            ASSERT((!r->source.kind || r->source.outer == outer) && (!r->mark.kind || r->mark.outer == outer),
                   "--%s: members of several structs", r->name);
            ASSERT(!part->size || !outer || part->size == outer, "--%s: the table has another struct for it",
                   r->name);
        }
}

/* Asserts the rules of struct opt_row that the compiler cannot check. */
static void check_rows(const struct opt_values *v)
{
    for (size_t i = 0; i < v->n_rows; i++) {
        const struct opt_row *r = v->slot[i].row;
        struct param_value value;
        struct param_range range;

        ASSERT(r->help, "--%s: help", r->name);
        ASSERT(is_number(r) ? param_range(r->values, &range) : r->type != PARAM_CHOICE || r->values,
               "--%s: values '%s'", r->name, r->values ? r->values : "");
        ASSERT(!r->bare || r->type == PARAM_TEXT, "--%s: bare", r->name);
        ASSERT(!r->fallback || (!r->repeat && r->type != PARAM_FLAG && convert(r, r->fallback, &value)),
               "--%s: default '%s'", r->name, r->fallback ? r->fallback : "");
        for (size_t j = 0; j < i; j++)
            ASSERT(!opt_has_name(v->slot[j].row, r->name, strlen(r->name)) &&
                       !opt_has_name(r, v->slot[j].row->name, strlen(v->slot[j].row->name)) &&
                       (r->brief == 0 || v->slot[j].row->brief != r->brief),
                   "--%s and --%s clash", v->slot[j].row->name, r->name);
    }
}

static int add_value(struct opt_values *v, struct opt_slot *s, enum opt_source source, const char *text,
                     struct err *e)
{
    struct param_value one;

    if (!convert(s->row, text, &one))
        return bad_value(s->row, source, text, e);
    if (s->n == 0 || s->row->repeat) {
        /* At powers of two the array is full and is replaced by a larger one. */
        if ((s->n & (s->n - 1)) == 0) {
            struct param_value *grown = arena_zalloc(&v->arena, s->n ? 2 * s->n : 1, sizeof(*grown));

            if (!grown)
                return err_nomem(e, "command-line options");
            if (s->n)
                memcpy(grown, s->value, s->n * sizeof(*grown));
            s->value = grown;
        }
        s->n++;
    }
    s->value[s->n - 1] = one;
    s->source = source;
    return 0;
}

/* Appends an entry to getopt's table at *L for each name of ROW. All entries return VAL. */
static int add_longs(struct opt_values *v, const struct opt_row *row, int val, struct option **l,
                     struct err *e)
{
    const struct option one = {.name = row->name,
                               .has_arg = row->type == PARAM_FLAG ? no_argument
                                          : row->bare             ? optional_argument
                                                                  : required_argument,
                               .val = val};

    *(*l)++ = one;
    for (const char *p = row->aliases; p && *p; p += *p == '|') {
        size_t n = strcspn(p, "|");
        char *name = arena_strndup(&v->arena, p, n);

        if (!name)
            return err_nomem(e, "command-line options");
        **l = one;
        (*l)++->name = name;
        p += n;
    }
    return 0;
}

static size_t count_names(const struct opt_values *v)
{
    size_t n = v->n_rows;

    for (size_t i = 0; i < v->n_rows; i++)
        for (const char *p = v->slot[i].row->aliases; p; p = strchr(p + 1, '|'))
            n++;
    return n;
}

/* Makes getopt's tables. Long options return FIRST_LONG + the index of their row. */
static int make_getopt(struct opt_values *v, struct option **longs, char **shorts, struct err *e)
{
    char *s = arena_alloc(&v->arena, 3 * v->n_rows + 3);
    struct option *l = arena_zalloc(&v->arena, count_names(v) + 1, sizeof(*l));
    int rc;

    if (!s || !l)
        return err_nomem(e, "command-line options");
    *longs = l;
    *shorts = s;
    *s++ = '-'; /* '-': getopt returns positional arguments in order, as option 1 */
    *s++ = ':'; /* ':': getopt returns ':' for a missing value, and prints nothing */
    for (size_t i = 0; i < v->n_rows; i++) {
        const struct opt_row *r = v->slot[i].row;

        if ((rc = add_longs(v, r, FIRST_LONG + (int)i, &l, e)) != 0)
            return rc;
        if (r->brief) {
            *s++ = r->brief;
            if (r->type != PARAM_FLAG)
                *s++ = ':';
            if (r->bare)
                *s++ = ':';
        }
    }
    *s = 0;
    return 0;
}

/* Returns the slot for getopt's return value C, or NULL. */
static struct opt_slot *slot_for(const struct opt_values *v, int c)
{
    if (c >= FIRST_LONG && (size_t)(c - FIRST_LONG) < v->n_rows)
        return &v->slot[c - FIRST_LONG];
    for (size_t i = 0; i < v->n_rows && c > 1; i++)
        if (v->slot[i].row->brief == c)
            return &v->slot[i];
    return NULL;
}

/* Sets the error for WORD [n], which begins with two dashes and matches no option or several. */
static int unknown_option(const struct opt_values *v, const char *word, size_t n, struct err *e)
{
    size_t matches = 0;
    struct near near;

    near_begin(&near, word + 2, n - 2);
    for (size_t i = 0; i < v->n_rows; i++) {
        const struct opt_row *r = v->slot[i].row;

        matches += strncmp(r->name, word + 2, n - 2) == 0;
        near_offer(&near, r->name, strlen(r->name));
        if (r->aliases)
            near_offer_list(&near, r->aliases);
    }
    if (matches > 1)
        return err_set(e, ERR_USAGE, "%.*s: several options begin like this; --help all lists them", (int)n,
                       word);
    if (near.name)
        return err_set(e, ERR_USAGE, "%.*s: there is no such option; did you mean --%.*s?", (int)n, word,
                       (int)near.name_len, near.name);
    return err_set(e, ERR_USAGE, "%.*s: there is no such option; --help all lists them", (int)n, word);
}

/* Sets the error for WORD, for which getopt returned C ('?' or ':') and set optopt. */
static int bad_option(const struct opt_values *v, int c, const char *word, struct err *e)
{
    const struct opt_slot *s = slot_for(v, optopt);
    int n = (int)strcspn(word, "=");

    if (s && c == ':')
        return err_set(e, ERR_USAGE, "--%s: found nothing after it, expected %s", s->row->name,
                       opt_arg(s->row));
    if (s && s->row->type == PARAM_FLAG)
        return err_set(e, ERR_USAGE, "--%s: found '%s', but it takes no value", s->row->name, word);
    if (strncmp(word, "--", 2) != 0)
        return err_set(e, ERR_USAGE, "-%c: there is no such option; --help all lists them", optopt);
    return unknown_option(v, word, (size_t)n, e);
}

static int read_arguments(struct opt_values *v, int argc, char **argv, const struct option *longs,
                          const char *shorts, struct err *e)
{
    static char no_value[] = "";
    int c, rc = 0;

    optind = 0; /* resets glibc's getopt */
    opterr = 0;
    while (rc == 0) {
        int at = optind > 0 ? optind : 1;
        struct opt_slot *s;

        optopt = 0;
        c = getopt_long(argc, argv, shorts, longs, NULL);
        if (c == -1)
            break;
        if (c == 1) {
            v->args[v->n_args++] = optarg;
            continue;
        }
        if (c == '?' || c == ':')
            return bad_option(v, c, argv[at], e);
        s = slot_for(v, c);
        ASSERT(s, "getopt returned %d", c);
        if (s->row->bare && !optarg) /* getopt itself accepts an optional value only after '=' */
            optarg = optind < argc && argv[optind][0] != '-' ? argv[optind++] : no_value;
        rc = add_value(v, s, OPT_GIVEN, s->row->type == PARAM_FLAG ? "1" : optarg, e);
    }
    for (int i = optind; i < argc && rc == 0; i++)
        v->args[v->n_args++] = argv[i];
    return rc;
}

/* Makes one slot for each row. */
static int make_slots(const struct opt_part *table, struct opt_values *v, struct err *e)
{
    size_t n = 0;

    v->n_rows = opt_count_rows(table);
    v->slot = arena_zalloc(&v->arena, v->n_rows + 1, sizeof(*v->slot));
    if (!v->slot)
        return err_nomem(e, "command-line options");
    for (const struct opt_part *part = table; part->rows; part++)
        for (const struct opt_row *r = part->rows; r->name; r++)
            v->slot[n++].row = r;
    check_rows(v);
    check_members(table);
    return 0;
}

/* Sets options that the command line lacks from the environment or the default. */
static int read_fallbacks(struct opt_values *v, struct err *e)
{
    int rc = 0;

    for (size_t i = 0; i < v->n_rows && rc == 0; i++) {
        const struct opt_row *r = v->slot[i].row;
        const char *text = r->env ? getenv(r->env) : NULL;

        if (v->slot[i].n > 0)
            continue;
        if (text && *text)
            rc = add_value(v, &v->slot[i], OPT_ENV, text, e);
        else if (r->fallback)
            rc = add_value(v, &v->slot[i], OPT_DEFAULT, r->fallback, e);
    }
    return rc;
}

int opt_parse(const struct opt_part *table, int argc, char **argv, struct opt_values *out, struct err *e)
{
    struct option *longs = NULL;
    char *shorts = NULL;
    int rc;

    *out = (struct opt_values){.table = table};
    arena_init(&out->arena, MEM_APP);
    if ((rc = make_slots(table, out, e)) != 0)
        return rc;
    out->args = arena_zalloc(&out->arena, argc > 0 ? (size_t)argc : 1, sizeof(*out->args));
    if (!out->args)
        return err_nomem(e, "command-line options");
    if ((rc = make_getopt(out, &longs, &shorts, e)) == 0 &&
        (rc = read_arguments(out, argc, argv, longs, shorts, e)) == 0)
        rc = read_fallbacks(out, e);
    return rc;
}

void opt_fini(struct opt_values *v)
{
    arena_fini(&v->arena);
    *v = (struct opt_values){0};
}

/* ---- filling structs ---- */

static void store_value(const struct opt_slot *s, char *into)
{
    const struct param p = param_of(s->row);

    if (p.into.kind == PARAM_TO_LIST)
        *(struct param_list *)(into + p.into.at) = (struct param_list){s->value, s->n};
    else if (p.into.kind && s->n)
        param_store(&p, &s->value[s->n - 1], into);
}

static void store_source(const struct opt_slot *s, char *into)
{
    const struct opt_row *r = s->row;

    if (r->source.kind == PARAM_TO_BOOL)
        *(bool *)(into + r->source.at) = s->source >= OPT_ENV;
    else if (r->source.kind)
        *(enum opt_source *)(into + r->source.at) = s->source;
    if (r->mark.kind && s->source >= OPT_ENV)
        *(uint64_t *)(into + r->mark.at) |= UINT64_C(1) << r->bit;
}

void opt_read_rows(const struct opt_values *v, const struct opt_row *rows, void *into)
{
    size_t i = 0;

    while (i < v->n_rows && v->slot[i].row != rows)
        i++;
    ASSERT(i < v->n_rows, "the table lacks the array of --%s", rows->name);
    for (; rows->name; rows++, i++) {
        store_value(&v->slot[i], into);
        store_source(&v->slot[i], into);
    }
}

void opt_read(const struct opt_values *v, void *into, size_t size)
{
    for (const struct opt_part *part = v->table; part->rows; part++) {
        ASSERT(part->at + part->size <= size, "a part ends at %zu of %zu", part->at + part->size, size);
        if (part->size)
            opt_read_rows(v, part->rows, (char *)into + part->at);
    }
}

/* ---- the help page ---- */

static void add_blanks(struct buf *out, size_t n)
{
    while (n-- > 0)
        buf_char(out, ' ');
}

/* Appends WORDS to a line that already has COLUMN columns, with line breaks at blanks. */
static void add_wrapped(struct buf *out, const char *words, size_t column)
{
    while (*words) {
        size_t n = strcspn(words, " ");

        if (column > HELP_INDENT && column + 1 + n > HELP_COLUMNS) {
            buf_char(out, '\n');
            add_blanks(out, HELP_INDENT);
            column = HELP_INDENT;
        } else if (column > HELP_INDENT) {
            buf_char(out, ' ');
            column++;
        }
        buf_add(out, words, n);
        column += n;
        words += n;
        words += strspn(words, " ");
    }
}

/* Appends RANGE in words, with the same digits: "0 to 64", "1 or more", "more than 0, at most 1". */
static void add_range(struct buf *out, const char *range)
{
    const char *comma = strchr(range, ','), *hi = comma + 1;
    int n_lo = (int)(comma - range) - 1, n_hi = (int)strlen(hi) - 1;
    bool open_lo = range[0] == '(', open_hi = hi[n_hi] == ')';

    if (strncmp(hi, "inf", 3) == 0)
        buf_fmt(out, open_lo ? "more than %.*s" : "%.*s or more", n_lo, range + 1);
    else if (open_lo || open_hi)
        buf_fmt(out, "%s %.*s, %s %.*s", open_lo ? "more than" : "at least", n_lo, range + 1,
                open_hi ? "less than" : "at most", n_hi, hi);
    else
        buf_fmt(out, "%.*s to %.*s", n_lo, range + 1, n_hi, hi);
}

void opt_sentence(const struct opt_row *r, struct buf *out)
{
    const char *before = " (", *fallback = r->fallback ? r->fallback : r->otherwise;

    buf_str(out, r->help);
    if (r->type == PARAM_CHOICE && r->arg)
        buf_fmt(out, ": %s", r->values);
    if (r->repeat)
        buf_str(out, "; may be repeated");
    for (const char *p = r->aliases; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
        buf_fmt(out, "%s--%.*s", p == r->aliases ? "; also " : ", ", (int)strcspn(p, "|"), p);
    if (fallback) {
        buf_fmt(out, "%sdefault %s", before, fallback);
        before = r->otherwise ? "; " : ", ";
    }
    if (is_number(r) && r->values) {
        buf_str(out, before);
        add_range(out, r->values);
        before = ", ";
    }
    if (r->env) {
        buf_fmt(out, "%s$%s", before, r->env);
        before = ", ";
    }
    buf_str(out, before[1] == '(' ? "" : ")");
}

static void add_row(const struct opt_row *r, struct buf *out)
{
    struct buf sentence = {.tag = out->tag};
    size_t start = out->len, column;

    buf_fmt(out, r->brief ? "  -%c, --%s" : "  %c   --%s", r->brief ? r->brief : ' ', r->name);
    if (r->type != PARAM_FLAG)
        buf_fmt(out, " %s", opt_arg(r));
    column = out->len - start;
    if (column + 2 > HELP_INDENT) {
        buf_char(out, '\n');
        column = 0;
    }
    add_blanks(out, HELP_INDENT - column);
    opt_sentence(r, &sentence);
    out->oom |= sentence.oom;
    add_wrapped(out, sentence.data ? sentence.data : "", HELP_INDENT);
    buf_char(out, '\n');
    buf_fini(&sentence);
}

size_t opt_clause(const struct opt_row *r)
{
    const char *colon = strstr(r->help, ": ");
    size_t n = strcspn(r->help, ";(");

    if (colon && (size_t)(colon - r->help) < n)
        n = (size_t)(colon - r->help);
    return n - (r->help[n] == '('); /* omits also the blank before '(' */
}

/* Appends one line: the name of ROW, its argument if there is room for it, and the first clause of its help. */
static void add_short_row(const struct opt_row *r, struct buf *out)
{
    const char *arg = r->type == PARAM_FLAG ? "" : opt_arg(r);
    size_t start = out->len, clause = opt_clause(r), column;

    if (r->brief)
        buf_fmt(out, "  -%c, --%s", r->brief, r->name);
    else
        buf_fmt(out, "  --%s", r->name);
    if (*arg && out->len - start + 3 + strlen(arg) <= HELP_INDENT)
        buf_fmt(out, " %s", arg);
    column = out->len - start + 2 < HELP_INDENT ? HELP_INDENT : out->len - start + 2;
    ASSERT(column + clause <= HELP_COLUMNS, "--%s: the first clause of its help is too long", r->name);
    add_blanks(out, column - (out->len - start));
    buf_add(out, r->help, clause);
    buf_char(out, '\n');
}

static size_t count_group(const struct opt_part *table, int group)
{
    size_t n = 0;

    for (const struct opt_part *part = table; part->rows; part++)
        for (const struct opt_row *r = part->rows; r->name; r++)
            n += r->group == group;
    return n;
}

size_t opt_count_rows(const struct opt_part *table)
{
    size_t n = 0;

    for (const struct opt_part *part = table; part->rows; part++)
        for (const struct opt_row *r = part->rows; r->name; r++)
            n++;
    return n;
}

void opt_help(const struct opt_part *table, const char *const *headings, int n_full, struct buf *out)
{
    for (int group = 0; headings[group]; group++) {
        if (count_group(table, group) == 0)
            continue;
        buf_fmt(out, "%s%s:\n", out->len ? "\n" : "", headings[group]);
        for (const struct opt_part *part = table; part->rows; part++)
            for (const struct opt_row *r = part->rows; r->name; r++)
                if (r->group == group)
                    (group < n_full ? add_row : add_short_row)(r, out);
    }
}
