/* requests.c - reads requests from the lines of a batch, on demand. */
#include "app/batch/requests.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/input.h"
#include "app/print.h"
#include "base/mem.h"

enum { POLL_MS = 100 };

/* A file of lines, which are read on demand. */
struct requests_lines {
    int fd;
    const char *path;
    char *data; /* [cap] bytes read from the file; the bytes from BEGIN to END are not processed yet */
    size_t begin, end, cap;
    size_t number; /* number of the last line that was read */
    bool is_file;  /* the file is a regular file, so that reading never waits */
    bool eof;
};

/* ---- requests ---- */

void requests_free(struct batch_request *b)
{
    request_fini(&b->q);
    json_decref(b->custom_id);
    arena_fini(&b->arena);
    mem_free(b);
}

static void close_lines(struct requests *r)
{
    if (!r->lines)
        return;
    if (r->lines->fd > STDERR_FILENO)
        close(r->lines->fd);
    mem_free(r->lines->data);
    mem_free(r->lines);
    r->lines = NULL;
}

void requests_close(struct requests *r)
{
    for (struct batch_request *q = r->first, *next; q; q = next) {
        next = q->next;
        requests_free(q);
    }
    close_lines(r);
}

static struct batch_request *requests_add(struct requests *r, struct err *e)
{
    struct batch_request *q = mem_zalloc(1, sizeof(*q), MEM_APP);

    if (!q) {
        err_nomem(e, "requests");
        return NULL;
    }
    arena_init(&q->arena, MEM_APP);
    q->is_own = true;
    q->n = 1;
    q->index = r->n++;
    r->n_answers++;
    if (r->last)
        r->last->next = q;
    else
        r->first = q;
    r->last = q;
    return q;
}

int requests_add_own(struct requests *r, const char *body, size_t n, struct err *e)
{
    struct batch_request *q = requests_add(r, e);

    if (!q)
        return ERR_NOMEM;
    served_read(r->served, q, &(struct served_line){.body = {body, n}, .is_own = true});
    return 0;
}

/* ---- lines ---- */

int requests_open_lines(struct requests *r, const char *path, struct err *e)
{
    struct requests_lines *l = mem_zalloc(1, sizeof(*l), MEM_APP);
    struct stat s;

    if (!l)
        return err_nomem(e, "requests");
    r->lines = l;
    l->path = strcmp(path, "-") == 0 ? "standard input" : path;
    l->fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (l->fd < 0)
        return err_os(e, "open", path);
    if (fstat(l->fd, &s) == 0 && S_ISDIR(s.st_mode))
        return err_set(e, ERR_INPUT, "%s: this is a folder, expected a file", path);
    l->is_file = S_ISREG(s.st_mode);
    return 0;
}

/* Returns whether read() would not block. With WAIT, first waits until data are available or a signal
 * comes. */
static bool is_readable(const struct requests *r, bool wait)
{
    const struct requests_lines *l = r->lines;
    struct pollfd p = {.fd = l->fd, .events = POLLIN};

    if (l->is_file)
        return true;
    while (!*r->stop) {
        int n = poll(&p, 1, wait ? POLL_MS : 0);

        if (n > 0 || !wait)
            return n > 0;
        if (n < 0 && errno != EINTR)
            return true; /* the read will report the error */
    }
    return false;
}

static int read_more(struct requests *r, struct err *e)
{
    struct requests_lines *l = r->lines;
    ssize_t n;

    if (l->begin) {
        memmove(l->data, l->data + l->begin, l->end - l->begin);
        l->end -= l->begin;
        l->begin = 0;
    }
    if (l->end > INPUT_MAX_BYTES)
        return err_set(e, ERR_INPUT, "%s: line %zu is longer than the maximum of %d MiB", l->path,
                       l->number + 1, INPUT_MAX_BYTES >> 20);
    if (!mem_grow((void **)&l->data, &l->cap, l->end + 65536, 1, MEM_APP))
        return err_nomem(e, l->path);
    do
        n = read(l->fd, l->data + l->end, l->cap - l->end);
    while (n < 0 && errno == EINTR && !*r->stop);
    if (n < 0)
        return errno == EINTR ? 0 : err_os(e, "read", l->path);
    l->end += (size_t)n;
    l->eof = n == 0;
    return 0;
}

static bool is_blank(const char *p, size_t n)
{
    while (n && (p[n - 1] == ' ' || p[n - 1] == '\t' || p[n - 1] == '\r'))
        n--;
    return n == 0;
}

/* Sets *LINE to the next line that is not blank, without its line end. NULL: no line is available now, or the file
 * ended. */
static int next_line(struct requests *r, bool wait, char **line, size_t *len, struct err *e)
{
    struct requests_lines *l = r->lines;
    size_t seen = 0;
    int rc;

    *line = NULL;
    for (;;) {
        char *p = l->data + l->begin, *end = NULL;
        size_t left = l->end - l->begin;

        if (left > seen)
            end = memchr(p + seen, '\n', left - seen);
        if (!end && l->eof && left)
            end = p + left;
        if (end) {
            *len = (size_t)(end - p);
            l->begin += *len + (l->begin + *len < l->end);
            l->number++;
            seen = 0;
            if (!is_blank(p, *len)) {
                *line = p;
                return 0;
            }
            continue;
        }
        if (l->eof || !is_readable(r, wait))
            return 0;
        seen = left;
        if ((rc = read_more(r, e)) != 0)
            return rc;
    }
}

/* ---- requests of lines ---- */

/* Fills Q from its LINE. An error is stored in q->fault, with the number of the line. */
static void read_request(struct requests *r, struct batch_request *q, const char *line, size_t len)
{
    struct err *e = &q->fault;
    struct served_line parts;
    int rc = served_split(&parts, line, len, q->where, &q->arena, e);

    if (parts.custom_id.s && !(q->custom_id = print_json_string(parts.custom_id.s, parts.custom_id.n)))
        rc = err_nomem(e, "requests");
    if (rc)
        return;
    q->is_own = parts.is_own;
    if (!q->is_own)
        served_accept_name(r->served, &parts.body, &q->arena);
    if (r->resume && resume_has(r->resume, q, &q->skipped, e) != 0) {
        err_prefix(e, "%s", q->where);
        q->is_own = true; /* the error is printed in our own format */
    } else if (!q->skipped) {
        served_read(r->served, q, &parts);
    }
}

/* Removes the newest request, which has a result already. BEFORE: the request before it, or NULL. */
static void leave_out(struct requests *r, struct batch_request *before)
{
    requests_free(r->last);
    r->last = before;
    if (before)
        before->next = NULL;
    else
        r->first = NULL;
    r->n_skipped++;
    r->n_answers--;
}

/* Adds the request of the next line. Sets *SKIPPED if the request has a result already and was not added. */
static int read_one(struct requests *r, bool wait, bool *got, bool *skipped, struct err *e)
{
    struct batch_request *q, *before = r->last;
    char *line;
    size_t len;
    int rc = next_line(r, wait, &line, &len, e);

    *skipped = false;
    *got = line != NULL;
    if (rc == 0 && !line && r->lines->eof)
        close_lines(r);
    if (rc || !line)
        return rc;
    if (!(q = requests_add(r, e)))
        return ERR_NOMEM;
    snprintf(q->where, sizeof(q->where), "%.200s: line %zu", r->lines->path, r->lines->number);
    read_request(r, q, line, len);
    *skipped = q->skipped && !q->fault.code;
    if (*skipped)
        leave_out(r, before);
    else
        r->n_answers += q->n - 1;
    return !*skipped && q->fault.code == ERR_NOMEM ? err_nomem(e, "requests") : 0;
}

int requests_read_line(struct requests *r, bool wait, bool *got, struct err *e)
{
    bool skipped = true;
    int rc = 0;

    while (rc == 0 && skipped)
        rc = read_one(r, wait, got, &skipped, e);
    return rc;
}

bool requests_count_lines(const struct requests *r, size_t *n)
{
    char chunk[65536];
    bool blank = true;
    off_t at = 0;
    ssize_t got;

    *n = 0;
    if (!requests_never_wait(r))
        return false;
    while ((got = pread(r->lines->fd, chunk, sizeof(chunk), at)) > 0) {
        at += got;
        for (ssize_t i = 0; i < got; i++) {
            *n += chunk[i] == '\n' && !blank;
            blank = chunk[i] == '\n' || (blank && is_blank(&chunk[i], 1));
        }
    }
    *n += !blank;
    return got == 0;
}

const char *requests_name(const struct requests *r)
{
    return r->lines ? r->lines->path : "--batch";
}

bool requests_never_wait(const struct requests *r)
{
    return r->lines && r->lines->is_file;
}
