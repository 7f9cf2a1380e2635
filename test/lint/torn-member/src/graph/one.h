/* one.h - a member whose comment is too long. */
#ifndef GALLOP_GRAPH_ONE_H
#define GALLOP_GRAPH_ONE_H

#include <stddef.h>

struct one {
    size_t n;
    size_t
        rows; /* the number of rows, of which the comment tells more than there is room for behind it */
};

#endif
