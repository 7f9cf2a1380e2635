/* constraints.c - the list of compiled constraints: looks up, compiles and evicts entries. */
#include "engine/constraints/constraints.h"

#include <string.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/mem.h"

struct constraints_entry {
    struct constraints_entry *next, *before;
    struct constraint *constraint;
    uint8_t digest[DIGEST_BYTES]; /* digest of the source */
    size_t n_users; /* number of requests that use the entry, plus 1 while a thread of late.h has it */
    bool is_lent;   /* a thread of late.h works on it; used by the engine's thread only */
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

/* Computes the SHA-256 of all members of the source S, by which the cache identifies the source. */
static int digest_of(const struct constraint_source *s, uint8_t out[DIGEST_BYTES], struct err *e)
{
    const char *text[] = {s->text, s->whitespace, s->after, s->open, s->tools};
    struct {
        uint8_t digest[5][DIGEST_BYTES];
        uint8_t has[5], kind, is_lax, is_compact, is_open, every_spelling, has_channels;
    } all;
    int rc = 0;

    memset(&all, 0, sizeof(all));
    for (size_t i = 0; i < 5 && rc == 0; i++) {
        size_t n = i == 0 ? s->n : text[i] ? strlen(text[i]) : 0;

        all.has[i] = text[i] != NULL;
        rc = n ? digest_sha256(text[i], n, all.digest[i], e) : 0;
    }
    all.kind = (uint8_t)s->kind;
    all.is_lax = s->is_lax;
    all.is_compact = s->is_compact;
    all.is_open = s->is_open;
    all.every_spelling = s->every_spelling;
    all.has_channels = s->has_channels;
    return rc ? rc : digest_sha256(&all, sizeof(all), out, e);
}

/* ---- refusals ---- */

/* A refused constraint: a digest of its source, and the error. */
struct constraints_refusal {
    uint8_t digest[DIGEST_BYTES];
    struct err err; /* the error; code 0: the entry is unused */
    struct constraint_fault fault;
};

/* Returns the code of the remembered refusal of the source with DIGEST, and sets *E and *FAULT to it. 0: there is none.
 * The caller holds the lock. */
static int find_refusal(struct constraints *c, const uint8_t *digest, struct constraint_fault *fault,
                        struct err *e)
{
    for (size_t i = 0; c->refusal && i < CONSTRAINTS_REFUSALS; i++) {
        const struct constraints_refusal *x = &c->refusal[i];

        if (x->err.code == 0 || memcmp(x->digest, digest, DIGEST_BYTES) != 0)
            continue;
        c->n_refused_again++;
        if (fault)
            *fault = x->fault;
        if (e)
            *e = x->err;
        return x->err.code;
    }
    return 0;
}

/* Remembers the refusal E and FAULT of the source with DIGEST, instead of the oldest one. The caller holds the lock. */
static void keep_refusal(struct constraints *c, const uint8_t *digest, const struct constraint_fault *fault,
                         const struct err *e)
{
    struct constraints_refusal *x;

    if (!c->refusal)
        c->refusal = mem_zalloc(CONSTRAINTS_REFUSALS, sizeof(*c->refusal), MEM_ENGINE);
    if (!c->refusal)
        return;
    x = &c->refusal[c->n_refused++ % CONSTRAINTS_REFUSALS];
    memcpy(x->digest, digest, DIGEST_BYTES);
    x->err = *e;
    x->fault = *fault;
}

/* ---- entries ---- */

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
    mem_free(c->refusal);
    pthread_mutex_destroy(&c->vocabulary_lock);
    pthread_mutex_destroy(&c->lock);
    *c = (struct constraints){0};
}

/* Returns the entry of the source with DIGEST; NULL: the cache has none. The caller holds the lock. */
static struct constraints_entry *entry_of(const struct constraints *c, const uint8_t *digest)
{
    struct constraints_entry *x = c->first;

    while (x && (constraint_is_spent(x->constraint) || memcmp(x->digest, digest, DIGEST_BYTES) != 0))
        x = x->next;
    return x;
}

/* Like entry_of(), but counts one more user of the entry and makes it the most recently used one. */
static struct constraints_entry *find_entry(struct constraints *c, const uint8_t *digest)
{
    struct constraints_entry *x = entry_of(c, digest);

    if (!x)
        return NULL;
    x->n_users++;
    unlink_entry(c, x);
    link_first(c, x);
    return x;
}

/* Returns the limit of the cache's total bytes, above which entries without users are freed. */
static size_t most_kept(void)
{
    size_t part = mem_budget() / 8;

    return part && part < CONSTRAINTS_MAX_BYTES ? part : CONSTRAINTS_MAX_BYTES;
}

/* Frees entries without users, the least recently used first, until all entries take at most MOST bytes. The caller
 * holds the lock. */
static void drop_entries(struct constraints *c, size_t most)
{
    for (struct constraints_entry *x = c->last, *before; x && atomic_load(&c->budget.bytes) > most;
         x = before) {
        before = x->before;
        if (x->n_users == 0) {
            unlink_entry(c, x);
            free_entry(x);
        }
    }
}

static int new_entry(struct constraints_entry **out, const struct constraint_source *source,
                     const uint8_t *digest, const struct constraint_vocabulary *v,
                     struct constraint_fault *fault, struct err *e)
{
    struct constraints_entry *x = mem_zalloc(1, sizeof(*x), MEM_ENGINE);
    int rc = x ? constraint_new(&x->constraint, source, v, fault, e) : err_nomem(e, "a constraint");

    if (rc) {
        mem_free(x);
        return rc;
    }
    memcpy(x->digest, digest, DIGEST_BYTES);
    x->n_users = 1;
    *out = x;
    return 0;
}

/* Creates the vocabulary, unless it exists. No request is charged for it. */
static int need_vocabulary(struct constraints *c, struct err *e)
{
    enum mem_charge before = mem_charge(MEM_CHARGE_NONE);
    int rc = 0;

    pthread_mutex_lock(&c->vocabulary_lock);
    if (!c->vocabulary)
        rc = constraint_vocabulary_new(&c->vocabulary, c->tok, e);
    pthread_mutex_unlock(&c->vocabulary_lock);
    mem_charge(before);
    return rc;
}

/* Returns whether there is no room for new constraints. */
static bool is_full(const struct constraints *c)
{
    return !mem_budget() && atomic_load(&c->budget.bytes) > c->max_admit;
}

/* Compiles SOURCE, which has DIGEST. If the budget of requests does not suffice, entries without users make room. */
static int compile(struct constraints *c, const struct constraint_source *source, const uint8_t *digest,
                   struct constraints_entry **made, struct constraint_fault *fault, struct err *e)
{
    int rc;

    mem_over_budget(); /* resets the flag of an earlier failure */
    rc = new_entry(made, source, digest, c->vocabulary, fault, e);
    if (rc == 0 || !mem_over_budget())
        return rc;
    pthread_mutex_lock(&c->lock);
    drop_entries(c, 0);
    pthread_mutex_unlock(&c->lock);
    if (e)
        *e = (struct err){0};
    return new_entry(made, source, digest, c->vocabulary, fault, e);
}

/* Keeps the refusal of a compilation that has failed with the code RC. Refusals are not charged to the request. */
static void note_refusal(struct constraints *c, int rc, const uint8_t digest[DIGEST_BYTES],
                         const struct constraint_fault *fault, const struct err *e)
{
    enum mem_charge before;

    if (rc != ERR_INPUT && rc != ERR_UNSUPPORTED)
        return;
    before = mem_charge(MEM_CHARGE_NONE);
    keep_refusal(c, digest, fault, e);
    mem_charge(before);
}

int constraints_get(struct constraints *c, const struct constraint_source *source,
                    struct constraints_entry **out, struct constraint_fault *fault, struct err *e)
{
    struct constraints_entry *made = NULL;
    struct constraint_fault own_fault;
    uint8_t digest[DIGEST_BYTES];
    struct err own = {0};
    double begin;
    int rc;

    *out = NULL;
    e = e ? e : &own;
    fault = fault ? fault : &own_fault;
    if (!c->tok)
        return err_set(e, ERR_UNSUPPORTED, "this model has no tokenizer, which constraints on answers need");
    if ((rc = need_vocabulary(c, e)) != 0 || (rc = digest_of(source, digest, e)) != 0)
        return rc;
    pthread_mutex_lock(&c->lock);
    c->n_queries++;
    *out = find_entry(c, digest);
    c->n_hits += *out != NULL;
    rc = *out ? 0 : find_refusal(c, digest, fault, e);
    if (!*out && is_full(c))
        drop_entries(c, most_kept());
    pthread_mutex_unlock(&c->lock);
    if (*out || rc)
        return rc;
    if (is_full(c))
        return err_set(
            e, ERR_NOSPACE,
            "the constraints of running requests take more than %zu MiB of memory; come back later",
            c->max_admit >> 20);
    begin = clock_seconds();
    rc = compile(c, source, digest, &made, fault, e);
    pthread_mutex_lock(&c->lock);
    constraints_time(&c->compile, clock_seconds() - begin);
    if (rc == ERR_NOSPACE) /* the constraint itself exceeds a limit: a later attempt would fail, too */
        rc = e->code = ERR_UNSUPPORTED;
    *out = rc ? NULL : find_entry(c, digest); /* or the entry that another thread compiled meanwhile */
    if (rc) {
        note_refusal(c, rc, digest, fault, e);
        pthread_mutex_unlock(&c->lock);
        return rc;
    }
    if (!*out) {
        constraint_share(made->constraint, &c->budget);
        *out = made;
        made = NULL;
        link_first(c, *out);
        drop_entries(c, most_kept());
    }
    pthread_mutex_unlock(&c->lock);
    if (made)
        free_entry(made);
    return 0;
}

bool constraints_has(struct constraints *c, const struct constraint_source *source)
{
    uint8_t digest[DIGEST_BYTES];
    bool found;

    if (digest_of(source, digest, NULL) != 0)
        return false;
    pthread_mutex_lock(&c->lock);
    found = entry_of(c, digest) != NULL;
    pthread_mutex_unlock(&c->lock);
    return found;
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
        drop_entries(c, most_kept());
    }
    pthread_mutex_unlock(&c->lock);
}

void constraints_lend(struct constraints *c, struct constraints_entry *entry, bool is_lent)
{
    entry->is_lent = is_lent;
    if (!is_lent) {
        constraints_put(c, entry);
        return;
    }
    pthread_mutex_lock(&c->lock);
    entry->n_users++;
    pthread_mutex_unlock(&c->lock);
}

bool constraints_is_lent(const struct constraints_entry *entry)
{
    return entry->is_lent;
}

struct constraint *constraints_of(const struct constraints_entry *entry)
{
    return entry->constraint;
}

size_t constraints_mask_words(const struct constraints *c)
{
    return constraint_mask_words(c->vocabulary);
}
