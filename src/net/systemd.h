/* systemd.h - socket activation and state notification of service managers.
 *
 * The protocols are those of sd_listen_fds(3) and sd_notify(3), which need a few variables and datagrams.
 * Without a manager there are no sockets, and notifications do nothing.
 */
#ifndef GALLOP_NET_SYSTEMD_H
#define GALLOP_NET_SYSTEMD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { SYSTEMD_MAX_SOCKETS = 16 };

/* Stores the sockets that were passed to this process (LISTEN_FDS, LISTEN_PID) in FD [*N]. Each is checked to
 * be a listening stream socket, and is not inherited by child processes. An error names the socket, with its
 * name from LISTEN_FDNAMES. Unsets the variables: call it once, before there are threads. */
int systemd_sockets(int fd[SYSTEMD_MAX_SOCKETS], size_t *n, struct err *e);

/* A manager expects notifications (NOTIFY_SOCKET is set). */
bool systemd_is_there(void);

/* Sends STATE, lines of NAME=VALUE, to NOTIFY_SOCKET. Does nothing without a manager. */
void systemd_notify(const char *state);

/* The interval in seconds within which WATCHDOG=1 must be sent repeatedly (WATCHDOG_USEC, WATCHDOG_PID). 0:
 * never. */
double systemd_watchdog_s(void);

#endif
