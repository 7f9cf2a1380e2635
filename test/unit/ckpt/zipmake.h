/* zipmake.h - writes small zip archives for tests, valid and invalid ones. */
#ifndef TEST_ZIPMAKE_H
#define TEST_ZIPMAKE_H

#include "base/buf.h"

/* A member of an archive. If all other fields are zero, the member is valid: stored, with its true sizes. */
struct zipmake_member {
    const char *name;
    const void *data;
    size_t bytes;
    uint16_t method, flags;
    const char *local_name; /* another name in the local header */
    uint32_t more_bytes;    /* added to both sizes in the directory */
    uint32_t more_unpacked; /* added to the unpacked size only */
    uint32_t local_at;      /* if not 0: the offset of the member in the directory */
};

/* faults of the end of the archive */
struct zipmake_end {
    int more_members; /* added to the count */
    uint32_t dir_at;  /* if not 0: the offset of the directory */
    uint16_t disk;
    const char *comment;
};

/* Appends an archive of N members to B, which is empty before. */
void zipmake(struct buf *b, const struct zipmake_member *member, size_t n, const struct zipmake_end *end);

#endif
