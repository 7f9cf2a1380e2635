/* steps.c - builds lists of steps, and bounds how much they can make a text grow. */
#include "text/tok/steps.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/* Returns the largest factor by which step P makes a text longer. */
static size_t growth_of(const struct step *p)
{
    switch (p->kind) {
    case NORMALIZE_REPLACE:
    case SPLIT_REPLACE:
    case DECODE_REPLACE: /* a pattern may match one byte, or the empty string before each byte */
        return p->re ? 1 + p->text.n : 1 + (p->text.n - (p->text.n != 0)) / (p->find.n + !p->find.n);
    case NORMALIZE_PREPEND:
    case SPLIT_PREPEND: return 1 + p->text.n;
    case NORMALIZE_MAP_HF:
    case NORMALIZE_MAP_SPM: return 3; /* an estimate for common maps */
    case NORMALIZE_IDEOGRAPHS: return 2;
    default: return 1;
    }
}

int tok_add_step(struct steps *to, struct step step, const char *section, struct err *e)
{
    size_t growth = growth_of(&step), all;

    if (to->n == STEPS_MAX)
        return err_set(e, ERR_INPUT, "there are more than %d steps", (int)STEPS_MAX);
    if (__builtin_mul_overflow(growth, to->growth ? to->growth : 1, &all) || all > STEPS_GROWTH_MAX)
        return err_set(e, ERR_INPUT, "the steps can make a text more than %d times longer",
                       (int)STEPS_GROWTH_MAX);
    to->growth = all;
    if (!mem_grow((void **)&to->step, &to->cap, to->n + 1, sizeof(*to->step), MEM_TEXT))
        return err_nomem(e, section);
    to->step[to->n++] = step;
    return 0;
}

void tok_steps_fini(struct steps *s)
{
    mem_free(s->step);
    *s = (struct steps){0};
}

bool tok_is_among(const char *names, const char *name, size_t n)
{
    char word[80];

    if (n == 0 || n + 3 > sizeof(word) || memchr(name, ' ', n) || memchr(name, 0, n))
        return false;
    snprintf(word, sizeof(word), " %.*s ", (int)n, name);
    return strstr(names, word) != NULL;
}
