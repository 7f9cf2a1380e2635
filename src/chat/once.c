/* once.c - keeps a list of the names that were logged. When the list is full, other names are not logged. */
#include "chat/once.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

void once_init(struct once *o)
{
    pthread_mutex_init(&o->lock, NULL);
    o->n = 0;
}

void once_fini(struct once *o)
{
    pthread_mutex_destroy(&o->lock);
}

void once_warn(struct once *o, const char *route, const char *name, const char *sentence)
{
    char text[200];
    size_t i = 0;

    pthread_mutex_lock(&o->lock);
    while (i < o->n && strncmp(o->name[i], name, sizeof(o->name[0]) - 1) != 0)
        i++;
    if (i == o->n && i < ONCE_NAMES) {
        snprintf(o->name[o->n++], sizeof(o->name[0]), "%s", name);
        snprintf(text, sizeof(text), sentence, o->name[i]);
        log_warn("%s: %s", route, text);
    }
    pthread_mutex_unlock(&o->lock);
}
