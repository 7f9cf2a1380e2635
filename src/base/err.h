/* err.h - errors: a code for the program and one sentence for people.
 *
 * A function that can fail because of a file, a request, the user or the system has a struct err as its last
 * parameter. It returns 0 or a code, and writes the sentence to the struct. The sentence names the file,
 * tensor, field or flag, what was found and what was expected. The struct err may be NULL; then only the code
 * is returned. Bugs are not errors but failed ASSERT()s, which abort.
 */
#ifndef GALLOP_BASE_ERR_H
#define GALLOP_BASE_ERR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum err_code {
    ERR_OK = 0,
    ERR_INPUT,       /* a file, request or argument is wrong */
    ERR_UNSUPPORTED, /* the input is well-formed, but not supported */
    ERR_OS,          /* a system call failed; the sentence contains strerror() */
    ERR_NOMEM,       /* an allocation failed */
    ERR_NOSPACE,     /* a budget (KV rows, ring, context) is used up; the caller decides what to do */
    ERR_CANCELLED,   /* the caller asked to stop */
    ERR_USAGE,       /* the command line is wrong: exit status 2 */
};

enum { ERR_SUBJECT_BYTES = 64 };

struct err {
    int code;
    /* The wrong option or field, as spelled in struct gallop_options, struct gallop_sampling or a request
     * ("kv_cache_memory"); "": none. The command line shows it as a flag, the server as a field. */
    char subject[ERR_SUBJECT_BYTES];
    /* Length of the beginning of MSG that is a path of this machine and ": ". A server omits it in its
     * answers. 0: MSG does not begin with a path. */
    size_t n_where;
    /* Length of the end of MSG that may repeat text of a request, such as the message of a chat template. A
     * server omits it in its log. 0: MSG repeats no such text. */
    size_t n_quoted;
    char msg[1024]; /* the sentence without the subject; terminated, truncated if too long */
};

/* Sets the sentence and returns CODE, for use as `return err_set(e, ...)`. E may be NULL. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Like err_set(), and sets the option or field SUBJECT. */
int err_about(struct err *e, int code, const char *subject, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Like err_set(), but sets "WHERE: SENTENCE", where WHERE is the path of a file or folder (see n_where). */
int err_at(struct err *e, int code, const char *where, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Like err_at(), with the arguments of the format as a va_list. */
int err_vat(struct err *e, int code, const char *where, const char *fmt, va_list ap)
    __attribute__((format(printf, 4, 0)));

/* Like err_set(), but sets "SENTENCE: QUOTED", where QUOTED may repeat text of a request (see n_quoted). */
int err_quote(struct err *e, int code, const char *quoted, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Sets the subject of the error in E. Returns its code. */
int err_subject(struct err *e, const char *subject);

/* Declares the array NAME and formats FMT with the arguments after the parameter FMT into it, for functions that make
 * an error's sentence. */
#define ERR_SENTENCE(name, fmt)                      \
    char name[sizeof(((struct err *)0)->msg)];       \
    va_list name##_args;                             \
    va_start(name##_args, fmt);                      \
    vsnprintf(name, sizeof(name), fmt, name##_args); \
    va_end(name##_args)

/* Writes "SUBJECT: SENTENCE", or the sentence alone, to OUT [size], truncated if it does not fit. */
void err_text(const struct err *e, char *out, size_t size);

/* Like err_text(), but without a path at the beginning of the sentence, which clients must not see. */
void err_text_without_path(const struct err *e, char *out, size_t size);

/* Like err_text_without_path(), but with "..." in place of text that may come from a request, for a log. */
void err_text_for_log(const struct err *e, char *out, size_t size);

/* Sets the sentence "out of memory: WHAT". Returns ERR_NOMEM. */
int err_nomem(struct err *e, const char *what);

/* Sets the sentence "PATH: cannot WHAT: strerror(errno)". Returns ERR_OS. */
int err_os(struct err *e, const char *what, const char *path);

/* Changes the sentence to "PREFIX: SUBJECT: SENTENCE" and clears the subject, for an option or field in a file that
 * PREFIX names. If the sentence begins with a path, PREFIX counts as part of the path. Returns the code of E. */
int err_prefix(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Returns 0 if S [n] is UTF-8, otherwise ERR_INPUT. The sentence gives the line and column of the first wrong
 * byte in WHAT ("the prompt", a path) or, if WHAT is NULL, its offset. */
int err_utf8(struct err *e, const char *what, const char *s, size_t n);

void err_assert_failed(const char *cond, const char *file, int line, const char *fmt, ...)
    __attribute__((noreturn, format(printf, 4, 5)));

/* Aborts if COND is false, which is a bug, with file, line and optional values. On in every build. */
#define ASSERT(cond, ...)                                                  \
    do {                                                                   \
        if (__builtin_expect(!(cond), 0))                                  \
            err_assert_failed(#cond, __FILE__, __LINE__, " " __VA_ARGS__); \
    } while (0)

#endif
