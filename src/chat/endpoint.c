/* endpoint.c - the table of endpoints. */
#include "chat/endpoint.h"

#include <string.h>

#include "chat/dialect/dialect.h"
#include "chat/fields.h"

#define COMPUTED(letter, name, path, needs, form, gives, says) {path, FIELDS_##name, &form},
#define HANDLED(letter, name, path, needs, access, function, gives, says)
#define ANSWERED(path, access, function, gives, says)
#define WRITTEN(path, access, function, gives, says)
static const struct endpoint rows[] = {
#include "chat/routes.def"
};
#undef COMPUTED
#undef HANDLED
#undef ANSWERED
#undef WRITTEN

const struct endpoint *endpoint_at(const char *path, size_t n)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strlen(rows[i].path) == n && memcmp(rows[i].path, path, n) == 0)
            return &rows[i];
    return NULL;
}
