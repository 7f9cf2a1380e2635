/* save.h - files that a verb writes, whole under their name or not there at all.
 *
 * A file is written under a temporary name in the folder of its own (".gallop-PID-N.part"), and takes its
 * name when it is complete and on the disk: other programs see the old file or the new one. An error, SIGINT,
 * SIGTERM, SIGHUP, SIGPIPE and exit() remove what is unfinished; the handlers are set only where a signal
 * would end the program by default. A link is replaced by the file, and what it leads to stays as it was.
 * What is no regular file (/dev/null, /dev/stdout, a fifo) is written to directly. */
#ifndef GALLOP_APP_SAVE_H
#define GALLOP_APP_SAVE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"

enum { SAVE_PATH_MAX = 4096, SAVE_FOLDER_FILES = 8 };

/* A zeroed one is closed. It must stay where it is while it is open. */
struct save {
    FILE *f; /* any function of stdio may write to it: the first error is remembered */
    int error;
    int fd;
    bool direct; /* no temporary: written under its own name */
    char path[SAVE_PATH_MAX], part[SAVE_PATH_MAX];
    struct save *next; /* of those that are open */
};

/* Opens PATH for writing behind what it holds, under its own name from the beginning. */
int save_append(struct save *s, const char *path, struct err *e);

/* Opens PATH for writing. Without REPLACE, a PATH that exists is refused, and the sentence names --force;
 * what is no regular file needs no REPLACE. */
int save_open(struct save *s, const char *path, bool replace, struct err *e);

int save_write(struct save *s, const void *p, size_t n, struct err *e);

/* What was written so far reaches the file, or the first error that writing met is said. */
int save_flush(struct save *s, struct err *e);

/* The beginning of a file of safetensors: the length of HEADER in eight bytes and HEADER, filled up with
 * blanks to a multiple of eight. The tensors' bytes follow. */
int save_safetensors_header(struct save *s, const json_t *header, struct err *e);

/* The file is complete: it takes its name. After an error it is gone. S is closed either way; closed before,
 * nothing happens. */
int save_commit(struct save *s, struct err *e);

/* Removes what was written. Closed before or committed, nothing happens. */
void save_abort(struct save *s);

/* Several files of one folder, which take their names together. */
struct save_folder {
    char path[SAVE_PATH_MAX];
    bool made; /* the folder was not there before */
    size_t n;
    struct save file[SAVE_FOLDER_FILES];
    struct save_folder *next; /* of those that are open */
};

/* Makes the folder PATH, or takes an empty one; without FORCE, one that holds anything is refused. With it,
 * files of the names that are written are replaced and others stay. D must stay where it is. */
int save_folder_open(struct save_folder *d, const char *path, bool force, struct err *e);

/* Opens the file NAME of the folder; *s is closed by D. Files take their names in reverse order, so the one
 * that makes the folder usable (config.json) is opened first. */
int save_folder_file(struct save_folder *d, const char *name, struct save **s, struct err *e);

int save_folder_commit(struct save_folder *d, struct err *e);
void save_folder_abort(struct save_folder *d);

#endif
