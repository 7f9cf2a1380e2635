/* free_text.c - builds text without marks as the complement of the texts in which a search finds a mark. */
#include "text/grammar/free_text.h"

#include "text/grammar/automata/pattern_set.h"

static uint32_t any_text(struct regex_store *s)
{
    return regex_repeat(s, regex_characters(s, 0, PATTERN_LAST_CHARACTER), 0, REGEX_NO_LIMIT);
}

/* Matches every text that does not contain a match of MARKS followed by at least MORE bytes. */
static uint32_t without(struct regex_store *s, uint32_t marks, uint32_t more)
{
    uint32_t behind = regex_concat(s, regex_repeat(s, regex_range(s, 0, 0xff), more, more), REGEX_ANYTHING);

    return regex_not(s, regex_concat(s, REGEX_ANYTHING, regex_concat(s, marks, behind)));
}

uint32_t free_text(struct regex_store *s, uint32_t marks)
{
    return marks == REGEX_NOTHING ? any_text(s) : regex_and(s, any_text(s), without(s, marks, 0));
}

uint32_t free_text_until(struct regex_store *s, uint32_t mark, uint32_t marks, uint32_t excluded)
{
    uint32_t of[4] = {any_text(s), regex_concat(s, REGEX_ANYTHING, mark), without(s, marks, 1),
                      without(s, excluded, 0)};

    return regex_intersection(s, of, 4);
}
