/* redis_server.h - Redis servers on this machine that end with the test. */
#ifndef GALLOP_TEST_REDIS_SERVER_H
#define GALLOP_TEST_REDIS_SERVER_H

#include <sys/types.h>

enum { REDIS_SERVER_WHERE = 64 }; /* the size of an address */

/* Returns whether hiredis is built in. Otherwise there is nothing to test but the error. */
bool redis_server_is_built_in(void);

/* Returns a listening socket on a free port, and writes its address to WHERE. */
int redis_server_listen(char where[REDIS_SERVER_WHERE]);

/* Starts a redis-server without a disk. Returns -1 if it is not installed or hiredis is not built in. */
pid_t redis_server_begin(char where[REDIS_SERVER_WHERE]);

void redis_server_end(pid_t pid); /* Ends any child process of the test. */

#endif
