/* save.h - writes output files completely or not at all.
 *
 * A file is written under a temporary name in its folder (".gallop-PID-N.part") and renamed when it is complete
 * and on the disk, so that other programs see the old file or the new one. An error, SIGINT, SIGTERM, SIGHUP,
 * SIGPIPE and exit() remove unfinished files; the handlers are set only where a signal would end the program by
 * default. A symbolic link is replaced by the file, and its target does not change. A path that is not a regular
 * file (/dev/null, /dev/stdout, a FIFO) is written to directly. */
#ifndef GALLOP_APP_SAVE_H
#define GALLOP_APP_SAVE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"

enum { SAVE_PATH_MAX = 4096, SAVE_FOLDER_FILES = 8 };

/* An output file. A zeroed struct is a closed file. While the file is open, the struct must not move. */
struct save {
    FILE *f;   /* any function of stdio may write to it; the first error is remembered */
    int error; /* errno of the first write error; 0: none */
    int fd;
    bool direct; /* written under its own name, without a temporary file */
    char path[SAVE_PATH_MAX], part[SAVE_PATH_MAX];
    struct save *next; /* next in the list of open files */
};

/* Opens PATH for appending, under its own name from the beginning. */
int save_append(struct save *s, const char *path, struct err *e);

/* Opens PATH for writing. Without REPLACE an existing file is refused, with a message that names --force; a path that
 * is not a regular file needs no REPLACE. */
int save_open(struct save *s, const char *path, bool replace, struct err *e);

int save_write(struct save *s, const void *p, size_t n, struct err *e);

/* Writes buffered data to the file, or reports the first write error. */
int save_flush(struct save *s, struct err *e);

/* Writes the beginning of a safetensors file: the length of HEADER in eight bytes, and HEADER, padded with blanks
 * to a multiple of eight. The bytes of the tensors follow. */
int save_safetensors_header(struct save *s, const json_t *header, struct err *e);

/* Writes the file to the disk and renames it to its own name; after an error, removes it. S is closed in either case.
 * Does nothing if S was closed before. */
int save_commit(struct save *s, struct err *e);

/* Closes the file and removes it. Does nothing if S was closed or committed before. */
void save_abort(struct save *s);

/* Several files of one folder, which are renamed to their own names together. */
struct save_folder {
    char path[SAVE_PATH_MAX];
    bool made; /* the folder was created */
    size_t n;
    struct save file[SAVE_FOLDER_FILES];
    struct save_folder *next; /* next in the list of open folders */
};

/* Creates the folder PATH, or opens an empty one; without FORCE a folder that is not empty is refused. With
 * FORCE, files are added to the folder and replace existing files with the same names. D must not move while
 * it is open. */
int save_folder_open(struct save_folder *d, const char *path, bool force, struct err *e);

/* Opens the file NAME of the folder. *S belongs to D, which closes it. Files are renamed to their own names
 * in reverse order. Therefore open the file that makes the folder usable (config.json) first. */
int save_folder_file(struct save_folder *d, const char *name, struct save **s, struct err *e);

int save_folder_commit(struct save_folder *d, struct err *e);
void save_folder_abort(struct save_folder *d);

#endif
