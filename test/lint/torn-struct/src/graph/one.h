/* one.h - a member of a struct type whose comment is too long. */
#ifndef GALLOP_GRAPH_ONE_H
#define GALLOP_GRAPH_ONE_H

struct other;

struct one {
    const struct other
        *first; /* the first of the others, of which the comment tells more than there is room for */
};

#endif
