/* systemd.h - what a service manager hands to a program and wants to hear of it: sockets that listen already,
 * and states. The protocols of sd_listen_fds(3) and sd_notify(3), a few variables and datagrams. Without a
 * manager nothing is there and nothing is told.
 */
#ifndef GALLOP_NET_SYSTEMD_H
#define GALLOP_NET_SYSTEMD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { SYSTEMD_MAX_SOCKETS = 16 };

/* The sockets that were passed to this process (LISTEN_FDS, LISTEN_PID) to FD [*N], each proved to be a
 * stream socket that listens, and closed to programs that this one starts. An error names the socket, with
 * its name of LISTEN_FDNAMES. The variables are gone afterwards: call it once, before there are threads. */
int systemd_sockets(int fd[SYSTEMD_MAX_SOCKETS], size_t *n, struct err *e);

/* A manager wants to hear of this program (NOTIFY_SOCKET). */
bool systemd_is_there(void);

/* Tells STATE, lines of NAME=VALUE, to the socket of NOTIFY_SOCKET. Nobody there: nothing. */
void systemd_notify(const char *state);

/* Seconds within which WATCHDOG=1 has to be told, again and again (WATCHDOG_USEC, WATCHDOG_PID); 0: never. */
double systemd_watchdog_s(void);

#endif
