/* children.c - finds child processes in /proc. */
#include "children.h"

#include <dirent.h>
#include <stdio.h>

pid_t children_first(pid_t parent)
{
    char path[400];
    long pid = 0;
    DIR *d;

    snprintf(path, sizeof(path), "/proc/%ld/task", (long)parent);
    if (!(d = opendir(path)))
        return 0;
    for (struct dirent *thread; !pid && (thread = readdir(d)) != NULL;) {
        FILE *f;

        snprintf(path, sizeof(path), "/proc/%ld/task/%s/children", (long)parent, thread->d_name);
        if (thread->d_name[0] == '.' || !(f = fopen(path, "r")))
            continue;
        if (fscanf(f, "%ld", &pid) != 1)
            pid = 0;
        fclose(f);
    }
    closedir(d);
    return (pid_t)pid;
}
