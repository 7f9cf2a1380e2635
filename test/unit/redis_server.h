/* redis_server.h - Redis servers of a test's own, on this machine, which end with it. */
#ifndef GALLOP_TEST_REDIS_SERVER_H
#define GALLOP_TEST_REDIS_SERVER_H

#include <sys/types.h>

enum { REDIS_SERVER_WHERE = 64 }; /* bytes of an address */

/* Without hiredis there is nothing to test, and the sentence is the whole of it. */
bool redis_server_is_built_in(void);

/* A listening socket on a port of its own, which WHERE then names. */
int redis_server_listen(char where[REDIS_SERVER_WHERE]);

/* A redis-server without a disk; -1: there is none, or hiredis is not built in. */
pid_t redis_server_begin(char where[REDIS_SERVER_WHERE]);

void redis_server_end(pid_t pid); /* any process of the test's own */

#endif
