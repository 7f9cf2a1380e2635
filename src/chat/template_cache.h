/* template_cache.h - keeps parsed chat templates that callers of gallop.h passed with conversations.
 *
 * Parsing and examining a template takes longer than rendering it, and callers pass the same one with each
 * conversation. The last TEMPLATE_CACHE_ENTRIES templates of an engine are kept. Any thread may use the cache.
 */
#ifndef GALLOP_CHAT_TEMPLATE_CACHE_H
#define GALLOP_CHAT_TEMPLATE_CACHE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/markup/template.h"

/* Templates larger than TEMPLATE_CACHE_MOST_BYTES are not kept. */
enum { TEMPLATE_CACHE_ENTRIES = 8, TEMPLATE_CACHE_MOST_BYTES = 256 << 10 };

/* A template that is in the cache or in use. */
struct template_entry {
    struct template template;
    char *source;
    size_t n, n_users;
    uint64_t last_use;
    bool is_kept;
};

struct template_cache {
    pthread_mutex_t lock;
    struct template_entry *entry[TEMPLATE_CACHE_ENTRIES];
    uint64_t n_uses;
    uint64_t n_parsed; /* templates that were parsed */
};

void template_cache_init(struct template_cache *c);
void template_cache_fini(struct template_cache *c); /* no entry may be in use */

/* Sets *OUT to the template SOURCE, which is parsed and examined unless it is in the cache. ERR_INPUT: it
 * cannot be parsed. The caller gives *OUT back with template_cache_release(). */
int template_cache_get(struct template_cache *c, const struct chat *chat, const char *source,
                       struct template_entry **out, struct err *e);
void template_cache_release(struct template_cache *c, struct template_entry *x);

#endif
