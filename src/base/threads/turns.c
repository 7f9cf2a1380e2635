/* turns.c - a queue of clients, each of which has a queue of items. */
#include "base/threads/turns.h"

#include <string.h>

void turns_init(struct turns *t, size_t most)
{
    memset(t, 0, sizeof(*t));
    t->last = &t->first;
    t->most = most ? most : SIZE_MAX;
}

/* Appends L to the queue of clients. */
static void line_up(struct turns *t, struct turns_line *l)
{
    l->next = NULL;
    *t->last = l;
    t->last = &l->next;
}

void turns_add(struct turns *t, struct turns_item *item)
{
    struct turns_line *l = &t->line[item->client];

    if (!l->first) {
        l->last = &l->first;
        line_up(t, l);
    }
    item->next = NULL;
    *l->last = item;
    l->last = &item->next;
}

struct turns_item *turns_take(struct turns *t)
{
    struct turns_line **link = &t->first, *l;
    struct turns_item *item;

    while (*link && (*link)->n_taken >= t->most)
        link = &(*link)->next;
    if ((l = *link) == NULL)
        return NULL;
    if ((*link = l->next) == NULL)
        t->last = link;
    item = l->first;
    l->first = item->next;
    l->n_taken++;
    if (l->first)
        line_up(t, l);
    return item;
}

void turns_give(struct turns *t, uint32_t client)
{
    t->line[client].n_taken--;
}
