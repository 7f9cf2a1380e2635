/* conf.c - the tree of objects in config.json, and the getters that mark what they give.
 *
 * Only objects are taken apart; any other value stays the text it was, proved to be JSON, and is read by the
 * getter that knows its type. So memory is a small multiple of the file, which is limited.
 */
#include "ckpt/conf.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/jpull.h"
#include "base/log.h"
#include "base/strmap.h"
#include "ckpt/confkeys.h"

enum { MAX_BYTES = 16 << 20 };

/* A key that a getter was called with. */
struct asked {
    struct asked *older;
    const char *prefix;
    char name[]; /* prefix and key */
};

struct node {
    const char *name;  /* terminated */
    struct jp_str raw; /* the value as it stands in the file */
    enum jp_type type;
    struct conf *child; /* of an object */
    struct node *next;  /* in file order */
    bool asked;         /* somebody understands the key */
    bool ignored;       /* with all that is in it */
    bool wanted_object; /* conf_sub() found something else */
};

/* What all objects of one file share. */
struct doc {
    struct arena arena; /* text, nodes, objects, strings */
    const char *path;
    struct conf *objects; /* all of them, newest first: each owns an index */
    struct asked *asked;  /* newest first */
};

struct conf {
    struct doc *doc;
    const char *prefix;  /* "" or "text_config." */
    struct strmap index; /* key -> struct node * */
    struct node *first, **last;
    struct conf *older; /* in doc->objects */
};

/* --- reading --- */

static struct conf *new_object(struct doc *d, const char *prefix)
{
    struct conf *c = arena_zalloc(&d->arena, 1, sizeof(*c));

    if (!c)
        return NULL;
    c->doc = d;
    c->prefix = prefix;
    c->last = &c->first;
    strmap_init(&c->index, MEM_CKPT);
    c->older = d->objects;
    d->objects = c;
    return c;
}

/* The prefix of the keys inside NAME, which is in C. */
static const char *child_prefix(struct conf *c, const char *name)
{
    size_t outer = strlen(c->prefix), n = strlen(name);
    char *text = arena_alloc(&c->doc->arena, outer + n + 2);

    if (text) {
        memcpy(text, c->prefix, outer);
        memcpy(text + outer, name, n);
        memcpy(text + outer + n, ".", 2);
    }
    return text;
}

static void out_of_memory(struct jp *j)
{
    j->rc = err_nomem(j->e, j->path);
}

static struct node *add_node(struct conf *c, struct jp *j, const struct jp_str *key)
{
    struct node *n = arena_zalloc(&c->doc->arena, 1, sizeof(*n));
    int put;

    if (memchr(key->s, 0, key->n)) {
        jp_fail(j, "a key has a NUL character");
        return NULL;
    }
    if (!n || !(n->name = arena_strndup(&c->doc->arena, key->s, key->n)) ||
        (put = strmap_put(&c->index, n->name, key->n, (uint64_t)(uintptr_t)n)) < 0) {
        out_of_memory(j);
        return NULL;
    }
    if (put == 0) {
        jp_fail(j, "key %s%.200s stands twice", c->prefix, n->name);
        return NULL;
    }
    *c->last = n;
    c->last = &n->next;
    return n;
}

/* Fills C from the object at J. Recursion is as deep as the objects: at most JP_MAX_DEPTH. */
static void read_object(struct conf *c, struct jp *j)
{
    struct jp_str key;

    for (jp_enter_object(j); jp_key(j, &key);) {
        struct node *n = add_node(c, j, &key);
        const char *prefix;

        if (!n)
            return;
        n->type = jp_peek(j);
        if (n->type != JP_OBJECT) {
            n->raw = jp_raw(j);
            continue;
        }
        prefix = child_prefix(c, n->name);
        n->child = prefix ? new_object(c->doc, prefix) : NULL;
        if (!n->child) {
            out_of_memory(j);
            return;
        }
        n->raw = (struct jp_str){"{...}", 5};
        read_object(n->child, j);
    }
}

static int read_text(struct doc *d, const char *text, size_t len, struct conf **root, struct err *e)
{
    struct jp j;
    int rc;

    if ((rc = jp_open(&j, text, len, d->path, &d->arena, e)) != 0)
        return rc;
    if (!(*root = new_object(d, "")))
        return err_nomem(e, d->path);
    if (jp_peek(&j) != JP_OBJECT)
        return jp_fail(&j, "the file must hold one JSON object");
    read_object(*root, &j);
    return jp_finish(&j);
}

static void close_doc(struct doc *d)
{
    struct arena arena = d->arena; /* the doc lives in its own arena */

    for (struct conf *c = d->objects; c; c = c->older)
        strmap_fini(&c->index);
    arena_fini(&arena);
}

int conf_open_text(struct conf **out, const char *text, size_t len, const char *path, struct err *e)
{
    struct arena arena;
    struct doc *d;
    const char *copy;
    int rc;

    *out = NULL;
    if (len > MAX_BYTES)
        return err_set(e, ERR_INPUT, "%s: the file has %zu bytes, at most %d are allowed", path, len,
                       MAX_BYTES);
    if (len == 0)
        return err_set(e, ERR_INPUT, "%s: the file is empty", path);
    arena_init(&arena, MEM_CKPT);
    d = arena_zalloc(&arena, 1, sizeof(*d));
    copy = arena_strndup(&arena, text, len);
    if (!d || !copy || !(d->path = arena_strndup(&arena, path, strlen(path)))) {
        arena_fini(&arena);
        return err_nomem(e, path);
    }
    d->arena = arena;
    if ((rc = read_text(d, copy, len, out, e)) != 0) {
        close_doc(d);
        *out = NULL;
    }
    return rc;
}

int conf_open(struct conf **out, struct folder in, const char *file, struct err *e)
{
    struct folder_text f;
    int rc;

    *out = NULL;
    if ((rc = folder_read(&f, in, file, NULL, e)) != 0)
        return rc;
    rc = conf_open_text(out, f.bytes, f.len, f.path, e);
    folder_text_fini(&f);
    return rc;
}

void conf_close(struct conf *c)
{
    if (c)
        close_doc(c->doc);
}

const char *conf_path(const struct conf *c)
{
    return c->doc->path;
}

/* --- getters --- */

/* Remembers KEY, if there is memory: a missing name costs nobody but a test anything. */
static void note_asked(struct conf *c, const char *key)
{
    size_t outer = strlen(c->prefix), n = strlen(key);
    struct asked *a;

    for (a = c->doc->asked; a; a = a->older)
        if (a->prefix == c->prefix && strcmp(a->name + outer, key) == 0)
            return;
    if (!(a = arena_alloc(&c->doc->arena, sizeof(*a) + outer + n + 1)))
        return;
    *a = (struct asked){.older = c->doc->asked, .prefix = c->prefix};
    memcpy(a->name, c->prefix, outer);
    memcpy(a->name + outer, key, n + 1);
    c->doc->asked = a;
}

const char *conf_asked(const struct conf *c, size_t i)
{
    const struct asked *a = c->doc->asked;

    while (a && i--)
        a = a->older;
    return a ? a->name : NULL;
}

/* The node of KEY, marked; NULL if it is missing. */
static struct node *find(struct conf *c, const char *key)
{
    struct node *n;
    uint64_t at;

    note_asked(c, key);
    if (!strmap_get(&c->index, key, strlen(key), &at))
        return NULL;
    n = (struct node *)(uintptr_t)at;
    n->asked = true;
    return n;
}

/* As find(), and null counts as missing. */
static struct node *find_value(struct conf *c, const char *key)
{
    struct node *n = find(c, key);

    return n && n->type != JP_NULL ? n : NULL;
}

/* "PATH: KEY is FOUND, EXPECTED". */
static int wrong(const struct conf *c, const struct node *n, struct err *e, const char *expected)
{
    int shown = n->raw.n < 60 ? (int)n->raw.n : 60;

    return err_set(e, ERR_INPUT, "%s: %s%.200s is %.*s%s, expected is %s", c->doc->path, c->prefix, n->name,
                   shown, n->raw.s, n->raw.n > 60 ? "..." : "", expected);
}

/* A reader over the text of one value. Its own messages are not used: wrong() has a better one. */
static void value_open(struct jp *j, struct conf *c, const struct node *n)
{
    jp_open(j, n->raw.s, n->raw.n, c->doc->path, &c->doc->arena, NULL);
}

/* An integer, also when it is written like 8192.0. */
static bool value_int(struct jp *j, int64_t *v)
{
    struct jp whole = *j;
    double f;

    if (jp_peek(j) != JP_NUMBER)
        return false;
    if (jp_i64(j, v))
        return true;
    if (!jp_f64(&whole, &f) || f != floor(f) || fabs(f) > 0x1p53)
        return false;
    *j = whole;
    *v = (int64_t)f;
    return true;
}

static int value_str(struct jp *j, struct conf *c, const char **v, struct err *e)
{
    struct jp_str s;
    char *copy;

    *v = "";
    if (jp_peek(j) != JP_STRING || !jp_string(j, &s))
        return jp_rc(j) == ERR_NOMEM ? err_nomem(e, c->doc->path) : ERR_INPUT;
    if (memchr(s.s, 0, s.n))
        return ERR_INPUT;
    if (!(copy = arena_strndup(&c->doc->arena, s.s, s.n)))
        return err_nomem(e, c->doc->path);
    *v = copy;
    return 0;
}

bool conf_has(struct conf *c, const char *key)
{
    return find_value(c, key) != NULL;
}

bool conf_given(struct conf *c, const char *key)
{
    return find(c, key) != NULL;
}

static int int_in(struct conf *c, const struct node *n, int64_t lo, int64_t hi, int64_t *v, struct err *e)
{
    char expected[96];
    struct jp j;

    value_open(&j, c, n);
    if (value_int(&j, v) && *v >= lo && *v <= hi)
        return 0;
    *v = lo;
    snprintf(expected, sizeof(expected), "an integer from %" PRId64 " to %" PRId64, lo, hi);
    return wrong(c, n, e, expected);
}

int conf_int(struct conf *c, const char *key, int64_t def, int64_t lo, int64_t hi, int64_t *v, struct err *e)
{
    const struct node *n = find_value(c, key);

    *v = def;
    return n ? int_in(c, n, lo, hi, v, e) : 0;
}

int conf_need_int(struct conf *c, const char *key, int64_t lo, int64_t hi, int64_t *v, struct err *e)
{
    const struct node *n = find_value(c, key);

    *v = lo;
    if (!n)
        return err_set(e, ERR_INPUT,
                       "%s: %s%s is missing, expected is an integer from %" PRId64 " to %" PRId64,
                       c->doc->path, c->prefix, key, lo, hi);
    return int_in(c, n, lo, hi, v, e);
}

int conf_float(struct conf *c, const char *key, double def, double lo, double hi, double *v, struct err *e)
{
    const struct node *n = find_value(c, key);
    char expected[96];
    struct jp j;

    *v = def;
    if (!n)
        return 0;
    value_open(&j, c, n);
    if (n->type == JP_NUMBER && jp_f64(&j, v) && *v >= lo && *v <= hi)
        return 0;
    *v = def;
    snprintf(expected, sizeof(expected), "a number from %g to %g", lo, hi);
    return wrong(c, n, e, expected);
}

int conf_bool(struct conf *c, const char *key, bool def, bool *v, struct err *e)
{
    const struct node *n = find_value(c, key);

    *v = n ? n->type == JP_TRUE : def;
    return !n || n->type == JP_TRUE || n->type == JP_FALSE ? 0 : wrong(c, n, e, "true or false");
}

int conf_str(struct conf *c, const char *key, const char *def, const char **v, struct err *e)
{
    const struct node *n = find_value(c, key);
    struct jp j;
    int rc;

    *v = def;
    if (!n)
        return 0;
    value_open(&j, c, n);
    if ((rc = value_str(&j, c, v, e)) == 0)
        return 0;
    *v = def;
    return rc == ERR_INPUT ? wrong(c, n, e, "a string") : rc;
}

static int too_long(const struct conf *c, const struct node *n, size_t max, struct err *e)
{
    char expected[64];

    snprintf(expected, sizeof(expected), "a list of at most %zu values", max);
    return wrong(c, n, e, expected);
}

int conf_floats(struct conf *c, const char *key, double *v, size_t max, size_t *n, struct err *e)
{
    const struct node *list = find_value(c, key);
    size_t len = 0;
    struct jp j;

    *n = 0;
    if (!list)
        return 0;
    value_open(&j, c, list);
    for (jp_enter_array(&j); jp_elem(&j); len++) {
        if (len == max)
            return too_long(c, list, max, e);
        if (!jp_f64(&j, &v[len]))
            break;
    }
    if (jp_rc(&j) != 0)
        return wrong(c, list, e, "a list of numbers");
    *n = len;
    return 0;
}

int conf_ints_or_int(struct conf *c, const char *key, int64_t *v, size_t max, size_t *n, struct err *e)
{
    const struct node *list = find_value(c, key);
    size_t len = 0;
    struct jp j;

    *n = 0;
    if (!list)
        return 0;
    value_open(&j, c, list);
    if (list->type == JP_NUMBER) {
        if (max == 0 || !value_int(&j, v))
            return wrong(c, list, e, "an integer or a list of integers");
        *n = 1;
        return 0;
    }
    for (jp_enter_array(&j); jp_elem(&j); len++) {
        if (len == max)
            return too_long(c, list, max, e);
        if (!value_int(&j, &v[len]))
            return wrong(c, list, e, "an integer or a list of integers");
    }
    if (jp_rc(&j) != 0)
        return wrong(c, list, e, "an integer or a list of integers");
    *n = len;
    return 0;
}

int conf_strs(struct conf *c, const char *key, const char **v, size_t max, size_t *n, struct err *e)
{
    const struct node *list = find_value(c, key);
    size_t len = 0;
    struct jp j;
    int rc;

    *n = 0;
    if (!list)
        return 0;
    value_open(&j, c, list);
    for (jp_enter_array(&j); jp_elem(&j); len++) {
        if (len == max)
            return too_long(c, list, max, e);
        if ((rc = value_str(&j, c, &v[len], e)) != 0)
            return rc == ERR_INPUT ? wrong(c, list, e, "a list of strings") : rc;
    }
    if (jp_rc(&j) != 0)
        return wrong(c, list, e, "a list of strings");
    *n = len;
    return 0;
}

struct conf *conf_sub(struct conf *c, const char *key)
{
    struct node *n = find_value(c, key);

    if (n && !n->child)
        n->wanted_object = true;
    return n ? n->child : NULL;
}

void conf_ignore(struct conf *c, const char *key)
{
    struct node *n = find(c, key);

    if (n)
        n->ignored = true;
}

/* --- judging --- */

/* What the keys nobody asked for amount to. */
struct verdict {
    char unknown[512], maths[512]; /* lists of names; long ones are cut */
    const struct node *quant;
};

static void list_name(char *list, size_t size, const struct conf *c, const struct node *n)
{
    size_t at = strlen(list);

    snprintf(list + at, size - at, "%s%s%.100s", at ? ", " : "", c->prefix, n->name);
}

static bool is_neutral(const struct node *n)
{
    if (n->type == JP_OBJECT)
        return n->child->first == NULL;
    if (n->type == JP_ARRAY) { /* empty: nothing but blanks between the brackets */
        for (size_t i = 1; i + 1 < n->raw.n; i++)
            if (!strchr(" \t\r\n", n->raw.s[i]))
                return false;
        return true;
    }
    if (n->type == JP_NUMBER)
        return confkeys_one_is_neutral(n->name) && (jp_is(&n->raw, "1") || jp_is(&n->raw, "1.0"));
    return n->type == JP_NULL || n->type == JP_FALSE || jp_is(&n->raw, "\"\"");
}

static int judge(struct conf *c, struct verdict *v, struct err *e)
{
    for (const struct node *n = c->first; n; n = n->next) {
        int rc = 0;

        if (n->wanted_object)
            return wrong(c, n, e, "an object");
        if (n->asked) {
            if (n->child && !n->ignored && (rc = judge(n->child, v, e)) != 0)
                return rc;
            continue;
        }
        if (is_neutral(n))
            continue;
        switch (confkeys_kind(n->name)) {
        case CONFKEY_QUANT: v->quant = n; break;
        case CONFKEY_MATHS: list_name(v->maths, sizeof(v->maths), c, n); break;
        case CONFKEY_UNKNOWN: list_name(v->unknown, sizeof(v->unknown), c, n); break;
        case CONFKEY_BOOKKEEPING: break;
        }
    }
    return 0;
}

static int quant_error(struct conf *c, const struct node *n, struct err *e)
{
    const char *method = NULL;
    struct err none;

    if (n->child && conf_str(n->child, "quant_method", NULL, &method, &none) != 0)
        method = NULL;
    return err_set(e, ERR_UNSUPPORTED,
                   "%s: %s says that the weights are quantised with %.100s, which this model cannot read",
                   c->doc->path, n->name, method ? method : "a method it does not name");
}

int conf_finish(struct conf *c, struct err *e)
{
    struct verdict v = {.quant = NULL};
    int rc;

    if ((rc = judge(c, &v, e)) != 0)
        return rc;
    if (v.quant)
        return quant_error(c, v.quant, e);
    if (v.maths[0])
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: not known for this model, and may change what it computes: %s", c->doc->path,
                       v.maths);
    if (v.unknown[0])
        log_warn("%s: these keys are not known and are ignored: %s", c->doc->path, v.unknown);
    return 0;
}
