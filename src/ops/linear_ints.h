/* linear_ints.h - reads the integers of packed int8 and int4 weights back, for executors that compute elsewhere.
 *
 * A weight is an integer from -127 to 127 times the scale of its row. In int4, the integer is multiple * code
 * + offset, where code is 0 to 15, and multiple and offset are shared by a group of neighbouring elements.
 * Rows are rotated (rotate.h), so that inputs must be rotated, too.
 */
#ifndef GALLOP_OPS_LINEAR_INTS_H
#define GALLOP_OPS_LINEAR_INTS_H

#include <stddef.h>
#include <stdint.h>

struct linear;

enum linear_ints { LINEAR_NO_INTS, LINEAR_INT8, LINEAR_INT4 };

/* Returns how the weights of L are packed. LINEAR_NO_INTS: as floats, or in another format. */
enum linear_ints linear_ints_of(const struct linear *l);

/* Writes the integers of row I of W to OUT [k], unless OUT is NULL. Returns the scale of the row. L is LINEAR_INT8. */
float linear_ints_row8(const struct linear *l, size_t i, int8_t *out);

/* Writes the codes of row I of W to OUT [k], unless OUT is NULL, and multiples and offsets of its groups to MULTIPLE
 * and OFFSET [linear_ints_groups(l)]. Returns the scale of the row. L is LINEAR_INT4. */
float linear_ints_row4(const struct linear *l, size_t i, uint8_t *out, int8_t *multiple, int8_t *offset);
size_t linear_ints_groups(const struct linear *l);

#endif
