/* err.h - what went wrong, as a code for the program and one sentence for the person.
 *
 * A function that can fail for a reason of the file, the request or the user takes a struct err as its last
 * parameter, returns 0 or the code, and leaves the sentence there. The sentence names the file, tensor, field
 * or flag, what was found and what was expected. Bugs are not errors: they are ASSERT()s and abort. A NULL
 * struct err is allowed: the code is still returned.
 */
#ifndef GALLOP_BASE_ERR_H
#define GALLOP_BASE_ERR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

enum err_code {
    ERR_OK = 0,
    ERR_INPUT,       /* a file, request or argument is wrong */
    ERR_UNSUPPORTED, /* well-formed, but nothing here can serve it */
    ERR_OS,          /* a system call failed; the sentence holds strerror() */
    ERR_NOMEM,       /* an allocation failed */
    ERR_NOSPACE,     /* a budget (KV rows, ring, context) is used up; a policy decides what follows */
    ERR_CANCELLED,   /* the caller asked to stop */
    ERR_USAGE,       /* the command line is wrong: exit status 2 */
};

enum { ERR_SUBJECT_BYTES = 64 };

struct err {
    int code;
    /* The option or field that is at fault, as struct gallop_options, struct gallop_sampling or a request
     * spells it ("kv_cache_memory"); "": none. The program shows it as a flag, the server as a JSON field. */
    char subject[ERR_SUBJECT_BYTES];
    /* Bytes at the beginning of MSG that say where the fault lies: a path of this machine and the colon behind
     * it. A server leaves them out of its answers. 0: MSG begins with no such path. */
    size_t n_where;
    char msg[1024]; /* the sentence, without the subject; always terminated, long names are cut */
};

/* Sets the sentence and returns CODE, so that `return err_set(e, ...)` is the usual way out. E may be
 * NULL. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The same, about the option or field SUBJECT. */
int err_about(struct err *e, int code, const char *subject, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Sets "WHERE: SENTENCE", with WHERE, the path of a file or folder, marked as such. */
int err_at(struct err *e, int code, const char *where, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* err_at() with the arguments of the format as a va_list. */
int err_vat(struct err *e, int code, const char *where, const char *fmt, va_list ap)
    __attribute__((format(printf, 4, 0)));

/* Says that the error in E is about SUBJECT. Returns its code. */
int err_subject(struct err *e, const char *subject);

/* "SUBJECT: SENTENCE", or the sentence alone, to OUT [size], cut where it does not fit. */
void err_text(const struct err *e, char *out, size_t size);

/* err_text() without the path of this machine that the sentence begins with: what a client may see. */
void err_text_without_path(const struct err *e, char *out, size_t size);

/* The sentence for a failed allocation of WHAT ("out of memory: WHAT"). Returns ERR_NOMEM. */
int err_nomem(struct err *e, const char *what);

/* The sentence for a failed system call on PATH, from errno. Returns ERR_OS. */
int err_os(struct err *e, const char *what, const char *path);

/* Makes "PREFIX: SUBJECT: SENTENCE" the sentence: what a file says, not an option, is at fault. PREFIX counts as
 * part of a path that follows it. Returns the code of E. */
int err_prefix(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* 0 when S[n] is UTF-8, else ERR_INPUT and a sentence with the first byte that is not: the line and byte of
 * WHAT ("the prompt", a path) it stands at or, where WHAT is NULL, its offset. */
int err_utf8(struct err *e, const char *what, const char *s, size_t n);

void err_assert_failed(const char *cond, const char *file, int line, const char *fmt, ...)
    __attribute__((noreturn, format(printf, 4, 5)));

/* A bug if COND does not hold: aborts with file, line and, where given, a formatted line of values. Always
 * on. */
#define ASSERT(cond, ...)                                                  \
    do {                                                                   \
        if (__builtin_expect(!(cond), 0))                                  \
            err_assert_failed(#cond, __FILE__, __LINE__, " " __VA_ARGS__); \
    } while (0)

#endif
