/* output.h - files that a verb writes: whole under their name, or not there at all.
 *
 * A file is written under a temporary name in the folder of its own (".gallop-PID-N.part"), and takes its
 * name when it is complete and on the disk: whoever looks sees the old file or the new one. An error, SIGINT,
 * SIGTERM, SIGHUP, SIGPIPE and exit() remove what is unfinished; the handlers are set only where a signal
 * would end the program by default. A link is replaced by the file, and what it leads to stays as it was.
 * What is no regular file (/dev/null, /dev/stdout, a fifo) is written to directly.
 */
#ifndef GALLOP_APP_OUTPUT_H
#define GALLOP_APP_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"

enum { OUTPUT_PATH_MAX = 4096, OUTPUT_DIR_FILES = 8 };

/* A zeroed one is closed. It must stay where it is while it is open. */
struct output {
    FILE *f; /* any function of stdio may write to it: the first error is remembered */
    int error;
    int fd;
    bool direct; /* no temporary: written under its own name */
    char path[OUTPUT_PATH_MAX], part[OUTPUT_PATH_MAX];
    struct output *next; /* of those that are open */
};

/* Opens PATH for writing. Without REPLACE, a PATH that exists is refused, and the sentence names --force;
 * what is no regular file needs no REPLACE. */
int output_open(struct output *o, const char *path, bool replace, struct err *e);

int output_write(struct output *o, const void *p, size_t n, struct err *e);

/* What was written so far reaches the file, or the first error that writing met is said. */
int output_flush(struct output *o, struct err *e);

/* The file is complete: it takes its name. After an error it is gone. O is closed either way; closed before,
 * nothing happens. */
int output_commit(struct output *o, struct err *e);

/* Removes what was written. Closed before or committed, nothing happens. */
void output_abort(struct output *o);

/* Several files of one folder, which take their names together. */
struct output_dir {
    char path[OUTPUT_PATH_MAX];
    bool made; /* the folder was not there before */
    size_t n;
    struct output file[OUTPUT_DIR_FILES];
    struct output_dir *next; /* of those that are open */
};

/* Makes the folder PATH, or takes an empty one; without FORCE, one that holds anything is refused. With it,
 * files of the names that are written are replaced and others stay. D must stay where it is. */
int output_dir_open(struct output_dir *d, const char *path, bool force, struct err *e);

/* Opens the file NAME of the folder; *o is closed by D. Files take their names in reverse order, so the one
 * that makes the folder usable (config.json) is opened first. */
int output_dir_file(struct output_dir *d, const char *name, struct output **o, struct err *e);

int output_dir_commit(struct output_dir *d, struct err *e);
void output_dir_abort(struct output_dir *d);

#endif
