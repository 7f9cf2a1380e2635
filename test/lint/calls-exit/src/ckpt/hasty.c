/* hasty.c - ends the process of whoever called it. */
#include <stdlib.h>

void hasty_open(void);

void hasty_open(void)
{
    exit(1);
}
