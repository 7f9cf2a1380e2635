/* child.c - starts and ends the process of a plugin, and logs its output. */
#include "engine/pjrt/child.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/file.h"
#include "base/log.h"
#include "base/threads/topo.h"
#include "engine/pjrt/channel.h"

#define REAP_S 1.0 /* seconds from SIGKILL to the end of the process, which a driver may hold up */

/* ---- the program ---- */

/* Looks for the program near FILE, a program or a library. Writes its path to OUT [FILE_PATH_MAX]. */
static bool is_near(const char *file, char *out)
{
    static const char *const place[] = {"gallop", "bin/gallop", "../bin/gallop", "../../bin/gallop"};
    const char *slash = strrchr(file, '/');

    for (size_t i = 0; slash && i < sizeof(place) / sizeof(place[0]); i++)
        if (snprintf(out, FILE_PATH_MAX, "%.*s/%s", (int)(slash - file), file, place[i]) < FILE_PATH_MAX &&
            access(out, X_OK) == 0)
            return true;
    return false;
}

static void find_program(char *out)
{
    char self[FILE_PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    const char *given = getenv("GALLOP_PROGRAM"), *slash;
    Dl_info library = {0};

    self[n > 0 ? n : 0] = 0;
    slash = strrchr(self, '/');
    if (given && *given)
        snprintf(out, FILE_PATH_MAX, "%s", given);
    else if (slash && strcmp(slash, "/gallop") == 0)
        snprintf(out, FILE_PATH_MAX, "/proc/self/exe");
    else if (!(dladdr((const void *)(uintptr_t)child_start, &library) && library.dli_fname &&
               is_near(library.dli_fname, out)) &&
             !is_near(self, out))
        snprintf(out, FILE_PATH_MAX, "gallop"); /* is searched in PATH */
}

/* ---- starting ---- */

static int add_actions(posix_spawn_file_actions_t *a, int socket, int memory, int output)
{
    /* All descriptors have numbers above these (move_up()), so that no dup2() closes one that is still needed. */
    return posix_spawn_file_actions_addopen(a, 0, "/dev/null", O_RDONLY, 0) ||
           posix_spawn_file_actions_adddup2(a, output, 1) || posix_spawn_file_actions_adddup2(a, output, 2) ||
           posix_spawn_file_actions_adddup2(a, socket, CHANNEL_SOCKET) ||
           posix_spawn_file_actions_adddup2(a, memory, CHANNEL_MEMORY) ||
           posix_spawn_file_actions_addclosefrom_np(a, CHANNEL_MEMORY + 1);
}

static int set_attributes(posix_spawnattr_t *a)
{
    sigset_t none, all;

    sigemptyset(&none);
    sigfillset(&all);
    return posix_spawnattr_setflags(a,
                                    POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP) ||
           posix_spawnattr_setsigmask(a, &none) || posix_spawnattr_setsigdefault(a, &all) ||
           posix_spawnattr_setpgroup(a, 0); /* Ctrl-C is for this process only */
}

/* Starts PROGRAM, which may run on every allowed processor: the calling thread may be bound to one, and a new process
 * inherits that. */
static int spawn_unbound(pid_t *pid, const char *program, const posix_spawn_file_actions_t *actions,
                         const posix_spawnattr_t *attributes)
{
    char name[] = "gallop", verb[] = CHANNEL_VERB;
    struct {
        cpu_set_t set[TOPO_MAX_CPUS / CPU_SETSIZE];
    } own;
    bool is_known = sched_getaffinity(0, sizeof(own), own.set) == 0;
    int rc;

    topo_unbind();
    rc = posix_spawnp(pid, program, actions, attributes, (char *[]){name, verb, NULL}, environ);
    if (is_known)
        sched_setaffinity(0, sizeof(own), own.set);
    return rc;
}

/* Starts the process with SOCKET, MEMORY and OUTPUT. Returns an error number. */
static int spawn_with(struct child *c, const char *program, int socket, int memory, int output)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int rc;

    if ((rc = posix_spawn_file_actions_init(&actions)) != 0)
        return rc;
    if ((rc = posix_spawnattr_init(&attributes)) == 0) {
        rc = add_actions(&actions, socket, memory, output) || set_attributes(&attributes) ? ENOMEM : 0;
        if (rc == 0)
            rc = spawn_unbound(&c->pid, program, &actions, &attributes);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    if (rc)
        c->pid = 0;
    return rc;
}

/* ---- the output of the process ---- */

/* Logs LINE. Lines of XLA ("I0000 00:00:00 ...") have the level of their first letter; others are warnings. */
static void log_line(const char *line)
{
    bool has_level = line[0] && isdigit((unsigned char)line[1]) && isdigit((unsigned char)line[2]);

    if (has_level && line[0] == 'I')
        log_info("pjrt: %s", line);
    else if (has_level && (line[0] == 'E' || line[0] == 'F'))
        log_error("pjrt: %s", line);
    else if (*line)
        log_warn("pjrt: %s", line);
}

/* Logs the lines of the process; the rest of a long line is left out. */
static void *read_output(void *arg)
{
    const struct child *c = arg;
    char line[2048], piece[1024];
    size_t at = 0;
    ssize_t n;

    while ((n = read(c->output, piece, sizeof(piece))) > 0 || (n < 0 && errno == EINTR))
        for (ssize_t i = 0; i < n; i++)
            if (piece[i] == '\n') {
                line[at] = 0;
                log_line(line);
                at = 0;
            } else if (at < sizeof(line) - 1) {
                line[at++] = piece[i];
            }
    line[at] = 0;
    log_line(line);
    return NULL;
}

static void close_pair(int pair[2])
{
    close(pair[0]);
    close(pair[1]);
}

/* Moves FD to a number above the descriptors that the process gets, so that setting these does not overwrite it. */
static int move_up(int fd)
{
    int up = fcntl(fd, F_DUPFD_CLOEXEC, 16);

    close(fd);
    return up;
}

/* Makes the sockets PAIR, the second of which is for the process. */
static int new_pair(int pair[2], int type, struct err *e)
{
    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) != 0)
        return err_os(e, "make", "a socket");
    if ((pair[1] = move_up(pair[1])) >= 0)
        return 0;
    close(pair[0]);
    return err_os(e, "make", "a socket");
}

int child_start(struct child *c, int memory, struct err *e)
{
    char program[FILE_PATH_MAX];
    int calls[2], output[2], up, rc;

    *c = (struct child){.socket = -1, .output = -1};
    find_program(program);
    if ((rc = new_pair(calls, SOCK_SEQPACKET, e)) != 0)
        return rc;
    if ((rc = new_pair(output, SOCK_STREAM, e)) != 0) {
        close_pair(calls);
        return rc;
    }
    up = fcntl(memory, F_DUPFD_CLOEXEC, 16);
    rc = up < 0 ? errno : spawn_with(c, program, calls[1], up, output[1]);
    close(calls[1]);
    close(output[1]);
    if (up >= 0)
        close(up);
    c->socket = calls[0];
    c->output = output[0];
    if (rc == 0 && (rc = thread_start(&c->reader, read_output, c)) == 0) {
        c->has_reader = true;
        return 0;
    }
    child_end(c, 0, NULL, 0);
    return err_set(
        e, ERR_OS,
        "pjrt: the program %s, in which the plugin is to run, cannot be started: %s; the environment "
        "variable GALLOP_PROGRAM may name it",
        program, strerror(rc));
}

/* ---- ending ---- */

/* Waits up to SECONDS for the end of PID and writes its status. Returns false if it still runs. */
static bool wait_for_end(pid_t pid, double seconds, int *status)
{
    double end = clock_seconds() + seconds;
    const struct timespec pause = {.tv_nsec = 2000000};
    pid_t found;

    for (;;) {
        found = waitpid(pid, status, WNOHANG);
        if (found == pid)
            return true;
        if (found < 0 && errno != EINTR) { /* the process was already waited for */
            *status = -1;
            return true;
        }
        if (clock_seconds() > end)
            return false;
        nanosleep(&pause, NULL);
    }
}

static void say_how(int status, bool is_killed, char *how, size_t size)
{
    if (is_killed)
        snprintf(how, size, "was killed");
    else if (status != -1 && WIFSIGNALED(status))
        snprintf(how, size, "ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (status != -1 && WIFEXITED(status))
        snprintf(how, size, "ended with status %d", WEXITSTATUS(status));
    else
        snprintf(how, size, "ended");
}

void child_end(struct child *c, double seconds, char *how, size_t size)
{
    bool is_killed = false;
    int status = -1;

    if (c->socket >= 0) {
        shutdown(c->socket, SHUT_RDWR); /* a forked copy of this process may still have it open */
        close(c->socket);
    }
    if (c->pid && !wait_for_end(c->pid, seconds, &status)) {
        is_killed = true;
        kill(-c->pid, SIGKILL); /* also the processes that the plugin has started */
        if (!wait_for_end(c->pid, REAP_S, &status))
            log_warn("pjrt: the plugin's process %ld has not ended %g s after SIGKILL; it is left behind",
                     (long)c->pid, REAP_S);
    }
    if (how)
        say_how(status, is_killed, how, size);
    if (c->output >= 0)
        shutdown(c->output, SHUT_RDWR); /* a process that the plugin started may still have the other end */
    if (c->has_reader)
        thread_join(&c->reader);
    if (c->output >= 0)
        close(c->output);
    *c = (struct child){.socket = -1, .output = -1};
}
