/* spmproto.h - a reader of protobuf messages (the wire format): fields one after the other, nothing
 * copied. */
#ifndef GALLOP_TEXT_SPMPROTO_H
#define GALLOP_TEXT_SPMPROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spmproto {
    const char *p, *end;
    bool bad; /* the bytes are no message */
};

struct spmproto_field {
    uint32_t number, wire; /* wire: 0 varint, 1 eight bytes, 2 bytes, 5 four bytes */
    uint64_t value;        /* of wire 0, 1 and 5 */
    const char *s;         /* of wire 2 */
    size_t n;
};

/* The next field; false: the end, or bad. */
bool spmproto_next(struct spmproto *m, struct spmproto_field *f);

float spmproto_float(const struct spmproto_field *f); /* of wire 5 */

#endif
