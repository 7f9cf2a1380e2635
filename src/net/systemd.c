/* systemd.c - reads environment variables, checks the sockets from descriptor 3 on, and sends datagrams. */
#include "net/systemd.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIRST_SOCKET = 3 };

/* Returns the environment variable NAME as an integer from 0 to MOST - 1, or -1 if its value is not such an integer. */
static long long systemd_read_number(const char *name, long long most)
{
    const char *text = getenv(name);
    char *end;
    long long n;

    if (!text || *text < '0' || *text > '9')
        return -1;
    n = strtoll(text, &end, 10);
    return *end == 0 && n < most ? n : -1;
}

/* Copies name number I of the colon-separated LISTEN_FDNAMES to out[size]; "" if there is none. */
static void name_of(size_t i, char *out, size_t size)
{
    const char *at = getenv("LISTEN_FDNAMES");
    size_t n;

    while (at && i-- > 0)
        at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL;
    n = at ? strcspn(at, ":") : 0;
    n = n < size ? n : size - 1;
    memcpy(out, at ? at : "", n);
    out[n] = 0;
}

static int systemd_check(int fd, const char *name, struct err *e)
{
    int type = 0, listens = 0;
    socklen_t n = sizeof(type), m = sizeof(listens);

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &m) == 0 && type == SOCK_STREAM && listens &&
        fcntl(fd, F_SETFD, FD_CLOEXEC) == 0)
        return 0;
    return err_set(e, ERR_INPUT,
                   "LISTEN_FDS: descriptor %d%s%s%s was passed, but is not a listening stream socket", fd,
                   name[0] ? " (" : "", name, name[0] ? ")" : "");
}

int systemd_sockets(int fd[SYSTEMD_MAX_SOCKETS], size_t *n, struct err *e)
{
    long long count = systemd_read_number("LISTEN_FDS", 1 << 20);
    char name[64];
    int rc = 0;

    *n = 0;
    if (count > 0 && systemd_read_number("LISTEN_PID", INT32_MAX) == getpid()) {
        if (count > SYSTEMD_MAX_SOCKETS)
            return err_set(e, ERR_INPUT, "LISTEN_FDS: %lld sockets were passed; at most %d are expected",
                           count, SYSTEMD_MAX_SOCKETS);
        for (size_t i = 0; i < (size_t)count && rc == 0; i++) {
            name_of(i, name, sizeof(name));
            fd[i] = FIRST_SOCKET + (int)i;
            rc = systemd_check(fd[i], name, e);
        }
        *n = (size_t)count;
    }
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDNAMES");
    return rc;
}

bool systemd_is_there(void)
{
    const char *path = getenv("NOTIFY_SOCKET");

    return path && *path;
}

void systemd_notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const struct timeval most = {.tv_usec = 200000};
    size_t n = path ? strlen(path) : 0;
    int fd;

    if (n < 2 || n >= sizeof(at.sun_path) || (path[0] != '/' && path[0] != '@'))
        return;
    memcpy(at.sun_path, path, n);
    if (path[0] == '@') /* names in Linux's abstract namespace begin with NUL */
        at.sun_path[0] = 0;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    /* Limits the wait for a busy manager to 0.2 seconds. */
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
    sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&at,
           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
    close(fd);
}

double systemd_watchdog_s(void)
{
    long long us = systemd_read_number("WATCHDOG_USEC", 1LL << 60);

    if (us <= 0 || (getenv("WATCHDOG_PID") && systemd_read_number("WATCHDOG_PID", INT32_MAX) != getpid()))
        return 0;
    return (double)us * 1e-6;
}
