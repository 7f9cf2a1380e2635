/* hasty.c - reads a template without asking where its link leads. */
#include <stdio.h>

int hasty_read(const char *path);

int hasty_read(const char *path)
{
    FILE *f = fopen(path, "rb");

    return f ? fclose(f) : -1;
}
