/* once.h - logs a warning only once for each name, such as a request field that has no effect. */
#ifndef GALLOP_CHAT_ONCE_H
#define GALLOP_CHAT_ONCE_H

#include <pthread.h>
#include <stddef.h>

enum { ONCE_NAMES = 64 };

struct once {
    pthread_mutex_t lock;
    char name[ONCE_NAMES][64];
    size_t n;
};

void once_init(struct once *o);
void once_fini(struct once *o);

/* Logs SENTENCE, which has a %s for NAME, unless a warning for NAME was logged before. ROUTE is the path of the
 * request. May be called on any thread. */
void once_warn(struct once *o, const char *route, const char *name, const char *sentence)
    __attribute__((format(printf, 4, 0)));

#endif
