/* schema.c - the schema objects of answers that are not JSON. */
#include "chat/schema.h"

#include <stddef.h>

const struct schema schema_empty = {"", NULL, NULL};
const struct schema schema_text = {"", NULL, NULL};
