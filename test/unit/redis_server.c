/* redis_server.c - see redis_server.h. */
#include "redis_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engines.h"
#include "files.h"
#include "gallop.h"

bool redis_server_is_built_in(void)
{
    struct gallop_options o = engines_options(4, 64, 256);
    char err[GALLOP_ERR_SIZE];
    struct gallop *g;

    o.kv_store = "redis://";
    assert_int_not_equal(engines_try(&g, "llama3-rope", &o, err), 0);
    return strstr(err, "without hiredis") == NULL;
}

int redis_server_listen(char where[REDIS_SERVER_WHERE])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, 16) == 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    snprintf(where, REDIS_SERVER_WHERE, "redis://127.0.0.1:%d/2", ntohs(a.sin_port));
    return fd;
}

static int connect_once(int port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;

    rc = connect(fd, (struct sockaddr *)&a, sizeof(a));
    close(fd);
    return rc;
}

pid_t redis_server_begin(char where[REDIS_SERVER_WHERE])
{
    const char *folder = files_folder();
    char port[16];
    pid_t pid;
    int status;

    if (!redis_server_is_built_in())
        return -1;
    close(redis_server_listen(where));
    snprintf(port, sizeof(port), "%d", atoi(strrchr(where, ':') + 1));
    fflush(NULL);
    if ((pid = fork()) == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* This also happens if the test fails. */
        if (!freopen("/dev/null", "w", stdout))
            _exit(1);
        execlp("redis-server", "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "",
               "--appendonly", "no", "--dir", folder, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 1000; i++) {
        if (connect_once(atoi(port)) == 0)
            return pid;
        if (waitpid(pid, &status, WNOHANG) == pid)
            return -1;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return pid;
}

void redis_server_end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}
