/* requests.c - /abort_requests and /v1/status: a client can look up the requests of its own key. */
#include "api/http/routes.h"

#include <stdio.h>
#include <string.h>

#include "api/api_priv.h"
#include "api/flight.h"
#include "api/http/access.h"
#include "api/http/reply.h"
#include "base/buf.h"
#include "base/clock.h"
#include "chat/fields.h"
#include "chat/schema.h"
#include "net/server.h"

enum { MOST_ABORT_BYTES = 256 << 10 }; /* maximum size of a body, which the server's thread parses */

/* Returns whether ID is the id that the client chose for the request of F, or the id in its answer. While a
 * worker uses F, only an id from the X-Request-Id header can be compared. */
static bool is_called(const struct flight *f, const char *id)
{
    return (!flight_is_with_worker(f) || f->q.naming == REQUEST_NAMED) &&
           (strcmp(f->q.name, id) == 0 || strcmp(f->q.id, id) == 0);
}

/* Returns the next flight after AFTER (NULL: the first) with the id ID and the key KEY (NULL: any key). */
static struct flight *find_flight(const struct api *a, const char *id, const char *key,
                                  const struct flight *after)
{
    struct flight *f = after ? after->next : a->first;

    while (f && !(is_called(f, id) && (!key || strcmp(f->q.origin.key, key) == 0)))
        f = f->next;
    return f;
}

/* ---- /v1/status ---- */

const struct schema requests_status_schema = {
    "PaceStatus", "{'type':'object','required':['request_id','status','prompt_tokens','generated_tokens']}",
    NULL};

static void put_status(const struct flight *f, struct buf *out)
{
    bool known = !flight_is_with_worker(f);
    size_t n_output = known ? answer_n_output(&f->q.answer) : 0;

    buf_str(out, "{\"request_id\":");
    dialect_put_string(out, f->q.name);
    buf_fmt(out, ",\"status\":\"%s\",\"prompt_tokens\":%zu,\"generated_tokens\":%zu,\"age_seconds\":%.3f}",
            n_output ? "decoding" : "waiting", known ? f->q.n_prompt_tokens : 0, n_output,
            clock_seconds() - f->q.origin.arrival_s);
}

void requests_answer_status(const struct reply *r)
{
    struct buf body = {.tag = MEM_API};
    char id[512], key[KEYS_NAME];
    const struct flight *f;

    reply_rest_of_path(r, id, sizeof(id));
    f = find_flight(r->api, id, access_owner(r->api, r->x, key), NULL);
    if (f) {
        put_status(f, &body);
        reply_json(r, &body);
    } else {
        reply_refuse(r, 404, "no request of that id is being computed", NULL);
    }
    buf_fini(&body);
}

/* ---- /abort_requests ---- */

const struct schema requests_abort_schema = {
    "Aborted", "{'type':'object','required':['aborted'],'properties':{'aborted':{'type':'integer'}}}", NULL};

/* Cancels the requests with the id ID and the key KEY (NULL: any key). Returns their number. */
static size_t end_requests(struct api *a, const char *id, const char *key)
{
    size_t n = 0;

    for (struct flight *f = NULL; (f = find_flight(a, id, key, f)) != NULL; n++)
        flight_abort(f);
    return n;
}

static void ignore_unknown(void *ctx, const char *name)
{
    (void)ctx;
    (void)name;
}

/* Cancels the requests with the ids IDS, a string or a list of strings, and answers with their number. */
static void end_all(const struct reply *r, const json_t *ids)
{
    char key[KEYS_NAME], body[64];
    const char *owner = access_owner(r->api, r->x, key);
    size_t n = 0;

    if (json_is_string(ids))
        n = end_requests(r->api, json_string_value(ids), owner);
    for (size_t i = 0; i < json_array_size(ids); i++)
        n += end_requests(r->api, json_string_value(json_array_get(ids, i)), owner);
    n = (size_t)snprintf(body, sizeof(body), "{\"aborted\":%zu}", n);
    reply_send(r, 200, "", "application/json", body, n);
}

void requests_abort(const struct reply *r)
{
    struct err e = {0};
    struct fields given;
    const char *text;
    size_t n;

    text = server_body(r->x, &n);
    if (n > MOST_ABORT_BYTES) {
        reply_refuse(r, 413, "the body is larger than 256 KiB", NULL);
        return;
    }
    if (fields_read(&given, FIELDS_ABORT, text, n, NULL, ignore_unknown, NULL, &e) != 0)
        reply_refuse(r, e.code == ERR_NOMEM ? 503 : 400, e.msg, given.param[0] ? given.param : NULL);
    else if (!given.request_ids)
        reply_refuse(r, 400, "request_ids: missing", "request_ids");
    else
        end_all(r, given.request_ids);
    fields_fini(&given);
}
