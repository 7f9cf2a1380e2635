/* folder.h - the files of a checkpoint folder, and the only functions that open them.
 *
 * A checkpoint comes from strangers: an index may name "../../etc/passwd", an unpacked archive may hold a
 * symbolic link to anywhere, and a template that is a link to a file of the user's would put that file into
 * every prompt. So a file is opened first, and then it is proved that the opened one lies in the folder. One
 * layout of links is allowed, that of the Hugging Face cache: models--X/snapshots/REVISION/file points into
 * models--X/blobs/, and what lies there may point into the blobs/ beside models--X. A user who wants links to
 * anywhere says so (allow_links).
 */
#ifndef GALLOP_BASE_FOLDER_H
#define GALLOP_BASE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/map.h"

enum { FOLDER_PATH_MAX = 4096 };

/* Files that lie in another file, as those of a packed checkpoint do; borrowed. */
struct folder_member {
    const char *name; /* "config.json", "SUBFOLDER/NAME" */
    const char *bytes;
    size_t len;
};

struct folder_archive {
    const struct folder_member *member;
    size_t n;
};

/* Where a checkpoint lies. Borrowed path of a folder or, where a single file is a checkpoint, of that
 * file. */
struct folder {
    const char *path;
    bool allow_links;                     /* links may lead anywhere */
    const struct folder_archive *archive; /* PATH is a file that holds these; NULL: they lie in the folder */
};

static inline struct folder folder_at(const char *path)
{
    return (struct folder){.path = path};
}

/* DIR/FILE to out[size]. ERR_INPUT if FILE is neither the name of a file nor SUBFOLDER/NAME: empty, with a
 * control character, "." or "..". */
int folder_join(char *out, size_t size, const char *dir, const char *file, struct err *e);

/* True if FILE could be a file of a folder, not of a folder in it. */
bool folder_name_is_plain(const char *file);

/* True if FILE ends in SUFFIX and has more than that. */
bool folder_name_ends(const char *file, const char *suffix);

/* True if FILE of IN is a regular file, also through a link (whether the link may be followed is seen when it
 * is opened). */
bool folder_has(struct folder in, const char *file);

/* FILE of the folder IN, which is no archive, or with FILE NULL the file IN itself, whose links are the
 * user's own. path[FOLDER_PATH_MAX] receives its path for messages. ERR_OS, or ERR_INPUT for what is no
 * regular file or a link that leads out, for a pointer of Git LFS and for attributes of macOS. */
int folder_map(struct map_file *m, char *path, struct folder in, const char *file, struct err *e);

/* A whole file in memory: for texts, which are small. */
struct folder_text {
    char *bytes; /* terminated by a zero byte that len does not count; NULL where there is no file */
    size_t len;
    char path[FOLDER_PATH_MAX]; /* for messages */
};

/* Reads FILE (NULL: IN itself). A file that is not there is an error where THERE is NULL; else *there says
 * so. Files that are larger than FOLDER_TEXT_MAX, or change while they are read, are refused. */
enum { FOLDER_TEXT_MAX = 512 << 20 };
int folder_read(struct folder_text *t, struct folder in, const char *file, bool *there, struct err *e);
void folder_text_fini(struct folder_text *t); /* a zeroed one is fine */

/* Names that end with a suffix, in byte order. */
struct folder_names {
    char **name;
    size_t n, cap;
};

/* Those in IN, or in its folder SUB (NULL: none), that end in SUFFIX and have more than that, without what
 * macOS puts beside files ("._NAME"). ERR_OS when it
 * cannot be read. */
int folder_list(struct folder_names *l, struct folder in, const char *sub, const char *suffix, struct err *e);
void folder_names_fini(struct folder_names *l); /* a zeroed one is fine */

#endif
