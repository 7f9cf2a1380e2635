/* schema.c - the schema objects of answers that are not JSON. */
#include "api/schema.h"

#include <stddef.h>

const struct schema schema_empty = {"", NULL, NULL};
const struct schema schema_text = {"", NULL, NULL};
