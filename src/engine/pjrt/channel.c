/* channel.c - sends and receives the messages of channel.h. */
#include "engine/pjrt/channel.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"

#define LOOK_S 0.05 /* seconds between two checks of *stop during a wait */

enum channel_result channel_send(int socket, const struct channel_message *m)
{
    ssize_t n;

    do
        n = send(socket, m, sizeof(*m), MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof(*m) ? CHANNEL_GOOD : CHANNEL_CLOSED;
}

/* Waits until SOCKET can be read. */
static enum channel_result wait_for_message(int socket, double seconds, const _Atomic bool *stop)
{
    double end = clock_seconds() + seconds;
    struct pollfd p = {.fd = socket, .events = POLLIN};
    int ready;

    do {
        double left = seconds < 0 ? 1e6 : end - clock_seconds();

        if (stop && atomic_load(stop))
            return CHANNEL_STOPPED;
        if (left < 0)
            return CHANNEL_LATE;
        left = stop && left > LOOK_S ? LOOK_S : left;
        ready = poll(&p, 1, left < 1e6 ? (int)(left * 1000) + 1 : -1);
    } while (ready == 0 || (ready < 0 && errno == EINTR));
    return CHANNEL_GOOD;
}

enum channel_result channel_receive(int socket, struct channel_message *m, double seconds,
                                    const _Atomic bool *stop)
{
    enum channel_result result = wait_for_message(socket, seconds, stop);
    ssize_t n;

    if (result != CHANNEL_GOOD)
        return result;
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
