/* resume.c - finds the requests of a batch whose results a file already has.
 *
 * An earlier `run --batch --json --resume -o F` wrote the file, and may have been killed in the middle of a
 * line. The incomplete line, and results that report errors, are removed from the file, so that in the end
 * each request has one result. */
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "app/batch/requests.h"
#include "app/batch/resume.h"
#include "app/input.h"
#include "app/save.h"
#include "base/buf.h"
#include "base/json/json_pull.h"

/* Returns the number of results in the file for OpenAI's lines with the custom_id ID. NULL: there is none. */
static json_t *by_name(const struct resume *r, const json_t *id)
{
    return json_object_getn(r->by_id, json_string_value(id), json_string_length(id));
}

/* Records the result O. Returns false if O reports an error; its request is then computed again. Sets *RC to
 * -1 if O is not a result. */
static bool note(struct resume *r, json_t *o, int *rc)
{
    json_t *index = json_object_get(o, "index"), *id = json_object_get(o, "custom_id");
    json_t *response = json_object_get(o, "response"), *error = json_object_get(o, "error");
    char key[32];

    *rc = 0;
    if (json_is_object(response) && json_is_string(id)) {
        if (json_integer_value(json_object_get(response, "status_code")) != 200 ||
            (error && !json_is_null(error)))
            return false;
        json_object_setn_new(r->by_id, json_string_value(id), json_string_length(id),
                             json_integer(json_integer_value(by_name(r, id)) + 1));
    } else if (json_is_integer(index)) {
        if (error)
            return false;
        snprintf(key, sizeof(key), "%lld", (long long)json_integer_value(index));
        json_object_set(r->by_index, key, id ? id : json_null());
    } else {
        *rc = -1;
        return false;
    }
    r->n++;
    return true;
}

/* Reads the next line of F, including its line end. False: end of file. */
static bool next_line(FILE *f, struct buf *line)
{
    int c;

    buf_clear(line);
    while ((c = getc_unlocked(f)) != EOF) {
        buf_char(line, (char)c);
        if (c == '\n' || line->len > INPUT_MAX_BYTES)
            break;
    }
    return line->len > 0;
}

/* Copies LINE, the line NUMBER of the file, to OUT if it is a complete result; otherwise sets *DROPPED. */
static int read_line(struct resume *r, const struct buf *line, size_t number, struct save *out, bool *dropped,
                     struct err *e)
{
    bool whole = line->data[line->len - 1] == '\n', keep, strange;
    struct err fault = {0};
    json_t *o = NULL;
    int rc = 0;

    if (json_pull_load(&o, line->data, line->len, r->path, &fault) == ERR_NOMEM)
        return err_nomem(e, r->path);
    strange =
        o ? !json_is_object(o) : whole || line->data[0] != '{'; /* an incomplete last line is expected */
    keep = json_is_object(o) && note(r, o, &rc);
    json_decref(o);
    if (rc || strange)
        return err_set(
            e, ERR_INPUT,
            "%s: line %zu is not a result of run --batch --json, so --resume cannot continue the file",
            r->path, number);
    *dropped |= !keep || !whole;
    if (!keep)
        return 0;
    if ((rc = save_write(out, line->data, line->len, e)) == 0 && !whole)
        rc = save_write(out, "\n", 1, e);
    return rc;
}

/* Copies the complete, successful results of F to OUT. Sets *CHANGED to whether other lines were dropped. */
static int read_lines(struct resume *r, FILE *f, struct save *out, bool *changed, struct err *e)
{
    struct buf line = {.tag = MEM_APP};
    size_t number = 0;
    int rc = 0;

    while (rc == 0 && next_line(f, &line))
        rc = line.oom ? err_nomem(e, r->path) : read_line(r, &line, ++number, out, changed, e);
    buf_fini(&line);
    return rc == 0 && ferror(f) ? err_os(e, "read", r->path) : rc;
}

int resume_open(struct resume *r, const char *path, struct err *e)
{
    FILE *f = fopen(path, "r");
    struct save out = {0};
    bool changed = false;
    int rc;

    r->by_index = json_object();
    r->by_id = json_object();
    r->path = path;
    if (!r->by_index || !r->by_id) {
        if (f)
            fclose(f);
        return err_nomem(e, path);
    }
    if (!f)
        return errno == ENOENT ? 0 : err_os(e, "open", path);
    if ((rc = save_open(&out, path, true, e)) == 0)
        rc = read_lines(r, f, &out, &changed, e);
    if (rc == 0 && changed)
        rc = save_commit(&out, e);
    save_abort(&out);
    fclose(f);
    return rc;
}

void resume_close(struct resume *r)
{
    json_decref(r->by_index);
    json_decref(r->by_id);
    *r = (struct resume){0};
}

/* Checks that ID, the custom_id in the stored result, equals the custom_id of Q. If not, the file has results
 * of another batch. */
static int check_name(const struct resume *r, const struct batch_request *q, const json_t *id, struct err *e)
{
    bool same = q->custom_id ? json_equal(q->custom_id, id) : json_is_null(id);

    return same
               ? 0
               : err_set(e, ERR_INPUT,
                         "%s has a result of request %zu with another custom_id: it belongs to another batch",
                         r->path, q->index);
}

int resume_has(struct resume *r, const struct batch_request *q, bool *has, struct err *e)
{
    char key[32];
    json_t *id, *count = NULL;

    snprintf(key, sizeof(key), "%zu", q->index);
    *has = false;
    if (!q->is_own)
        count = by_name(r, q->custom_id);
    if (json_integer_value(count) > 0) {
        *has = json_integer_set(count, json_integer_value(count) - 1) == 0;
        return 0;
    }
    if (!(id = json_object_get(r->by_index, key)))
        return 0;
    *has = true;
    return check_name(r, q, id, e);
}
