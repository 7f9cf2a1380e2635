/* main.c - prints, because app may. */
#include <stdio.h>

#include "base/leaf.h"

int main(void)
{
    printf("%zu\n", leaf_count(1));
    return 0;
}
