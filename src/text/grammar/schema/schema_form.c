/* schema_form.c - union, intersection and complement of forms and of their clauses. */
#include "text/grammar/schema/schema_form.h"

#include <string.h>

#include "text/grammar/schema/schema_read.h"

/* A growing list of clauses: struct schema_array or struct schema_object. */
struct clauses {
    const void **clause; /* [n] in the arena */
    size_t n, cap;
};

static void clause_put(struct schema_compiler *c, struct clauses *list, const void *clause)
{
    const void **grown;
    size_t cap = list->cap ? 2 * list->cap : 4;

    if (!clause || !schema_work(c, 1))
        return;
    if (list->n == list->cap) {
        grown = schema_alloc(c, cap, sizeof(*grown));
        if (!grown)
            return;
        if (list->n > 0)
            memcpy(grown, list->clause, list->n * sizeof(*grown));
        list->clause = grown;
        list->cap = cap;
    }
    list->clause[list->n++] = clause;
}

uint32_t schema_regex_and(struct schema_compiler *c, uint32_t a, uint32_t b, uint32_t all)
{
    return a == b || b == all ? a : a == all ? b : regex_and(c->s, a, b);
}

uint32_t schema_regex_not(struct schema_compiler *c, uint32_t a, uint32_t all)
{
    if (a == REGEX_NOTHING || a == all)
        return a == all ? REGEX_NOTHING : all;
    return regex_and(c->s, all, regex_not(c->s, a));
}

/* ---- constructors ---- */

struct schema_array *schema_array_any(struct schema_compiler *c)
{
    struct schema_array *a = schema_alloc(c, 1, sizeof(*a));

    if (a) {
        a->rest = SCHEMA_ANY;
        a->most = SCHEMA_NO_LIMIT;
    }
    return a;
}

static const struct schema_names *names(struct schema_compiler *c, uint32_t keys, uint32_t term)
{
    struct schema_names *n = schema_alloc(c, 1, sizeof(*n));

    if (n)
        *n = (struct schema_names){.keys = keys, .term = term};
    return n;
}

struct schema_object *schema_object_any(struct schema_compiler *c)
{
    struct schema_object *o = schema_alloc(c, 1, sizeof(*o));

    if (o) {
        o->other = names(c, c->text.string, SCHEMA_ANY);
        o->n_others = o->other ? 1 : 0;
        o->most = SCHEMA_NO_LIMIT;
    }
    return o;
}

static struct schema_arrays arrays_of(const struct clauses *list)
{
    return (struct schema_arrays){(const void *)list->clause, list->n};
}

static struct schema_objects objects_of(const struct clauses *list)
{
    return (struct schema_objects){(const void *)list->clause, list->n};
}

struct schema_arrays schema_arrays_of(struct schema_compiler *c, const struct schema_array *clause)
{
    struct clauses list = {0};

    clause_put(c, &list, clause);
    return arrays_of(&list);
}

struct schema_objects schema_objects_of(struct schema_compiler *c, const struct schema_object *clause)
{
    struct clauses list = {0};

    clause_put(c, &list, clause);
    return objects_of(&list);
}

struct schema_form *schema_form_none(struct schema_compiler *c)
{
    return schema_alloc(c, 1, sizeof(struct schema_form));
}

struct schema_form *schema_form_any(struct schema_compiler *c)
{
    struct schema_form *f = schema_form_none(c);

    if (!f)
        return NULL;
    f->literals = SCHEMA_LITERALS;
    f->number = f->written_number = c->number.all;
    f->string = f->string_bound = f->written_string = c->text.string;
    f->arrays = schema_arrays_of(c, schema_array_any(c));
    f->objects = schema_objects_of(c, schema_object_any(c));
    return f;
}

/* ---- arrays ---- */

uint32_t schema_element(const struct schema_array *a, size_t i)
{
    return i < a->n_prefix ? a->prefix[i] : a->rest;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static bool is_any_array(const struct schema_array *a)
{
    return a->n_prefix == 0 && a->rest == SCHEMA_ANY && a->least == 0 && a->most == SCHEMA_NO_LIMIT &&
           a->n_contains == 0 && !a->unique;
}

/* Returns the clause for the arrays that satisfy A and B. NULL: there are none, or an error. */
static const struct schema_array *array_and(struct schema_compiler *c, const struct schema_array *a,
                                            const struct schema_array *b)
{
    size_t n = a->n_prefix > b->n_prefix ? a->n_prefix : b->n_prefix;
    struct schema_contains *contains;
    struct schema_array *r;
    uint32_t *prefix;

    if (is_any_array(a) || is_any_array(b))
        return is_any_array(a) ? b : a;
    if (!schema_work(c, 1 + n))
        return NULL;
    r = schema_array_any(c);
    prefix = schema_alloc(c, n, sizeof(*prefix));
    contains = schema_alloc(c, a->n_contains + b->n_contains, sizeof(*contains));
    if (!r || !prefix || !contains)
        return NULL;
    r->least = larger(a->least, b->least);
    r->most = smaller(a->most, b->most);
    r->rest = schema_and(c, a->rest, b->rest);
    for (size_t i = 0; i < n; i++) {
        prefix[i] = schema_and(c, schema_element(a, i), schema_element(b, i));
        if (prefix[i] == SCHEMA_NONE && r->most > i)
            r->most = (uint32_t)i;
    }
    if (r->rest == SCHEMA_NONE && r->most > n)
        r->most = (uint32_t)n;
    r->prefix = prefix;
    r->n_prefix = n;
    if (a->n_contains)
        memcpy(contains, a->contains, a->n_contains * sizeof(*contains));
    if (b->n_contains)
        memcpy(contains + a->n_contains, b->contains, b->n_contains * sizeof(*contains));
    r->contains = contains;
    r->n_contains = a->n_contains + b->n_contains;
    r->unique = a->unique ? a->unique : b->unique;
    return r->least > r->most ? NULL : r;
}

static struct schema_arrays arrays_and(struct schema_compiler *c, struct schema_arrays a,
                                       struct schema_arrays b)
{
    struct clauses list = {0};

    for (size_t i = 0; i < a.n; i++)
        for (size_t j = 0; j < b.n; j++)
            clause_put(c, &list, array_and(c, a.of[i], b.of[j]));
    return arrays_of(&list);
}

/* Returns the clause for arrays with LEAST to MOST elements in TERM from index FROM on. */
static const struct schema_array *array_with(struct schema_compiler *c, uint32_t term, uint32_t least,
                                             uint32_t most, uint32_t from)
{
    struct schema_array *r = schema_array_any(c);
    struct schema_contains *x = schema_alloc(c, 1, sizeof(*x));

    if (!r || !x)
        return NULL;
    *x = (struct schema_contains){term, least, most, from};
    r->contains = x;
    r->n_contains = 1;
    if (most == SCHEMA_NO_LIMIT)
        r->least = from + least;
    return r;
}

/* Returns the clause for arrays of LEAST to MOST elements, of which element LEAST - 1 (if any) is in TERM. */
static const struct schema_array *array_sized(struct schema_compiler *c, uint32_t least, uint32_t most,
                                              uint32_t term)
{
    struct schema_array *r = schema_array_any(c);
    uint32_t *prefix;

    if (!r)
        return NULL;
    r->least = least;
    r->most = most;
    if (term == SCHEMA_ANY)
        return r;
    prefix = schema_alloc(c, least, sizeof(*prefix));
    if (!prefix)
        return NULL;
    for (uint32_t i = 0; i < least; i++)
        prefix[i] = i + 1 == least ? term : SCHEMA_ANY;
    r->prefix = prefix;
    r->n_prefix = least;
    return r;
}

/* Appends clauses for the arrays that violate A. */
static void array_not(struct schema_compiler *c, const struct schema_array *a, struct clauses *out)
{
    if (a->unique && a->most > 1)
        schema_unserved(c, a->unique, "uniqueItems", "is not supported under `not` and in this `oneOf`");
    if (a->least > 0)
        clause_put(c, out, array_sized(c, 0, a->least - 1, SCHEMA_ANY));
    if (a->most != SCHEMA_NO_LIMIT)
        clause_put(c, out, array_sized(c, a->most + 1, SCHEMA_NO_LIMIT, SCHEMA_ANY));
    for (size_t i = 0; i < a->n_prefix && i < a->most && schema_work(c, i); i++)
        if (a->prefix[i] != SCHEMA_ANY)
            clause_put(c, out, array_sized(c, (uint32_t)i + 1, SCHEMA_NO_LIMIT, schema_not(c, a->prefix[i])));
    if (a->rest != SCHEMA_ANY && a->most > a->n_prefix)
        clause_put(c, out, array_with(c, schema_not(c, a->rest), 1, SCHEMA_NO_LIMIT, (uint32_t)a->n_prefix));
    for (size_t i = 0; i < a->n_contains; i++) {
        const struct schema_contains *x = &a->contains[i];

        if (x->least > 0)
            clause_put(c, out, array_with(c, x->term, 0, x->least - 1, x->from));
        if (x->most != SCHEMA_NO_LIMIT)
            clause_put(c, out, array_with(c, x->term, x->most + 1, SCHEMA_NO_LIMIT, x->from));
    }
}

/* ---- objects ---- */

static bool has_key(const struct schema_object *o, uint32_t key, size_t *at)
{
    for (*at = 0; *at < o->n_members; ++*at)
        if (o->member[*at].key == key)
            return true;
    return false;
}

static bool is_name(struct schema_compiler *c, uint32_t keys, uint32_t key)
{
    const struct schema_key *k = &c->key[key];

    return keys == c->text.string || regex_matches(c->s, keys, k->spelling, k->n_spelling);
}

/* Returns the term of the property KEY, which is not a member of O. */
static uint32_t other_term(struct schema_compiler *c, const struct schema_object *o, uint32_t key)
{
    for (size_t i = 0; i < o->n_others; i++)
        if (is_name(c, o->other[i].keys, key))
            return o->other[i].term;
    return SCHEMA_NONE;
}

uint32_t schema_property(struct schema_compiler *c, const struct schema_object *o, uint32_t key)
{
    size_t at;

    return has_key(o, key, &at) ? o->member[at].term : other_term(c, o, key);
}

static bool is_any_object(const struct schema_compiler *c, const struct schema_object *o)
{
    return o->n_members == 0 && o->n_others == 1 && o->other[0].term == SCHEMA_ANY &&
           o->other[0].keys == c->text.string && o->least == 0 && o->most == SCHEMA_NO_LIMIT &&
           o->n_some == 0 && !o->is_closed && !o->other[0].is_described;
}

/* Sets R->other to the intersections of each entry of A->other with each entry of B->other. */
static bool others_and(struct schema_compiler *c, struct schema_object *r, const struct schema_object *a,
                       const struct schema_object *b)
{
    struct schema_names *other = schema_alloc(c, a->n_others * b->n_others, sizeof(*other));

    if (!other)
        return false;
    r->n_others = 0;
    for (size_t i = 0; i < a->n_others; i++)
        for (size_t j = 0; j < b->n_others; j++) {
            uint32_t keys = schema_regex_and(c, a->other[i].keys, b->other[j].keys, c->text.string);

            if (!schema_work(c, 1))
                return false;
            if (a->n_others > 1 && b->n_others > 1 && regex_is_empty(c->s, keys))
                continue;
            other[r->n_others++] =
                (struct schema_names){keys, schema_and(c, a->other[i].term, b->other[j].term),
                                      a->other[i].is_described || b->other[j].is_described};
        }
    r->other = other;
    return true;
}

/* True if the value of some property that is not a member of O can be in the term of X. */
static bool some_is_possible(struct schema_compiler *c, const struct schema_object *o,
                             const struct schema_names *x)
{
    for (size_t i = 0; i < o->n_others; i++)
        if (schema_and(c, o->other[i].term, x->term) != SCHEMA_NONE)
            return true;
    return false;
}

/* True if TERM certainly has no value. Only intersections are searched, because the search is costly, and not their
 * elements and properties. */
static bool is_contradiction(struct schema_compiler *c, uint32_t term)
{
    return term == SCHEMA_NONE || (c->term[term].kind == SCHEMA_TERM_AND && schema_is_empty(c, term, 1));
}

/* Appends R with the additional conditions SOME [n_some] of the clause FROM. Each requires a property that is
 * not a member of FROM. If the name of a member of R matches a condition, clauses for two alternatives are
 * appended: this member satisfies the condition, or another property does. */
static void put_object(struct schema_compiler *c, struct clauses *out, const struct schema_object *r,
                       const struct schema_names *some, size_t n_some, const struct schema_object *from)
{
    struct schema_object *x;
    struct schema_names *kept;
    size_t n_required = 0, at;

    if (!schema_work(c, 1))
        return;
    if (n_some > 0) {
        x = schema_alloc(c, 1, sizeof(*x));
        kept = schema_alloc(c, r->n_some + 1, sizeof(*kept));
        if (!x || !kept)
            return;
        *x = *r;
        if (some_is_possible(c, r, some)) {
            bool is_known = false;

            for (size_t i = 0; i < r->n_some; i++) {
                kept[i] = r->some[i];
                is_known = is_known || (some->keys == kept[i].keys && some->term == kept[i].term);
            }
            if (!is_known)
                kept[x->n_some++] = *some;
            x->some = kept;
            put_object(c, out, x, some + 1, n_some - 1, from);
        }
        for (size_t i = 0; i < r->n_members; i++) {
            struct schema_member *member;
            uint32_t term;

            if (has_key(from, r->member[i].key, &at) || !is_name(c, some->keys, r->member[i].key))
                continue;
            term = schema_and(c, r->member[i].term, some->term);
            x = schema_alloc(c, 1, sizeof(*x));
            member = schema_alloc(c, r->n_members, sizeof(*member));
            if (!x || !member || !schema_work(c, r->n_members))
                return;
            if (term == SCHEMA_NONE)
                continue;
            *x = *r;
            memcpy(member, r->member, r->n_members * sizeof(*member));
            member[i].term = term;
            member[i].is_required = true;
            x->member = member;
            put_object(c, out, x, some + 1, n_some - 1, from);
        }
        return;
    }
    for (size_t i = 0; i < r->n_members; i++) {
        /* Most combinations of alternatives contradict each other in a required member. They are dropped. */
        if (r->member[i].is_required && is_contradiction(c, r->member[i].term))
            return;
        n_required += r->member[i].is_required;
    }
    if (r->least <= r->most && n_required <= r->most)
        clause_put(c, out, r);
}

/* Writes the members of the objects that satisfy both A and B to MEMBER, A's members first, and returns their
 * number. R->other has the names that are members of neither. */
static size_t members_and(struct schema_compiler *c, const struct schema_object *a,
                          const struct schema_object *b, const struct schema_object *r,
                          struct schema_member *member)
{
    size_t n = 0, at;

    for (size_t i = 0; i < a->n_members; i++) {
        struct schema_member m = a->member[i];

        if (has_key(b, m.key, &at)) {
            if (m.is_free && !b->member[at].is_free)
                continue; /* the property keeps its position in B, where it is not free */
            m.is_required = m.is_required || b->member[at].is_required;
        }
        m.term = schema_and(c, m.term, schema_property(c, b, m.key));
        member[n++] = m;
    }
    for (size_t i = 0; i < b->n_members; i++) {
        struct schema_member m = b->member[i];
        bool is_of_a = has_key(a, m.key, &at);

        if (is_of_a && (m.is_free || !a->member[at].is_free))
            continue;
        m.is_required = m.is_required || (is_of_a && a->member[at].is_required);
        m.term = schema_and(c, m.term, schema_property(c, a, m.key));
        /* A free member with the term of all other names is redundant, unless `some` asks for non-members. */
        if (is_of_a || !m.is_free || m.is_required || b->n_some > 0 || a->n_some > 0 ||
            m.term != other_term(c, r, m.key))
            member[n++] = m;
    }
    return n;
}

/* Appends clauses for the objects that satisfy A and B. A's names come first or, if B_FIRST, B's names. */
static void object_and(struct schema_compiler *c, const struct schema_object *a,
                       const struct schema_object *b, bool b_first, struct clauses *out)
{
    struct schema_object *r;
    struct schema_member *member;
    struct clauses half = {0};

    if (is_any_object(c, a) || is_any_object(c, b)) {
        clause_put(c, out, is_any_object(c, a) ? b : a);
        return;
    }
    if (!schema_work(c, 1 + a->n_members + b->n_members + a->n_members * b->n_members / 64))
        return;
    r = schema_object_any(c);
    member = schema_alloc(c, a->n_members + b->n_members, sizeof(*member));
    if (!r || !member || !others_and(c, r, a, b))
        return;
    r->n_members = members_and(c, b_first ? b : a, b_first ? a : b, r, member);
    r->member = member;
    r->least = larger(a->least, b->least);
    r->most = smaller(a->most, b->most);
    r->is_closed = a->is_closed || b->is_closed;
    put_object(c, &half, r, a->some, a->n_some, a);
    for (size_t i = 0; i < half.n; i++)
        put_object(c, out, half.clause[i], b->some, b->n_some, b);
}

/* True if A and B have the same members, other names and conditions. */
static bool is_same_object(const struct schema_object *a, const struct schema_object *b)
{
    if (a->n_members != b->n_members || a->n_others != b->n_others || a->n_some != b->n_some ||
        a->least != b->least || a->most != b->most || a->is_closed != b->is_closed)
        return false;
    for (size_t i = 0; i < a->n_members; i++)
        if (a->member[i].key != b->member[i].key || a->member[i].term != b->member[i].term ||
            a->member[i].is_required != b->member[i].is_required)
            return false;
    for (size_t i = 0; i < a->n_others; i++)
        if (a->other[i].keys != b->other[i].keys || a->other[i].term != b->other[i].term ||
            a->other[i].is_described != b->other[i].is_described)
            return false;
    for (size_t i = 0; i < a->n_some; i++)
        if (a->some[i].keys != b->some[i].keys || a->some[i].term != b->some[i].term)
            return false;
    return true;
}

static bool has_described(const struct schema_object *o, bool is_described)
{
    for (size_t i = 0; i < o->n_others; i++)
        if (o->other[i].term != SCHEMA_NONE && o->other[i].is_described == is_described)
            return true;
    return false;
}

/* True if B describes properties that A does not describe. */
static bool describes_more(const struct schema_object *b, const struct schema_object *a)
{
    size_t at;

    for (size_t i = 0; i < b->n_members; i++)
        if (b->member[i].term != SCHEMA_NONE && !has_key(a, b->member[i].key, &at))
            return true;
    return has_described(b, true) && has_described(a, false);
}

/* Appends clauses for the objects that satisfy A and at least one of B. If one of B contains all objects of A, appends
 * only A, unless A is closed and another one of B describes properties beyond those of A. B_FIRST: the names of B come
 * first. */
static void object_and_any(struct schema_compiler *c, const struct schema_object *a, struct schema_objects b,
                           bool b_first, struct clauses *out)
{
    size_t first = out->n;
    bool is_whole = false, is_more = false, is_closed = a->is_closed && !c->is_open;

    for (size_t i = 0; i < b.n && !c->rc && !(is_whole && !is_closed); i++) {
        size_t before = out->n;

        object_and(c, a, b.of[i], b_first, out);
        is_whole = is_whole || (out->n == before + 1 && is_same_object(out->clause[before], a));
        is_more = is_more || (is_closed && out->n > before && describes_more(b.of[i], a));
    }
    if (is_whole && !is_more) {
        out->n = first;
        clause_put(c, out, a);
    }
}

static struct schema_objects objects_and(struct schema_compiler *c, struct schema_objects a,
                                         struct schema_objects b, bool b_first)
{
    struct clauses list = {0};

    for (size_t i = 0; i < a.n && !c->rc; i++)
        object_and_any(c, a.of[i], b, b_first, &list);
    return objects_of(&list);
}

/* Gives R the members of O, each optional and with any value. */
static bool same_members(struct schema_compiler *c, struct schema_object *r, const struct schema_object *o)
{
    struct schema_member *member = schema_alloc(c, o->n_members, sizeof(*member));

    if (!member || !schema_work(c, o->n_members))
        return false;
    for (size_t i = 0; i < o->n_members; i++)
        member[i] = (struct schema_member){o->member[i].key, SCHEMA_ANY, false, o->member[i].is_free};
    r->member = member;
    r->n_members = o->n_members;
    return true;
}

static void put_member(struct schema_compiler *c, struct clauses *out, uint32_t key, uint32_t term,
                       bool is_required)
{
    struct schema_object *r = schema_object_any(c);
    struct schema_member *member = schema_alloc(c, 1, sizeof(*member));

    if (!r || !member)
        return;
    *member = (struct schema_member){key, term, is_required, true};
    r->member = member;
    r->n_members = 1;
    clause_put(c, out, r);
}

/* Appends a clause about the properties that are not members of O and whose names match KEYS: at least one of
 * them or, if ALL, all of them are in TERM. */
static void put_others(struct schema_compiler *c, struct clauses *out, const struct schema_object *o,
                       uint32_t keys, uint32_t term, bool all)
{
    struct schema_object *r = schema_object_any(c);
    struct schema_names *other;

    if (!r || !same_members(c, r, o))
        return;
    if (all) {
        other = schema_alloc(c, 2, sizeof(*other));
        if (!other)
            return;
        other[0] = (struct schema_names){.keys = keys, .term = term};
        other[1] =
            (struct schema_names){.keys = schema_regex_not(c, keys, c->text.string), .term = SCHEMA_ANY};
        r->other = other;
        r->n_others = keys == c->text.string ? 1 : 2;
    } else {
        r->some = names(c, keys, term);
        r->n_some = r->some ? 1 : 0;
    }
    clause_put(c, out, r);
}

static bool has_required(const struct schema_object *o)
{
    for (size_t i = 0; i < o->n_members; i++)
        if (o->member[i].is_required)
            return true;
    return false;
}

enum { MOST_OPTIONAL = 2, MOST_MARKS = 4 };

/* True if TERM is a schema with `const` or a short `enum`, with which properties usually tell alternatives
 * apart. */
static bool is_mark(const struct schema_compiler *c, uint32_t term)
{
    const json_t *json = c->term[term].kind == SCHEMA_TERM_RAW ? c->term[term].json : NULL;
    size_t n = json_array_size(json_object_get(json, "enum"));

    return json_object_get(json, "const") || (n > 0 && n <= MOST_MARKS);
}

/* Returns the index of the first optional member of O whose term is_mark(); n_members: there is none. */
static size_t first_mark(const struct schema_compiler *c, const struct schema_object *o)
{
    size_t i = 0;

    while (i < o->n_members && (o->member[i].is_required || !is_mark(c, o->member[i].term)))
        i++;
    return i;
}

/* Appends clauses for the objects that violate O. If IS_EXACT is false, only few optional members are considered,
 * so objects that violate O only by other optional properties may be missing. */
static void object_not(struct schema_compiler *c, const struct schema_object *o, bool is_exact,
                       struct clauses *out)
{
    struct schema_object *r;
    bool by_required = has_required(o);
    size_t n_optional = 0, mark = first_mark(c, o);

    if (o->least > 0 && (r = schema_object_any(c))) {
        r->most = o->least - 1;
        clause_put(c, out, r);
    }
    if (o->most != SCHEMA_NO_LIMIT && (r = schema_object_any(c))) {
        r->least = o->most + 1;
        clause_put(c, out, r);
    }
    for (size_t i = 0; i < o->n_members; i++) {
        if (o->member[i].is_required)
            put_member(c, out, o->member[i].key, SCHEMA_NONE, false);
        if (o->member[i].term != SCHEMA_ANY && (is_exact || o->member[i].is_required ||
                                                (by_required ? i == mark : n_optional++ < MOST_OPTIONAL)))
            put_member(c, out, o->member[i].key, schema_not(c, o->member[i].term), true);
    }
    for (size_t i = 0; i < o->n_others && is_exact; i++)
        if (o->other[i].term != SCHEMA_ANY)
            put_others(c, out, o, o->other[i].keys, schema_not(c, o->other[i].term), false);
    for (size_t i = 0; i < o->n_some; i++)
        put_others(c, out, o, o->some[i].keys, schema_not(c, o->some[i].term), true);
}

/* ---- forms ---- */

/* Returns the spellings in which answers write the numbers of BOTH, the intersection of A's and B's
 * numbers. */
static uint32_t written_number_and(struct schema_compiler *c, const struct schema_form *a,
                                   const struct schema_form *b, uint32_t both)
{
    bool is_free = a->written_number == a->number && b->written_number == b->number;
    uint32_t r = is_free ? both : schema_regex_and(c, a->written_number, b->written_number, c->number.all);

    if (a->written_number == a->number || b->written_number == b->number || !regex_is_empty(c->s, r))
        return r;
    /* A and B write the same numbers differently, such as 1.0 and 1. */
    r = regex_and(c->s, both, c->number.numeral);
    return regex_is_empty(c->s, r) ? both : r;
}

const struct schema_form *schema_form_and(struct schema_compiler *c, const struct schema_form *a,
                                          const struct schema_form *b, bool b_first)
{
    struct schema_form *r = schema_form_none(c);

    if (!r || !a || !b)
        return NULL;
    r->is_partial = a->is_partial || b->is_partial;
    r->literals = a->literals & b->literals;
    r->number = schema_regex_and(c, a->number, b->number, c->number.all);
    r->string = schema_regex_and(c, a->string, b->string, c->text.string);
    r->string_bound = schema_regex_and(c, a->string_bound, b->string_bound, c->text.string);
    r->written_number = written_number_and(c, a, b, r->number);
    r->written_string = schema_regex_and(c, a->written_string, b->written_string, c->text.string);
    r->arrays = arrays_and(c, a->arrays, b->arrays);
    r->objects = objects_and(c, a->objects, b->objects, b_first);
    return r;
}

/* Returns the union of the regular expressions that the forms OF [n] have in the member at offset WHICH. */
static uint32_t union_of(struct schema_compiler *c, const struct schema_form *const *of, size_t n,
                         size_t which)
{
    uint32_t *parts = schema_alloc(c, n, sizeof(*parts));

    for (size_t i = 0; parts && i < n; i++)
        memcpy(&parts[i], (const char *)of[i] + which, sizeof(*parts));
    return parts ? regex_union(c->s, parts, n) : REGEX_NOTHING;
}

const struct schema_form *schema_form_or(struct schema_compiler *c, const struct schema_form *const *of,
                                         size_t n)
{
    struct schema_form *r = schema_form_none(c);
    struct clauses arrays = {0}, objects = {0};
    bool has_any_array = false, has_any_object = false;

    for (size_t i = 0; i < n; i++)
        if (!of[i])
            return NULL;
    if (!r || n == 1)
        return r ? of[0] : NULL;
    r->number = union_of(c, of, n, offsetof(struct schema_form, number));
    r->string = union_of(c, of, n, offsetof(struct schema_form, string));
    r->string_bound = union_of(c, of, n, offsetof(struct schema_form, string_bound));
    r->written_number = union_of(c, of, n, offsetof(struct schema_form, written_number));
    r->written_string = union_of(c, of, n, offsetof(struct schema_form, written_string));
    for (size_t i = 0; i < n; i++) {
        r->is_partial = r->is_partial || of[i]->is_partial;
        r->literals |= of[i]->literals;
        for (size_t k = 0; k < of[i]->arrays.n; k++) {
            has_any_array = has_any_array || is_any_array(of[i]->arrays.of[k]);
            clause_put(c, &arrays, of[i]->arrays.of[k]);
        }
        for (size_t k = 0; k < of[i]->objects.n; k++) {
            has_any_object = has_any_object || is_any_object(c, of[i]->objects.of[k]);
            clause_put(c, &objects, of[i]->objects.of[k]);
        }
    }
    /* A clause that every array or object satisfies makes the other clauses redundant. */
    r->arrays = has_any_array ? schema_arrays_of(c, schema_array_any(c)) : arrays_of(&arrays);
    r->objects = has_any_object ? schema_objects_of(c, schema_object_any(c)) : objects_of(&objects);
    return r;
}

const struct schema_form *schema_form_not(struct schema_compiler *c, const struct schema_form *a,
                                          bool is_exact)
{
    struct schema_form *r = schema_form_any(c);

    if (!r || !a)
        return NULL;
    if (a->is_partial) {
        schema_unserved(c, c->at, "oneOf", "so many alternatives are not supported under `not`");
        *r = (struct schema_form){.is_partial = true};
        return r;
    }
    for (size_t i = 0; i < a->arrays.n; i++) {
        struct clauses list = {0};

        array_not(c, a->arrays.of[i], &list);
        r->arrays = arrays_and(c, r->arrays, arrays_of(&list));
    }
    for (size_t i = 0; i < a->objects.n; i++) {
        struct clauses list = {0};

        object_not(c, a->objects.of[i], is_exact, &list);
        r->objects = objects_and(c, r->objects, objects_of(&list), false);
    }
    if (c->rc)
        return NULL;
    r->literals = SCHEMA_LITERALS & ~a->literals;
    r->number = r->written_number = schema_regex_not(c, a->number, c->number.all);
    r->string = r->written_string = schema_regex_not(c, a->string_bound, c->text.string);
    r->string_bound = schema_regex_not(c, a->string, c->text.string);
    r->is_partial = !is_exact && a->objects.n > 0;
    return r;
}
