/* channel.c - see channel.h. */
#include "engine/pjrt/channel.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"

enum channel_result channel_send(int socket, const struct channel_message *m)
{
    ssize_t n;

    do
        n = send(socket, m, sizeof(*m), MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof(*m) ? CHANNEL_GOOD : CHANNEL_CLOSED;
}

/* Waits until SOCKET can be read. Returns false if that took longer than SECONDS. */
static bool wait_for_message(int socket, double seconds)
{
    double end = clock_seconds() + seconds;
    struct pollfd p = {.fd = socket, .events = POLLIN};
    int ready;

    do {
        double left = end - clock_seconds();

        ready = poll(&p, 1, seconds < 0 ? -1 : left > 0 ? (int)(left < 1e6 ? left * 1000 : 1e9) + 1 : 0);
    } while (ready < 0 && errno == EINTR);
    return ready != 0;
}

enum channel_result channel_receive(int socket, struct channel_message *m, double seconds)
{
    ssize_t n;

    if (!wait_for_message(socket, seconds))
        return CHANNEL_LATE;
    do
        n = recv(socket, m, sizeof(*m), MSG_TRUNC | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return CHANNEL_CLOSED;
    if (n != (ssize_t)sizeof(*m) || m->version != CHANNEL_VERSION || m->kind >= CHANNEL_N_KINDS ||
        m->what[sizeof(m->what) - 1] != 0)
        return CHANNEL_WRONG;
    return CHANNEL_GOOD;
}
