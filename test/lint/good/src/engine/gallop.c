/* gallop.c - the interface. */
#include "gallop.h"

#include "base/leaf.h"

int gallop_knock(void)
{
    return (int)leaf_count(1);
}
