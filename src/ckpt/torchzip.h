/* torchzip.h - the directory of a zip archive as torch.save writes it: members by name, each a range of
 * mapped bytes. */
#ifndef GALLOP_CKPT_TORCHZIP_H
#define GALLOP_CKPT_TORCHZIP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/strmap.h"

struct torchzip_member {
    const char *name; /* borrowed from the archive, not terminated; the archive's own top folder is cut off */
    size_t name_len;
    const char *data; /* stored bytes, at any alignment */
    size_t bytes;
};

struct torchzip {
    struct torchzip_member *member;
    size_t n, cap;
    struct strmap index;
};

/* True if the bytes begin like a zip archive. */
bool torchzip_is(const char *bytes, size_t len);

/* Reads the directory of the archive in bytes[len], which must outlive Z. Every member must be stored
 * (neither compressed nor encrypted) and lie inside the archive; all names must be in one top folder. PATH
 * is for messages. On failure Z is closed. */
int torchzip_open(struct torchzip *z, const char *bytes, size_t len, const char *path, struct err *e);

/* The member TOP/NAME, or NULL. */
const struct torchzip_member *torchzip_get(const struct torchzip *z, const char *name, size_t len);

void torchzip_close(struct torchzip *z); /* a zeroed one is fine */

#endif
