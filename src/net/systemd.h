/* systemd.h - socket activation and state notification of service managers such as systemd.
 *
 * The protocols of sd_listen_fds(3) and sd_notify(3) are implemented without libsystemd. If the process has
 * no service manager, no sockets are found and notifications do nothing.
 */
#ifndef GALLOP_NET_SYSTEMD_H
#define GALLOP_NET_SYSTEMD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { SYSTEMD_MAX_SOCKETS = 16 };

/* Stores the sockets that the manager passed to this process (LISTEN_FDS, LISTEN_PID) in FD [*N]. Checks that
 * each is a listening stream socket, and marks it close-on-exec. An error names the socket, with its name
 * from LISTEN_FDNAMES. Unsets these variables, so it must be called once, before other threads exist. */
int systemd_sockets(int fd[SYSTEMD_MAX_SOCKETS], size_t *n, struct err *e);

/* Returns true if a manager expects notifications (NOTIFY_SOCKET is set). */
bool systemd_is_there(void);

/* Sends STATE, lines of NAME=VALUE, to NOTIFY_SOCKET. Does nothing if there is no manager. */
void systemd_notify(const char *state);

/* Returns the interval in seconds within which the manager expects WATCHDOG=1 (WATCHDOG_USEC, WATCHDOG_PID);
 * 0: the manager expects none. */
double systemd_watchdog_s(void);

#endif
