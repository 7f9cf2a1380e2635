/* schema_compiler.c - reports errors with their places, allocates memory, and interns terms and keys. */
#include "text/grammar/schema/schema_compiler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json/json_tree.h"
#include "text/grammar/schema/schema.h"

enum { FIRST_SLOTS = 64, VISITS_OF_WORK = 256 /* visited values that count as a unit of work */ };

/* ---- faults ---- */

bool schema_walk(struct buf *b, const json_t *from, schema_visit *visit, void *ctx)
{
    size_t before = b->len, i, n;
    const char *key;
    json_t *v;

    if (visit(ctx, from, b))
        return true;
    if (json_is_object(from))
        json_object_keylen_foreach((json_t *)from, key, n, v)
        {
            if (!json_is_object(v) && !json_is_array(v))
                continue;
            buf_char(b, '/');
            for (i = 0; i < n; i++)
                buf_str(b, key[i] == '~' ? "~0" : key[i] == '/' ? "~1" : (char[]){key[i], 0});
            if (schema_walk(b, v, visit, ctx))
                return true;
            b->len = before;
        }
    if (json_is_array(from))
        json_array_foreach((json_t *)from, i, v)
        {
            if (!json_is_object(v) && !json_is_array(v))
                continue;
            buf_fmt(b, "/%zu", i);
            if (schema_walk(b, v, visit, ctx))
                return true;
            b->len = before;
        }
    return false;
}

/* The search of place_set(): the schema AT, and the number of values that were visited. */
struct search {
    const json_t *at;
    size_t n_visited;
};

static bool is_found(void *ctx, const json_t *v, struct buf *b)
{
    struct search *s = ctx;

    (void)b;
    if (v != s->at)
        s->n_visited += 1 + json_array_size(v) + json_object_size(v);
    return v == s->at;
}

static void copy_cut(char *out, size_t size, const char *text, size_t n)
{
    n = n < size ? n : size - 1;
    if (n > 0)
        memcpy(out, text, n);
    out[n] = 0;
}

/* Returns the number of values that were visited to find the pointer to AT. */
static size_t place_set(const struct schema_compiler *c, struct schema_place *p, const json_t *at,
                        const char *keyword)
{
    struct buf b = {.tag = MEM_TEXT};
    size_t n_root = c->pointer ? strlen(c->pointer) : 0;
    struct search search = {.at = at};

    buf_add(&b, c->pointer, n_root);
    if (at && !schema_walk(&b, c->root, is_found, &search) && b.len > n_root)
        b.len = n_root;
    copy_cut(p->pointer, sizeof(p->pointer), b.data, b.len);
    copy_cut(p->keyword, sizeof(p->keyword), keyword, strlen(keyword));
    buf_fini(&b);
    return search.n_visited;
}

static void fault(struct schema_compiler *c, int code, const json_t *at, const char *keyword, const char *why)
{
    char where[SCHEMA_POINTER_BYTES + 16] = "";
    struct schema_place p;

    if (c->rc)
        return;
    place_set(c, &p, at, keyword);
    c->report->fault = p;
    if (p.pointer[0])
        snprintf(where, sizeof(where), " at %s", p.pointer);
    c->rc = err_set(c->e, code, "schema%s: %s%s%s", where, keyword, *keyword ? ": " : "", why);
}

void schema_wrong(struct schema_compiler *c, const json_t *at, const char *keyword, const char *fmt, ...)
{
    ERR_SENTENCE(why, fmt);
    fault(c, ERR_INPUT, at, keyword, why);
}

void schema_unserved(struct schema_compiler *c, const json_t *at, const char *keyword, const char *fmt, ...)
{
    struct schema_report *r = c->report;
    struct schema_place p;
    ERR_SENTENCE(why, fmt);

    if (!c->is_loose) {
        fault(c, ERR_UNSUPPORTED, at, keyword, why);
        return;
    }
    if (r->n == SCHEMA_MOST_WARNINGS) {
        r->has_more = true;
        return;
    }
    schema_work(c, place_set(c, &p, at, keyword) / VISITS_OF_WORK);
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->warning[i].keyword, p.keyword) == 0 && strcmp(r->warning[i].pointer, p.pointer) == 0)
            return;
    if (schema_reserve(c, (void **)&r->warning, &r->cap, r->n, sizeof(p)))
        r->warning[r->n++] = p;
}

void schema_over_limit(struct schema_compiler *c, const char *keyword, const char *fmt, ...)
{
    ERR_SENTENCE(why, fmt);
    fault(c, ERR_NOSPACE, c->at, keyword, why);
}

void schema_no_memory(struct schema_compiler *c)
{
    if (!c->rc)
        c->rc = err_nomem(c->e, "a schema");
}

bool schema_decimal(struct schema_compiler *c, struct json_decimal *d, const json_t *v)
{
    size_t n;

    if (!json_is_number(v) && !json_large_text(v, &n))
        return false;
    if (!json_decimal_read(d, v, &c->arena))
        schema_no_memory(c);
    return !c->rc;
}

bool schema_work(struct schema_compiler *c, size_t n)
{
    if (c->s->fault && !c->rc) {
        if (c->s->fault == REGEX_NO_MEMORY)
            schema_no_memory(c);
        else
            schema_over_limit(c, "", "%s",
                              c->s->fault == REGEX_OVER_WORK
                                  ? "the regular expressions of the schema are too complex"
                              : c->s->fault == REGEX_OVER_DEPTH
                                  ? "the regular expressions of the schema are nested too deep"
                                  : "the schema needs more memory than the limit");
    }
    c->work += n;
    if (c->work > SCHEMA_MOST_WORK)
        schema_over_limit(c, "", "the schema has too many combinations of alternatives");
    return !c->rc;
}

void *schema_alloc(struct schema_compiler *c, size_t n, size_t size)
{
    void *p;

    if (c->rc)
        return NULL;
    if (n > c->s->max_bytes / size || c->bytes + c->s->bytes + n * size > c->s->max_bytes) {
        schema_over_limit(c, "", "the schema needs more memory than the limit of %zu MiB",
                          c->s->max_bytes >> 20);
        return NULL;
    }
    c->bytes += n * size;
    p = arena_zalloc(&c->arena, n ? n : 1, size);
    if (!p)
        schema_no_memory(c);
    return p;
}

bool schema_reserve(struct schema_compiler *c, void **array, size_t *cap, size_t used, size_t size)
{
    if (used < *cap || mem_grow(array, cap, used + 1, size, MEM_TEXT))
        return !c->rc;
    schema_no_memory(c);
    return false;
}

/* ---- the table of terms ---- */

static size_t hash_term(const struct schema_term *x)
{
    uint64_t v[3] = {x->kind, (uint64_t)(uintptr_t)x->json, x->key}, h = 0;

    for (size_t i = 0; i < 3 + x->n; i++) {
        h = (h ^ (i < 3 ? v[i] : x->of[i - 3])) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    return h;
}

static bool is_same_term(const struct schema_term *x, const struct schema_term *y)
{
    return x->kind == y->kind && x->json == y->json && x->key == y->key && x->n == y->n &&
           (x->n == 0 || memcmp(x->of, y->of, x->n * sizeof(*x->of)) == 0);
}

/* Doubles the hash table of the terms. */
static bool grow_slots(struct schema_compiler *c)
{
    size_t n = c->n_slots ? 2 * c->n_slots : FIRST_SLOTS;
    uint32_t *slot = mem_zalloc(n, sizeof(*slot), MEM_TEXT);

    if (!slot) {
        schema_no_memory(c);
        return false;
    }
    for (size_t i = 0; i < c->n; i++) {
        size_t at = hash_term(&c->term[i]) & (n - 1);

        while (slot[at])
            at = (at + 1) & (n - 1);
        slot[at] = (uint32_t)i + 1;
    }
    mem_free(c->slot);
    c->slot = slot;
    c->n_slots = n;
    return true;
}

/* Returns the number of the term X. If X is new, its operands are copied. */
static uint32_t intern(struct schema_compiler *c, struct schema_term x)
{
    uint32_t *of;
    size_t at;

    if (c->rc || (2 * (c->n + 1) > c->n_slots && !grow_slots(c)))
        return SCHEMA_NONE;
    for (at = hash_term(&x) & (c->n_slots - 1); c->slot[at]; at = (at + 1) & (c->n_slots - 1))
        if (is_same_term(&c->term[c->slot[at] - 1], &x))
            return c->slot[at] - 1;
    if (c->n >= SCHEMA_MOST_TERMS) {
        schema_over_limit(c, "", "the schema has too many combinations of subschemas");
        return SCHEMA_NONE;
    }
    if (!schema_reserve(c, (void **)&c->term, &c->cap, c->n, sizeof(x)))
        return SCHEMA_NONE;
    if (x.n > 0) {
        of = schema_alloc(c, x.n, sizeof(*of));
        if (!of)
            return SCHEMA_NONE;
        memcpy(of, x.of, x.n * sizeof(*of));
        x.of = of;
    }
    c->term[c->n] = x;
    c->slot[at] = (uint32_t)++c->n;
    return (uint32_t)c->n - 1;
}

void schema_terms_init(struct schema_compiler *c)
{
    intern(c, (struct schema_term){.kind = SCHEMA_TERM_NONE});
    intern(c, (struct schema_term){.kind = SCHEMA_TERM_ANY});
}

/* ---- terms ---- */

uint32_t schema_raw(struct schema_compiler *c, const json_t *json, uint32_t resource)
{
    if (json_is_boolean(json))
        return json_is_true(json) ? SCHEMA_ANY : SCHEMA_NONE;
    if (!json_is_object(json)) {
        schema_wrong(c, c->at, "", "found a subschema that is neither an object nor a boolean");
        return SCHEMA_NONE;
    }
    if (json_object_size(json) == 0)
        return SCHEMA_ANY;
    return intern(c, (struct schema_term){.kind = SCHEMA_TERM_RAW, .json = json, .resource = resource});
}

uint32_t schema_value_term(struct schema_compiler *c, const json_t *json)
{
    return intern(c, (struct schema_term){.kind = SCHEMA_TERM_VALUE, .json = json});
}

uint32_t schema_property_term(struct schema_compiler *c, enum schema_term_kind kind, uint32_t key)
{
    return intern(c, (struct schema_term){.kind = kind, .key = key});
}

static int compare_terms(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* True if the sorted list OF [n] contains both a term and its complement. */
static bool has_complement(const struct schema_compiler *c, const uint32_t *of, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (c->term[of[i]].kind == SCHEMA_TERM_NOT &&
            bsearch(&c->term[of[i]].of[0], of, n, sizeof(*of), compare_terms))
            return true;
    return false;
}

uint32_t schema_join(struct schema_compiler *c, enum schema_term_kind kind, uint32_t *of, size_t n)
{
    uint32_t neutral = kind == SCHEMA_TERM_AND ? SCHEMA_ANY : SCHEMA_NONE;
    size_t kept = 0;

    if (n > 1)
        qsort(of, n, sizeof(*of), compare_terms);
    for (size_t i = 0; i < n; i++) {
        if (of[i] == (neutral ^ SCHEMA_NONE ^ SCHEMA_ANY))
            return of[i];
        if (of[i] != neutral && !(kept > 0 && of[kept - 1] == of[i]))
            of[kept++] = of[i];
    }
    if (kept <= 1)
        return kept ? of[0] : neutral;
    if (has_complement(c, of, kept))
        return neutral ^ SCHEMA_NONE ^ SCHEMA_ANY;
    return intern(c, (struct schema_term){.kind = kind, .of = of, .n = kept});
}

/* Returns the union or intersection (KIND) of A and B. If A or B has this kind too, its operands are used. */
static uint32_t join_two(struct schema_compiler *c, enum schema_term_kind kind, uint32_t a, uint32_t b)
{
    uint32_t pair[2] = {a, b}, few[16], *of = few;
    size_t n = 0;

    if (a <= SCHEMA_ANY || b <= SCHEMA_ANY || a == b || c->rc)
        return schema_join(c, kind, pair, 2);
    for (int i = 0; i < 2; i++)
        n += c->term[pair[i]].kind == kind ? c->term[pair[i]].n : 1;
    if (n > sizeof(few) / sizeof(*few)) {
        of = schema_alloc(c, n, sizeof(*of));
        if (!of)
            return SCHEMA_NONE;
    }
    n = 0;
    for (int i = 0; i < 2; i++) {
        const struct schema_term *x = &c->term[pair[i]];

        if (x->kind == kind) {
            memcpy(of + n, x->of, x->n * sizeof(*of));
            n += x->n;
        } else {
            of[n++] = pair[i];
        }
    }
    return schema_join(c, kind, of, n);
}

uint32_t schema_and(struct schema_compiler *c, uint32_t a, uint32_t b)
{
    return join_two(c, SCHEMA_TERM_AND, a, b);
}

uint32_t schema_or(struct schema_compiler *c, uint32_t a, uint32_t b)
{
    return join_two(c, SCHEMA_TERM_OR, a, b);
}

uint32_t schema_not(struct schema_compiler *c, uint32_t a)
{
    if (a <= SCHEMA_ANY)
        return a ^ SCHEMA_NONE ^ SCHEMA_ANY;
    if (c->term[a].kind == SCHEMA_TERM_NOT)
        return c->term[a].of[0];
    return intern(c, (struct schema_term){.kind = SCHEMA_TERM_NOT, .of = &a, .n = 1});
}

uint32_t schema_outside(struct schema_compiler *c, uint32_t a)
{
    if (a <= SCHEMA_ANY || c->term[a].kind == SCHEMA_TERM_NOT)
        return schema_not(c, a);
    return intern(c, (struct schema_term){.kind = SCHEMA_TERM_OUTSIDE, .of = &a, .n = 1});
}

/* ---- keys ---- */

uint32_t schema_key(struct schema_compiler *c, const char *text, size_t n)
{
    struct schema_key k = {.text = text, .n = n};
    struct buf b = {.tag = MEM_TEXT};
    uint64_t known;
    char *spelling;

    if (c->rc)
        return 0;
    if (strmap_get(&c->by_name, text, n, &known))
        return (uint32_t)known;
    buf_json_str(&b, text, n);
    spelling = b.oom ? NULL : schema_alloc(c, b.len, 1);
    if (spelling) {
        memcpy(spelling, b.data + 1, b.len - 2);
        k.spelling = spelling;
        k.n_spelling = b.len - 2;
    }
    k.regex = json_text_literal(&c->text, text, n, c->spelling);
    if (b.oom || strmap_put(&c->by_name, text, n, c->n_keys) < 0)
        schema_no_memory(c);
    buf_fini(&b);
    if (c->rc || !schema_reserve(c, (void **)&c->key, &c->cap_keys, c->n_keys, sizeof(k)))
        return 0;
    c->key[c->n_keys] = k;
    return (uint32_t)c->n_keys++;
}
