/* folder.h - opens the files of a checkpoint folder. No other code does.
 *
 * A checkpoint is untrusted: an index may name "../../etc/passwd", an unpacked archive may hold a symbolic
 * link to any file, and a template that is a link to one of the user's files would put that file into every
 * prompt. So a file is opened first, and then checked to be inside the folder. One layout of links is
 * allowed, that of the Hugging Face cache: models--X/snapshots/REVISION/file links to models--X/blobs/, whose
 * files may link to the blobs/ beside models--X. allow_links allows all links, for users who ask for that.
 */
#ifndef GALLOP_BASE_FOLDER_H
#define GALLOP_BASE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/files/map.h"

enum { FOLDER_PATH_MAX = 4096 };

/* A file inside another file, as in a packed checkpoint. Borrowed. */
struct folder_member {
    const char *name; /* "config.json", "SUBFOLDER/NAME" */
    const char *bytes;
    size_t len;
};

struct folder_archive {
    const struct folder_member *member;
    size_t n;
};

/* A checkpoint: the borrowed path of a folder, or of a file that is a checkpoint by itself. */
struct folder {
    const char *path;
    bool allow_links;                     /* links may lead to any file */
    const struct folder_archive *archive; /* PATH is a file with these members; NULL: PATH is no archive */
};

static inline struct folder folder_at(const char *path)
{
    return (struct folder){.path = path};
}

/* Writes DIR/FILE to out[size]. ERR_INPUT unless FILE is the name of a file or SUBFOLDER/NAME; names must not
 * be empty, "." or "..", or hold control characters. */
int folder_join(char *out, size_t size, const char *dir, const char *file, struct err *e);

/* True if FILE can be the name of a file in a folder, without a subfolder. */
bool folder_name_is_plain(const char *file);

/* True if FILE ends with SUFFIX and is longer. */
bool folder_name_ends(const char *file, const char *suffix);

/* True if FILE of IN is a regular file or a link to one. Whether the link is allowed is checked when it is
 * opened. */
bool folder_has(struct folder in, const char *file);

/* Maps FILE of the folder IN, which is not an archive, or, if FILE is NULL, the file IN itself, which may be
 * a link. path[FOLDER_PATH_MAX] receives its path for messages. ERR_OS; ERR_INPUT for anything but a regular
 * file, a link that leaves the folder, a Git LFS pointer, or a file of macOS attributes. */
int folder_map(struct map_file *m, char *path, struct folder in, const char *file, struct err *e);

/* A small text file in memory. */
struct folder_text {
    char *bytes; /* [len], then a zero byte; NULL if there is no file */
    size_t len;
    char path[FOLDER_PATH_MAX]; /* for messages */
};

/* Reads FILE of IN (NULL: IN itself). If THERE is NULL a missing file is an error, otherwise *THERE tells.
 * Files that are larger than FOLDER_TEXT_MAX, or change while they are read, are refused. */
enum { FOLDER_TEXT_MAX = 512 << 20 };
int folder_read(struct folder_text *t, struct folder in, const char *file, bool *there, struct err *e);
void folder_text_fini(struct folder_text *t); /* a zeroed one is fine */

/* A list of file names in byte order. */
struct folder_names {
    char **name;
    size_t n, cap;
};

/* Lists the files in IN, or in its folder SUB (NULL: none), that end with SUFFIX and are longer, without the
 * files that macOS writes beside others ("._NAME"). ERR_OS if the folder cannot be read. */
int folder_list(struct folder_names *l, struct folder in, const char *sub, const char *suffix, struct err *e);
void folder_names_fini(struct folder_names *l); /* a zeroed one is fine */

#endif
