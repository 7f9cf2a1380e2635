/* constraints.c - the list of compiled constraints: looks up, compiles and evicts entries. */
#include "engine/constraints/constraints.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

struct constraints_entry {
    struct constraints_entry *next, *before;
    struct constraint *constraint;
    struct constraint_source source; /* its texts are stored after this struct in the same allocation */
    size_t n_users;                  /* number of requests that use the entry */
    size_t n_texts;                  /* bytes of the texts of `source` */
};

void constraints_open(struct constraints *c, const struct tok *tok)
{
    *c = (struct constraints){.tok = tok,
                              .budget.most = CONSTRAINTS_MAX_IN_USE,
                              .max_admit = CONSTRAINTS_MAX_ADMIT,
                              .is_open = true};
    pthread_mutex_init(&c->vocabulary_lock, NULL);
    pthread_mutex_init(&c->lock, NULL);
}

void constraints_time(struct gallop_durations *d, double seconds)
{
    double bound = 1e-6;
    size_t i = 0;

    for (; i + 1 < GALLOP_N_DURATIONS && seconds > bound; bound *= 2)
        i++;
    d->count[i]++;
    d->seconds += seconds;
}

void constraints_stats(struct constraints *c, struct gallop_stats *s)
{
    pthread_mutex_lock(&c->lock);
    s->n_grammar_queries = c->n_queries;
    s->n_grammar_hits = c->n_hits;
    s->grammar_compile = c->compile;
    pthread_mutex_unlock(&c->lock);
}

static void unlink_entry(struct constraints *c, struct constraints_entry *x)
{
    *(x->before ? &x->before->next : &c->first) = x->next;
    *(x->next ? &x->next->before : &c->last) = x->before;
}

static void link_first(struct constraints *c, struct constraints_entry *x)
{
    x->before = NULL;
    x->next = c->first;
    *(c->first ? &c->first->before : &c->last) = x;
    c->first = x;
}

static void free_entry(struct constraints_entry *x)
{
    constraint_free(x->constraint);
    mem_free(x);
}

void constraints_close(struct constraints *c)
{
    if (!c->is_open)
        return;
    while (c->first) {
        struct constraints_entry *x = c->first;

        ASSERT(x->n_users == 0, "%zu requests still use a constraint", x->n_users);
        unlink_entry(c, x);
        free_entry(x);
    }
    constraint_vocabulary_free(c->vocabulary);
    pthread_mutex_destroy(&c->vocabulary_lock);
    pthread_mutex_destroy(&c->lock);
    *c = (struct constraints){0};
}

static bool is_same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool is_same_source(const struct constraint_source *a, const struct constraint_source *b)
{
    return a->kind == b->kind && a->n == b->n && a->is_lax == b->is_lax && a->is_compact == b->is_compact &&
           a->has_channels == b->has_channels && (a->n == 0 || memcmp(a->text, b->text, a->n) == 0) &&
           is_same_text(a->whitespace, b->whitespace) && is_same_text(a->after, b->after) &&
           is_same_text(a->open, b->open) && is_same_text(a->tools, b->tools);
}

/* Returns the entry of SOURCE and increments its number of users; NULL: the cache has no entry of SOURCE. The
 * caller holds the lock. */
static struct constraints_entry *find_entry(struct constraints *c, const struct constraint_source *source)
{
    struct constraints_entry *x = c->first;

    while (x && (constraint_is_spent(x->constraint) || !is_same_source(&x->source, source)))
        x = x->next;
    if (!x)
        return NULL;
    x->n_users++;
    unlink_entry(c, x);
    link_first(c, x);
    return x;
}

/* Frees entries without users, the least recently used first, until all entries take at most
 * CONSTRAINTS_MAX_BYTES. The caller holds the lock. */
static void drop_entries(struct constraints *c)
{
    for (struct constraints_entry *x = c->last, *before;
         x && atomic_load(&c->budget.bytes) > CONSTRAINTS_MAX_BYTES; x = before) {
        before = x->before;
        if (x->n_users == 0) {
            unlink_entry(c, x);
            free_entry(x);
        }
    }
}

static size_t text_bytes(const char *s)
{
    return s ? strlen(s) + 1 : 0;
}

/* Copies the text *S, which may be NULL, to *ROOM. Sets *S to the copy, and *ROOM to the address after it. */
static void move_text(const char **s, char **room)
{
    size_t n = text_bytes(*s);

    if (n == 0)
        return;
    memcpy(*room, *s, n);
    *s = *room;
    *room += n;
}

static int new_entry(struct constraints_entry **out, const struct constraint_source *source,
                     const struct constraint_vocabulary *v, struct constraint_fault *fault, struct err *e)
{
    size_t n_texts = source->n + text_bytes(source->whitespace) + text_bytes(source->after) +
                     text_bytes(source->open) + text_bytes(source->tools);
    struct constraints_entry *x = mem_zalloc(1, sizeof(*x) + n_texts + 1, MEM_ENGINE);
    char *text = x ? (char *)(x + 1) : NULL;
    int rc = x ? constraint_new(&x->constraint, source, v, fault, e) : err_nomem(e, "a constraint");

    if (rc) {
        mem_free(x);
        return rc;
    }
    x->source = *source;
    x->source.text = text;
    if (source->n > 0)
        memcpy(text, source->text, source->n);
    text += source->n;
    move_text(&x->source.whitespace, &text);
    move_text(&x->source.after, &text);
    move_text(&x->source.open, &text);
    move_text(&x->source.tools, &text);
    x->n_users = 1;
    x->n_texts = n_texts;
    *out = x;
    return 0;
}

/* Creates the vocabulary, unless it exists. */
static int need_vocabulary(struct constraints *c, struct err *e)
{
    int rc = 0;

    pthread_mutex_lock(&c->vocabulary_lock);
    if (!c->vocabulary)
        rc = constraint_vocabulary_new(&c->vocabulary, c->tok, e);
    pthread_mutex_unlock(&c->vocabulary_lock);
    return rc;
}

static int constraints_find(struct constraints *c, const struct constraint_source *source,
                            struct constraints_entry **out, struct constraint_fault *fault, struct err *e)
{
    struct constraints_entry *made = NULL;
    double begin;
    int rc;

    *out = NULL;
    if (!c->tok)
        return err_set(e, ERR_UNSUPPORTED, "this model has no tokenizer, which constraints on answers need");
    if ((rc = need_vocabulary(c, e)) != 0)
        return rc;
    pthread_mutex_lock(&c->lock);
    c->n_queries++;
    *out = find_entry(c, source);
    c->n_hits += *out != NULL;
    if (!*out && atomic_load(&c->budget.bytes) > c->max_admit)
        drop_entries(c);
    pthread_mutex_unlock(&c->lock);
    if (*out)
        return 0;
    if (atomic_load(&c->budget.bytes) > c->max_admit)
        return err_set(
            e, ERR_NOSPACE,
            "the constraints of running requests take more than %zu MiB of memory; come back later",
            c->max_admit >> 20);
    begin = clock_seconds();
    rc = new_entry(&made, source, c->vocabulary, fault, e);
    pthread_mutex_lock(&c->lock);
    constraints_time(&c->compile, clock_seconds() - begin);
    if (rc == ERR_NOSPACE && e) /* the constraint itself exceeds a limit: a later attempt would fail, too */
        rc = e->code = ERR_UNSUPPORTED;
    *out = rc ? NULL : find_entry(c, source); /* or the entry that another thread compiled meanwhile */
    if (rc) {
        pthread_mutex_unlock(&c->lock);
        return rc;
    }
    if (!*out) {
        constraint_share(made->constraint, &c->budget, made->n_texts);
        *out = made;
        made = NULL;
        link_first(c, *out);
        drop_entries(c);
    }
    pthread_mutex_unlock(&c->lock);
    if (made)
        free_entry(made);
    return 0;
}

int constraints_get(struct constraints *c, const struct constraint_source *source,
                    struct constraints_entry **out, struct constraint_fault *fault, struct err *e)
{
    enum mem_charge before;
    int rc;

    /* The memory of a cached constraint is not charged to this request. */
    before = mem_charge(MEM_CHARGE_NONE);
    rc = constraints_find(c, source, out, fault, e);
    mem_charge(before);
    return rc;
}

void constraints_put(struct constraints *c, struct constraints_entry *entry)
{
    if (!entry)
        return;
    pthread_mutex_lock(&c->lock);
    if (--entry->n_users == 0) {
        if (constraint_is_spent(entry->constraint)) {
            unlink_entry(c, entry);
            free_entry(entry);
        }
        drop_entries(c);
    }
    pthread_mutex_unlock(&c->lock);
}

struct constraint *constraints_of(const struct constraints_entry *entry)
{
    return entry->constraint;
}

size_t constraints_mask_words(const struct constraints *c)
{
    return constraint_mask_words(c->vocabulary);
}
