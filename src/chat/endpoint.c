/* endpoint.c - the table of endpoints. */
#include "chat/endpoint.h"

#include <string.h>

#include "chat/dialect/dialect.h"
#include "chat/prepare/refuse.h"
#include "chat/request.h"

#define COMPUTED(letter, name, path, needs, form, gives, says) {path, FIELDS_##name, &form},
#define HANDLED(letter, name, path, needs, access, function, gives, says)
#define ANSWERED(path, access, function, gives, says)
#define WRITTEN(path, access, function, gives, says)
static const struct endpoint {
    const char *path;
    unsigned endpoint;
    const struct dialect *dialect;
} rows[] = {
#include "chat/routes.def"
};
#undef COMPUTED
#undef HANDLED
#undef ANSWERED
#undef WRITTEN

int endpoint_open(struct request *q, const struct service *s, const char *path, size_t n)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strlen(rows[i].path) == n && memcmp(rows[i].path, path, n) == 0) {
            request_open(q, s, rows[i].endpoint, rows[i].dialect);
            q->origin.route = rows[i].path;
            return 0;
        }
    request_open(q, s, 0, &openai_completions);
    q->origin.route = "";
    return refuse(q, 404, "there is nothing at this path");
}
