/* places.c - a list of ranges of rules with their places. */
#include "text/grammar/places.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

struct places_range {
    uint32_t first, end;
    char *text;
};

int places_add(struct places *p, uint32_t first, uint32_t end, const char *function, const char *pointer,
               struct err *e)
{
    char text[800];
    char *copy;

    snprintf(text, sizeof(text), "%s%.100s%sschema%s%.600s", function ? "function \"" : "",
             function ? function : "", function ? "\": " : "", *pointer ? " at " : "", pointer);
    if (p->n && end - first == 1 && p->n_bytes + strlen(text) > PLACES_MOST_BYTES)
        return 0;
    copy = mem_strndup(text, strlen(text), MEM_TEXT);
    if (!copy || !mem_grow((void **)&p->range, &p->cap, p->n + 1, sizeof(*p->range), MEM_TEXT)) {
        mem_free(copy);
        return err_nomem(e, "a constraint");
    }
    p->range[p->n++] = (struct places_range){first, end, copy};
    p->n_bytes += strlen(text) + 1;
    return 0;
}

const char *places_of(const struct places *p, uint32_t rule)
{
    for (size_t i = p->n; i-- > 0;)
        if (rule >= p->range[i].first && rule < p->range[i].end)
            return p->range[i].text;
    return NULL;
}

const char *places_only(const struct places *p)
{
    for (size_t i = 1; i < p->n; i++)
        if (p->range[i].first < p->range[0].first || p->range[i].end > p->range[0].end)
            return NULL;
    return p->n ? p->range[0].text : NULL;
}

void places_close(struct places *p)
{
    for (size_t i = 0; i < p->n; i++)
        mem_free(p->range[i].text);
    mem_free(p->range);
    *p = (struct places){0};
}
