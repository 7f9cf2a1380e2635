/* children.h - the child processes of a process. */
#ifndef GALLOP_TEST_CHILDREN_H
#define GALLOP_TEST_CHILDREN_H

#include <sys/types.h>

/* Returns a child of process PARENT, which any of its threads may have started; 0: there is none. */
pid_t children_first(pid_t parent);

#endif
