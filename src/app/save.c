/* save.c - writes temporary files beside their targets; complete files are renamed, incomplete files are
 * removed.
 *
 * The signal handler and exit() remove the files and folders of two lists, which contain all open files and
 * folders. The handler may run at any instruction of the thread that changes a list (signals are blocked on
 * compute threads), so an entry is complete before it is linked and stays readable after it is unlinked. */
#include "app/save.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct save *_Atomic open_files;
static struct save_folder *_Atomic open_folders;

/* ---- removal at the end of the program ---- */

/* Removes all unfinished files, and folders that were created for them. Calls only async-signal-safe functions. */
static void remove_all(void)
{
    for (struct save *o = open_files; o; o = o->next)
        if (!o->direct)
            unlink(o->part);
    for (struct save_folder *d = open_folders; d; d = d->next)
        if (d->made)
            rmdir(d->path);
}

static void on_signal(int sig)
{
    remove_all();
    raise(sig); /* SA_RESETHAND has restored the default, which ends the program */
}

static void remove_at_the_end(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    static bool at_exit;

    if (!at_exit)
        at_exit = atexit(remove_all) == 0;
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        struct sigaction old, mine = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};

        if (sigaction(signals[i], NULL, &old) == 0 && !(old.sa_flags & SA_SIGINFO) &&
            old.sa_handler == SIG_DFL)
            sigaction(signals[i], &mine, NULL);
    }
}

/* Blocks all signals, so that no signal can end the program before a new file is in the list; let_signals()
 * restores the mask. */
static void hold_signals(sigset_t *old)
{
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, old);
}

static void let_signals(const sigset_t *old)
{
    pthread_sigmask(SIG_SETMASK, old, NULL);
}

static void link_file(struct save *o)
{
    o->next = open_files;
    open_files = o;
}

static void unlink_file(struct save *o)
{
    struct save *before = open_files;

    if (before == o) {
        open_files = o->next;
        return;
    }
    while (before->next != o)
        before = before->next;
    before->next = o->next;
}

/* ---- one file ---- */

static ssize_t write_all(void *cookie, const char *p, size_t n)
{
    struct save *o = cookie;

    for (size_t done = 0; done < n;) {
        ssize_t w = write(o->fd, p + done, n - done);

        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0) {
            if (!o->error)
                o->error = w < 0 ? errno : EIO;
            return 0; /* stdio takes a result of 0 for an error */
        }
        done += (size_t)w;
    }
    return (ssize_t)n;
}

/* Creates the temporary file of O in the folder of its path; O_EXCL makes sure that its name is new. */
static int open_part(struct save *o)
{
    static unsigned number;
    const char *slash = strrchr(o->path, '/');
    int dir = slash ? (int)(slash - o->path) + 1 : 0;

    do {
        if ((size_t)snprintf(o->part, sizeof(o->part), "%.*s.gallop-%ld-%u.part", dir, o->path,
                             (long)getpid(), number++) >= sizeof(o->part)) {
            errno = ENAMETOOLONG;
            return -1;
        }
        o->fd = open(o->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (o->fd < 0 && errno == EEXIST);
    return o->fd;
}

/* Returns whether this process has the file S open, as is the case for /dev/stdout and /dev/fd/N. */
static bool is_open_here(const struct stat *s)
{
    struct stat other;

    for (int fd = 0; fd < 256; fd++)
        if (fstat(fd, &other) == 0 && other.st_dev == s->st_dev && other.st_ino == s->st_ino)
            return true;
    return false;
}

/* Checks that o->path may be written. Sets o->direct, and *MODE to the permissions of a file that will be
 * replaced. */
static int examine(struct save *o, bool replace, mode_t *mode, struct err *e)
{
    struct stat name, file;
    bool is_link, is_there = lstat(o->path, &name) == 0;

    if (!is_there)
        return errno == ENOENT ? 0 : err_os(e, "create", o->path);
    is_link = S_ISLNK(name.st_mode);
    if (!is_link || stat(o->path, &file) != 0)
        file = name;
    if (S_ISDIR(file.st_mode))
        return err_set(e, ERR_INPUT, "%s: this is a folder, expected a file", o->path);
    o->direct = !S_ISLNK(file.st_mode) && (!S_ISREG(file.st_mode) || (is_link && is_open_here(&file)));
    if (!o->direct && !replace)
        return err_set(e, ERR_INPUT, "%s: the file exists; --force replaces it", o->path);
    if (S_ISREG(name.st_mode)) {
        *mode = name.st_mode & 0777;
        if (access(o->path, W_OK) != 0)
            return err_os(e, "write", o->path);
    }
    return 0;
}

/* Creates the temporary file, or opens o->path with FLAGS if it is written directly, and adds O to the list. */
static int create(struct save *o, int flags, mode_t mode, struct err *e)
{
    static const cookie_io_functions_t io = {.write = write_all};

    o->fd = o->direct ? open(o->path, O_WRONLY | O_CLOEXEC | O_NOCTTY | flags, 0666) : open_part(o);
    if (o->fd < 0)
        return err_os(e, o->direct ? "open" : "create", o->path);
    if (mode && !o->direct)
        fchmod(o->fd, mode);
    o->f = fopencookie(o, "w", io);
    if (!o->f) {
        if (!o->direct)
            unlink(o->part);
        close(o->fd);
        return err_nomem(e, o->path);
    }
    link_file(o);
    return 0;
}

int save_open(struct save *o, const char *path, bool replace, struct err *e)
{
    mode_t mode = 0;
    sigset_t old;
    int rc;

    *o = (struct save){.fd = -1};
    if ((size_t)snprintf(o->path, sizeof(o->path), "%s", path) >= sizeof(o->path))
        return err_set(e, ERR_INPUT, "%.200s...: the name is too long", path);
    if ((rc = examine(o, replace, &mode, e)) != 0)
        return rc;
    remove_at_the_end();
    if (o->direct) /* signals are not blocked, because open() of a FIFO waits for a reader */
        return create(o, O_TRUNC, mode, e);
    hold_signals(&old);
    rc = create(o, O_TRUNC, mode, e);
    let_signals(&old);
    return rc;
}

int save_append(struct save *o, const char *path, struct err *e)
{
    *o = (struct save){.fd = -1, .direct = true};
    if ((size_t)snprintf(o->path, sizeof(o->path), "%s", path) >= sizeof(o->path))
        return err_set(e, ERR_INPUT, "%.200s...: the name is too long", path);
    return create(o, O_CREAT | O_APPEND, 0, e);
}

/* Reports the first write error. */
static int failed(const struct save *o, struct err *e)
{
    errno = o->error ? o->error : EIO;
    return err_os(e, "write", o->path);
}

int save_write(struct save *o, const void *p, size_t n, struct err *e)
{
    return fwrite(p, 1, n, o->f) == n ? 0 : failed(o, e);
}

int save_flush(struct save *o, struct err *e)
{
    return fflush(o->f) == 0 && !ferror(o->f) ? 0 : failed(o, e);
}

int save_safetensors_header(struct save *s, const json_t *header, struct err *e)
{
    char *text = json_dumps(header, JSON_COMPACT);
    size_t n = text ? strlen(text) : 0, padded = (n + 7) / 8 * 8;
    unsigned char len[8];
    int rc;

    if (!text)
        return err_nomem(e, "the header");
    for (int i = 0; i < 8; i++)
        len[i] = (unsigned char)(padded >> (8 * i));
    if ((rc = save_write(s, len, 8, e)) == 0 && (rc = save_write(s, text, n, e)) == 0)
        rc = save_write(s, "       ", padded - n, e);
    mem_free(text);
    return rc;
}

/* Writes all buffered data to the disk, unless the file is written directly. The file keeps its temporary name. */
static int finish(struct save *o, struct err *e)
{
    int rc = save_flush(o, e);

    return rc == 0 && !o->direct && fsync(o->fd) != 0 ? err_os(e, "write", o->path) : rc;
}

static int take_name(struct save *o, struct err *e)
{
    int rc = !o->direct && rename(o->part, o->path) != 0 ? err_os(e, "write", o->path) : 0;

    save_abort(o);
    return rc;
}

int save_commit(struct save *o, struct err *e)
{
    int rc = o->f ? finish(o, e) : 0;

    if (rc == 0 && o->f)
        return take_name(o, e);
    save_abort(o);
    return rc;
}

void save_abort(struct save *o)
{
    if (!o->f)
        return;
    if (!o->direct)
        unlink(o->part); /* after a rename this fails, which does not matter */
    fclose(o->f);
    close(o->fd);
    o->f = NULL;
    unlink_file(o);
}

/* ---- the files of a folder ---- */

/* Returns ERR_INPUT unless the folder PATH is empty. */
static int check_empty(const char *path, struct err *e)
{
    const struct dirent *d;
    DIR *dir = opendir(path);
    int rc = 0;

    if (!dir)
        return err_os(e, "write to the folder", path);
    while (rc == 0 && (d = readdir(dir)) != NULL)
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            rc = err_set(e, ERR_INPUT,
                         "%s: the folder is not empty (it holds %.255s); --force replaces its files", path,
                         d->d_name);
    closedir(dir);
    return rc;
}

int save_folder_open(struct save_folder *d, const char *path, bool force, struct err *e)
{
    sigset_t old;
    int rc = 0;

    *d = (struct save_folder){0};
    if (strlen(path) >= sizeof(d->path))
        return err_set(e, ERR_INPUT, "%.200s...: the name is too long", path);
    strcpy(d->path, path);
    remove_at_the_end();
    hold_signals(&old);
    if (mkdir(path, 0777) == 0)
        d->made = true;
    else if (errno != EEXIST)
        rc = err_os(e, "create", path);
    else if (!force)
        rc = check_empty(path, e);
    if (rc) {
        d->path[0] = 0;
    } else {
        d->next = open_folders;
        open_folders = d;
    }
    let_signals(&old);
    return rc;
}

int save_folder_file(struct save_folder *d, const char *name, struct save **out, struct err *e)
{
    struct save *o = &d->file[d->n];
    char path[SAVE_PATH_MAX];
    int rc;

    ASSERT(d->n < SAVE_FOLDER_FILES, "%s", name);
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", d->path, name) >= sizeof(path))
        return err_set(e, ERR_INPUT, "%.200s...: the name is too long", d->path);
    if ((rc = save_open(o, path, true, e)) == 0) {
        d->n++;
        *out = o;
    }
    return rc;
}

/* Removes D from the list of open folders. The folder itself is deleted if D created it and KEEP is false. */
static void close_folder(struct save_folder *d, bool keep)
{
    struct save_folder *before = open_folders;

    if (!d->path[0])
        return;
    if (d->made && !keep)
        rmdir(d->path);
    if (before == d) {
        open_folders = d->next;
    } else {
        while (before->next != d)
            before = before->next;
        before->next = d->next;
    }
    d->path[0] = 0;
}

int save_folder_commit(struct save_folder *d, struct err *e)
{
    sigset_t old;
    int rc = 0;

    for (size_t i = 0; i < d->n && rc == 0; i++)
        rc = finish(&d->file[i], e);
    hold_signals(&old); /* no signal between the first rename and the last */
    for (size_t i = d->n; i-- > 0 && rc == 0;)
        rc = take_name(&d->file[i], e);
    for (size_t i = 0; i < d->n; i++)
        save_abort(&d->file[i]);
    close_folder(d, rc == 0);
    let_signals(&old);
    return rc;
}

void save_folder_abort(struct save_folder *d)
{
    for (size_t i = 0; i < d->n; i++)
        save_abort(&d->file[i]);
    close_folder(d, false);
}
