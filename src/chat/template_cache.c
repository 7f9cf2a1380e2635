/* template_cache.c - looks up, parses and evicts templates, which are parsed without holding the lock. */
#include "chat/template_cache.h"

#include <string.h>

#include "base/mem.h"
#include "text/jinja/jinja.h"

void template_cache_init(struct template_cache *c)
{
    *c = (struct template_cache){.n_uses = 0};
    pthread_mutex_init(&c->lock, NULL);
}

static void free_entry(struct template_entry *x)
{
    if (!x)
        return;
    jinja_free(x->template.jinja);
    mem_free(x->source);
    mem_free(x);
}

void template_cache_fini(struct template_cache *c)
{
    for (size_t i = 0; i < TEMPLATE_CACHE_ENTRIES; i++)
        free_entry(c->entry[i]);
    pthread_mutex_destroy(&c->lock);
    *c = (struct template_cache){.n_uses = 0};
}

/* Parses and examines the template SOURCE [n] into a new entry. */
static int new_entry(struct template_entry **out, const struct chat *chat, const char *source, size_t n,
                     struct err *e)
{
    struct template_entry *x = mem_zalloc(1, sizeof(*x), MEM_ENGINE);
    int rc;

    *out = NULL;
    if (!x || !(x->source = mem_alloc(n + 1, MEM_ENGINE))) {
        free_entry(x);
        return err_nomem(e, "a chat template");
    }
    memcpy(x->source, source, n + 1);
    x->n = n;
    x->template.chat = chat;
    x->template.source = x->source;
    mem_lib_failed(); /* resets the flag of an earlier failure */
    if ((rc = err_utf8(e, "chat_template", source, n)) == 0 &&
        (rc = jinja_parse(&x->template.jinja, x->source, n, "chat_template", NULL, e)) == 0)
        rc = template_examine(&x->template, e);
    if (mem_lib_failed()) /* a failed allocation in jansson may look like a template that refuses messages */
        rc = err_nomem(e, "a chat template");
    if (rc)
        free_entry(x);
    else
        *out = x;
    return rc;
}

/* Returns the entry of SOURCE [n] and counts a new use of it. NULL: none. The caller holds the lock. */
static struct template_entry *find_template(struct template_cache *c, const char *source, size_t n)
{
    for (size_t i = 0; i < TEMPLATE_CACHE_ENTRIES; i++) {
        struct template_entry *x = c->entry[i];

        if (!x || x->n != n || memcmp(x->source, source, n) != 0)
            continue;
        x->n_users++;
        x->last_use = ++c->n_uses;
        return x;
    }
    return NULL;
}

/* Puts X into the cache in place of the least recently used entry. Returns the replaced entry if the caller
 * has to free it, else NULL. The caller holds the lock. */
static struct template_entry *keep_template(struct template_cache *c, struct template_entry *x)
{
    struct template_entry *old;
    size_t at = 0;

    for (size_t i = 1; i < TEMPLATE_CACHE_ENTRIES && c->entry[at]; i++)
        if (!c->entry[i] || c->entry[i]->last_use < c->entry[at]->last_use)
            at = i;
    old = c->entry[at];
    c->entry[at] = x;
    x->is_kept = true;
    if (!old)
        return NULL;
    old->is_kept = false;
    return old->n_users == 0 ? old : NULL;
}

int template_cache_get(struct template_cache *c, const struct chat *chat, const char *source,
                       struct template_entry **out, struct err *e)
{
    struct template_entry *x, *other, *old = NULL;
    size_t n = strlen(source);
    int rc;

    pthread_mutex_lock(&c->lock);
    *out = find_template(c, source, n);
    pthread_mutex_unlock(&c->lock);
    if (*out)
        return 0;
    if ((rc = new_entry(&x, chat, source, n, e)) != 0)
        return rc;
    pthread_mutex_lock(&c->lock);
    c->n_parsed++;
    if ((other = find_template(c, source, n)) != NULL) { /* another thread was faster */
        old = x;
        x = other;
    } else {
        x->n_users = 1;
        x->last_use = ++c->n_uses;
        if (n <= TEMPLATE_CACHE_MOST_BYTES)
            old = keep_template(c, x);
    }
    pthread_mutex_unlock(&c->lock);
    free_entry(old);
    *out = x;
    return 0;
}

void template_cache_release(struct template_cache *c, struct template_entry *x)
{
    bool is_unused;

    if (!x)
        return;
    pthread_mutex_lock(&c->lock);
    is_unused = --x->n_users == 0 && !x->is_kept;
    pthread_mutex_unlock(&c->lock);
    if (is_unused)
        free_entry(x);
}
