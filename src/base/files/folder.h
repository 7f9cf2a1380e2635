/* folder.h - opens the files of a checkpoint folder. All code that opens such files must use it.
 *
 * A checkpoint is untrusted: an index may name "../../etc/passwd", a folder may contain a symbolic link to
 * any file, and a chat template that links to a private file would put this file into every prompt. So a file
 * is opened first, and then checked to be inside the folder. Only the links of the Hugging Face cache may
 * leave a folder: models--X/snapshots/REVISION/file links to models--X/blobs/, whose files may link to the
 * blobs/ beside models--X. The option allow_links permits all links.
 */
#ifndef GALLOP_BASE_FOLDER_H
#define GALLOP_BASE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct map_file;

enum { FOLDER_PATH_MAX = 4096 };

/* A file inside another file (a packed checkpoint). Borrowed. */
struct folder_member {
    const char *name; /* "config.json", "SUBFOLDER/NAME" */
    const char *bytes;
    size_t len;
};

struct folder_archive {
    const struct folder_member *member;
    size_t n;
};

/* A checkpoint: the path of a folder, or of a single file. Borrowed. */
struct folder {
    const char *path;
    bool allow_links; /* links may lead to any file */
    /* the members of PATH, if PATH is a packed checkpoint; otherwise NULL */
    const struct folder_archive *archive;
};

static inline struct folder folder_at(const char *path)
{
    return (struct folder){.path = path};
}

/* Writes DIR/FILE to OUT [size]. ERR_INPUT: FILE is neither NAME nor SUBFOLDER/NAME, or a name is empty, "."
 * or "..", or has control characters. */
int folder_join(char *out, size_t size, const char *dir, const char *file, struct err *e);

/* Returns whether FILE can be the name of a file directly in a folder. */
bool folder_name_is_plain(const char *file);

/* Returns whether FILE ends with SUFFIX and is longer than SUFFIX. */
bool folder_name_ends(const char *file, const char *suffix);

/* Returns whether FILE of IN is a regular file or links to one. Opening the file checks the link. */
bool folder_has(struct folder in, const char *file);

/* Maps FILE of the folder IN, which is not an archive. FILE NULL: maps the file in.path, which may be a link.
 * Writes the path to PATH [FOLDER_PATH_MAX] for messages. ERR_OS, or ERR_INPUT: the file is not a regular
 * file, is a link that leaves the folder, a Git LFS pointer, or a file of macOS attributes. */
int folder_map(struct map_file *m, char *path, struct folder in, const char *file, struct err *e);

/* The contents of a small text file. */
struct folder_text {
    char *bytes; /* [len], then a zero byte; NULL: the file does not exist */
    size_t len;
    char path[FOLDER_PATH_MAX]; /* for messages */
};

/* Reads FILE of IN (FILE NULL: the file in.path). If THERE is NULL, a missing file is an error; otherwise *THERE is set
 * to whether FILE exists. A file that exceeds FOLDER_TEXT_MAX, or changes while it is read, is an error. */
enum { FOLDER_TEXT_MAX = 512 << 20 };
int folder_read(struct folder_text *t, struct folder in, const char *file, bool *there, struct err *e);
void folder_text_fini(struct folder_text *t); /* T may be zeroed */

/* A list of file names, sorted in byte order. */
struct folder_names {
    char **name;
    size_t n, cap;
};

/* Lists the files in IN, or in its subfolder SUB if SUB is not NULL, whose names end with SUFFIX and are
 * longer than SUFFIX. Omits macOS attribute files ("._NAME"). ERR_OS: the folder cannot be read. */
int folder_list(struct folder_names *l, struct folder in, const char *sub, const char *suffix, struct err *e);
void folder_names_fini(struct folder_names *l); /* L may be zeroed */

#endif
