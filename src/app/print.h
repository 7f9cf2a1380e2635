/* print.h - standard output, and the progress bar on stderr.
 *
 * Either all printed text is written, or the program reports an error and exits with 1. The functions that
 * print do not fail: the first failure is remembered, and later output is dropped. A verb that runs for long
 * calls print_flush() after each line, or after each token's text, and stops when it fails; main() calls
 * print_finish() at the end. If the reader of a pipe exits (`gallop ... | head`), the work ends, too, but
 * without a message. Diagnostics go through base/log.h.
 *
 *     print_fmt("%zu tokens\n", n);
 *     if ((rc = print_flush(e)) != 0)
 *         return rc;                      the verb ends as for any other error */
#ifndef GALLOP_APP_PRINT_H
#define GALLOP_APP_PRINT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "gallop.h"

struct tok_ids;

/* Must be called once, before any file is opened. Opens /dev/null as each of the descriptors 0, 1 and 2 that was
 * closed at the start, so that no other file gets its number; printing to a closed standard output then fails. */
void print_init(void);

void print_bytes(const void *bytes, size_t n);
void print_text(const char *text);

/* Prints TEXT [n], which a model or a file wrote. On a terminal its control characters other than line ends and
 * tabs are shown as escapes such as \x1b, because they could take over the terminal. */
void print_foreign(const char *text, size_t n);
void print_fmt(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Prints O as one line of JSON and releases it. If O is NULL, an error is logged once, and the exit status becomes
 * 1. */
void print_json(json_t *o);

/* Prints O as JSON without a line end, and does not release it. */
void print_json_value(const json_t *o);

/* Returns TEXT [n] as a JSON string; each invalid UTF-8 sequence is replaced by U+FFFD. */
json_t *print_json_string(const char *text, size_t n);

/* As print_json_string() for the zero-terminated TEXT. Returns JSON null if TEXT is NULL. */
json_t *print_json_text(const char *text);
json_t *print_json_ids(const struct tok_ids *ids);
/* Returns the counts of speculative decoding S as a JSON object. */
json_t *print_json_speculation(const struct gallop_speculation *s);

void print_ids(const struct tok_ids *ids); /* prints the ids as "1,2,3" */

/* Writes buffered output. ERR_OS: output was lost. ERR_CANCELLED: standard output is a pipe whose reader has
 * exited; this is detected even if there was nothing to write. */
int print_flush(struct err *e);

/* Returns whether a flush has found that the reader of standard output has exited. From then on errors are
 * not reported. */
bool print_reader_gone(void);

/* Sends later output to FILE; NULL: to standard output again. Buffered output that was not flushed is
 * dropped. */
struct save;
void print_to(struct save *file);

/* Flushes output and returns the exit status of the program: STATUS, or 1 if output was lost. The loss is reported
 * unless a caller of print_flush() received the error. */
int print_finish(int status);

/* Prints a line of information, which is not a warning, to standard error; prints nothing with --quiet. */
void print_remark(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A progress bar, which is shown on a terminal after one second, unless --quiet is given. All members but WHAT
 * begin as zero. */
struct print_bar {
    const char *what;
    double start;
    bool shown;
};

/* Shows DONE of TOTAL on BAR, a struct print_bar; has the type of gallop_options.progress. */
void print_progress(void *bar, size_t done, size_t total);

/* Erases the bar from the terminal. */
void print_bar_end(struct print_bar *bar);

/* Runs steps of ENGINE until it has an event, and writes the event to *EV. BAR shows how many of the N_PROMPT
 * tokens of the prompts are processed. N_BEFORE: prompt tokens that the engine had processed before these
 * prompts. Returns false if no event will come. */
bool print_next_event(struct print_bar *bar, struct gallop *engine, uint64_t n_before, size_t n_prompt,
                      struct gallop_event *ev);

#endif
