/* requests.c - reads requests from the lines of a batch: prompts as text, ids or messages, and sampling fields. */
#include "app/batch/requests.h"
#include "app/batch/resume.h"
#include "app/batch/served.h"
#include "app/input.h"
#include "app/print.h"
#include "engine/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/json/json_pull.h"
#include "base/mem.h"
#include "engine/constraints/structured.h"
#include "engine/seq.h"

enum { POLL_MS = 100 };

/* A file of lines, which are read on demand. */
struct requests_lines {
    int fd;
    const char *path;
    char *data; /* [cap] bytes read from the file; the bytes from BEGIN to END are not processed yet */
    size_t begin, end, cap;
    size_t number; /* number of the last line that was read */
    bool is_file;  /* the file is a regular file, so that reading never waits */
    bool eof;
};

/* ---- requests ---- */

void requests_free(struct batch_request *q)
{
    for (size_t i = 0; q->answer && i < q->n; i++) {
        tok_ids_fini(&q->answer[i].ids);
        buf_fini(&q->answer[i].text);
        buf_fini(&q->answer[i].special);
        json_decref(q->answer[i].logprobs);
    }
    buf_fini(&q->text);
    buf_fini(&q->origin);
    tok_ids_fini(&q->ids);
    json_decref(q->custom_id);
    json_decref(q->warnings);
    json_decref(q->scored);
    served_free(q->served);
    arena_fini(&q->arena);
    mem_free(q);
}

static void close_lines(struct requests *r)
{
    if (!r->lines)
        return;
    if (r->lines->fd > STDERR_FILENO)
        close(r->lines->fd);
    mem_free(r->lines->data);
    mem_free(r->lines);
    r->lines = NULL;
}

void requests_close(struct requests *r)
{
    for (struct batch_request *q = r->first, *next; q; q = next) {
        next = q->next;
        requests_free(q);
    }
    close_lines(r);
}

static struct batch_request *requests_add(struct requests *r, struct err *e)
{
    struct batch_request *q = mem_zalloc(1, sizeof(*q), MEM_APP);

    if (!q) {
        err_nomem(e, "requests");
        return NULL;
    }
    buf_init(&q->text, MEM_APP);
    buf_init(&q->origin, MEM_APP);
    arena_init(&q->arena, MEM_APP);
    q->sampling = r->sampling;
    q->structured = r->structured;
    q->n = 1;
    q->prompt_logprobs = -1;
    q->index = r->n++;
    r->n_answers++;
    if (r->last)
        r->last->next = q;
    else
        r->first = q;
    r->last = q;
    return q;
}

int requests_add_text(struct requests *r, const char *text, size_t len, struct err *e)
{
    struct batch_request *q = requests_add(r, e);

    if (!q)
        return ERR_NOMEM;
    q->is_text = true;
    buf_add(&q->text, text, len);
    return q->text.oom ? err_nomem(e, "requests") : 0;
}

int requests_add_ids(struct requests *r, const struct tok_ids *ids, struct err *e)
{
    struct batch_request *q = requests_add(r, e);

    if (!q)
        return ERR_NOMEM;
    for (size_t i = 0; i < ids->n; i++)
        if (!input_add_id(&q->ids, ids->id[i]))
            return err_nomem(e, "requests");
    return 0;
}

/* ---- chat templates ---- */

static struct input_template *requests_template(const struct requests *r)
{
    return &r->served->answering.template;
}

int requests_open_template(struct requests *r, struct err *e)
{
    return input_template_open(requests_template(r), r->model, r->template_file, e);
}

/* Sets the text of Q to the rendered MESSAGES, which is a list of messages or an object of template
 * variables. */
static int render(struct requests *r, struct batch_request *q, json_t *messages, struct err *e)
{
    struct conversation c = {.add_generation_prompt = true, .origin = r->plain_user_text ? &q->origin : NULL};
    int rc = requests_open_template(r, e);

    buf_clear(&q->text);
    buf_clear(&q->origin);
    q->is_text = q->rendered = true;
    if (rc == 0 && (rc = input_render(requests_template(r), &c, messages, &q->text, e)) == 0 && q->text.oom)
        rc = err_nomem(e, "a message");
    return rc;
}

/* Replaces the text of Q by the template's rendering of it as a user's message. */
static int wrap(struct requests *r, struct batch_request *q, struct err *e)
{
    json_t *list = json_array(), *user;
    int rc;

    if (r->system)
        json_array_append_new(list, json_pack("{s:s,s:s}", "role", "system", "content", r->system));
    user = json_pack("{s:s,s:s%}", "role", "user", "content", q->text.data ? q->text.data : "", q->text.len);
    if (json_array_append_new(list, user) != 0 || json_array_size(list) != 1 + (r->system != NULL))
        rc = err_nomem(e, "a message");
    else
        rc = render(r, q, list, e);
    json_decref(list);
    return rc;
}

int requests_wrap(struct requests *r, struct err *e)
{
    int rc = requests_open_template(r, e);

    for (struct batch_request *q = r->first; q && rc == 0; q = q->next)
        rc = wrap(r, q, e);
    return rc;
}

/* ---- lines ---- */

int requests_open_lines(struct requests *r, const char *path, struct err *e)
{
    struct requests_lines *l = mem_zalloc(1, sizeof(*l), MEM_APP);
    struct stat s;

    if (!l)
        return err_nomem(e, "requests");
    r->lines = l;
    l->path = strcmp(path, "-") == 0 ? "standard input" : path;
    l->fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (l->fd < 0)
        return err_os(e, "open", path);
    if (fstat(l->fd, &s) == 0 && S_ISDIR(s.st_mode))
        return err_set(e, ERR_INPUT, "%s: this is a folder, expected a file", path);
    l->is_file = S_ISREG(s.st_mode);
    return 0;
}

/* Returns whether read() would not block. With WAIT, first waits until data are available or a signal
 * comes. */
static bool is_readable(const struct requests *r, bool wait)
{
    const struct requests_lines *l = r->lines;
    struct pollfd p = {.fd = l->fd, .events = POLLIN};

    if (l->is_file)
        return true;
    while (!*r->stop) {
        int n = poll(&p, 1, wait ? POLL_MS : 0);

        if (n > 0 || !wait)
            return n > 0;
        if (n < 0 && errno != EINTR)
            return true; /* the read will report the error */
    }
    return false;
}

static int read_more(struct requests *r, struct err *e)
{
    struct requests_lines *l = r->lines;
    ssize_t n;

    if (l->begin) {
        memmove(l->data, l->data + l->begin, l->end - l->begin);
        l->end -= l->begin;
        l->begin = 0;
    }
    if (l->end > INPUT_MAX_BYTES)
        return err_set(e, ERR_INPUT, "%s: line %zu is longer than the maximum of %d MiB", l->path,
                       l->number + 1, INPUT_MAX_BYTES >> 20);
    if (!mem_grow((void **)&l->data, &l->cap, l->end + 65536, 1, MEM_APP))
        return err_nomem(e, l->path);
    do
        n = read(l->fd, l->data + l->end, l->cap - l->end);
    while (n < 0 && errno == EINTR && !*r->stop);
    if (n < 0)
        return errno == EINTR ? 0 : err_os(e, "read", l->path);
    l->end += (size_t)n;
    l->eof = n == 0;
    return 0;
}

static bool is_blank(const char *p, size_t n)
{
    while (n && (p[n - 1] == ' ' || p[n - 1] == '\t' || p[n - 1] == '\r'))
        n--;
    return n == 0;
}

/* Sets *LINE to the next line that is not blank, without its line end. NULL: no line is available now, or the file
 * ended. */
static int next_line(struct requests *r, bool wait, char **line, size_t *len, struct err *e)
{
    struct requests_lines *l = r->lines;
    size_t seen = 0;
    int rc;

    *line = NULL;
    for (;;) {
        char *p = l->data + l->begin, *end = NULL;
        size_t left = l->end - l->begin;

        if (left > seen)
            end = memchr(p + seen, '\n', left - seen);
        if (!end && l->eof && left)
            end = p + left;
        if (end) {
            *len = (size_t)(end - p);
            l->begin += *len + (l->begin + *len < l->end);
            l->number++;
            seen = 0;
            if (!is_blank(p, *len)) {
                *line = p;
                return 0;
            }
            continue;
        }
        if (l->eof || !is_readable(r, wait))
            return 0;
        seen = left;
        if ((rc = read_more(r, e)) != 0)
            return rc;
    }
}

/* ---- the fields of a line ---- */

static json_t *requests_take(json_t *o, const char *key)
{
    json_t *v = json_incref(json_object_get(o, key));

    json_object_del(o, key);
    if (!json_is_null(v))
        return v;
    json_decref(v);
    return NULL;
}

/* Moves the member KEY of O, a whole number from LEAST to MOST, to *OUT. If it is missing, *OUT does not change. */
static int take_int(json_t *o, const char *key, json_int_t least, json_int_t most, json_int_t *out,
                    struct err *e)
{
    json_t *v = requests_take(o, key);
    int rc = 0;

    if (v && json_is_integer(v) && json_integer_value(v) >= least && json_integer_value(v) <= most)
        *out = json_integer_value(v);
    else if (v)
        rc = err_set(e, ERR_INPUT, "%s: expected a whole number from %lld to %lld", key, (long long)least,
                     (long long)most);
    json_decref(v);
    return rc;
}

/* Reads the number of answers, and prompt_logprobs. */
static int read_answers(struct batch_request *q, json_t *o, struct err *e)
{
    json_int_t n = 1, best, scored = -1;
    int rc = take_int(o, "n", 1, SEQ_MAX_ANSWERS, &n, e);

    best = n;
    if (rc == 0)
        rc = take_int(o, "best_of", 1, SEQ_MAX_ANSWERS, &best, e);
    if (rc == 0 && best != n)
        rc = err_set(e, ERR_INPUT, "best_of: not supported beyond n, expected %lld", (long long)n);
    if (rc == 0)
        rc = take_int(o, "prompt_logprobs", 0, SAMPLING_MAX_LOGPROBS, &scored, e);
    q->n = rc ? 1 : (size_t)n;
    q->prompt_logprobs = (int)scored;
    return rc;
}

/* Renames fields that have other names in OpenAI's API, and removes fields whose values request the
 * default. */
static int rename_fields(json_t *o, struct err *e)
{
    static const struct {
        const char *theirs, *ours;
    } names[] = {{"max_tokens", "max_new_tokens"},
                 {"max_completion_tokens", "max_new_tokens"},
                 {"min_tokens", "min_new_tokens"}};
    json_t *v, *top;
    int rc = 0;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && rc == 0; i++) {
        if (!(v = requests_take(o, names[i].theirs)))
            continue;
        if (json_object_get(o, names[i].ours))
            rc = err_set(e, ERR_INPUT, "%s: %s is given twice, under two names", names[i].theirs,
                         names[i].ours);
        else
            json_object_set(o, names[i].ours, v);
        json_decref(v);
    }
    if ((v = requests_take(o, "stream")) && rc == 0 && !json_is_false(v))
        rc = err_set(e, ERR_INPUT, "stream: not supported in a batch, expected false");
    json_decref(v);
    top = requests_take(o, "top_logprobs");
    if (json_is_boolean(v = json_object_get(o, "logprobs"))) {
        bool wanted = json_is_true(v);

        json_object_del(o, "logprobs");
        if (wanted)
            json_object_set_new(o, "logprobs", top ? json_incref(top) : json_integer(0));
    } else if (top && rc == 0) {
        rc = err_set(e, ERR_INPUT, "top_logprobs: needs \"logprobs\": true");
    }
    json_decref(top);
    json_object_del(o, "model"); /* ignored: -m selects the model */
    return rc;
}

/* Reads the fields that say how the engine treats the request: speculative, priority, user and cache_salt. */
static int read_place(struct batch_request *q, json_t *o, struct err *e)
{
    json_t *guesses = requests_take(o, "speculative"), *priority = requests_take(o, "priority"),
           *user = requests_take(o, "user"), *salt = requests_take(o, "cache_salt");
    json_int_t p = json_integer_value(priority);
    int rc = 0;

    if (priority && (!json_is_integer(priority) || p < INT32_MIN || p > INT32_MAX))
        rc = err_set(e, ERR_INPUT, "priority: expected a whole number of 32 bits");
    else if (guesses && !json_is_boolean(guesses))
        rc = err_set(e, ERR_INPUT, "speculative: expected true or false");
    else if ((user && !json_is_string(user)) || (salt && !json_is_string(salt)))
        rc = err_set(e, ERR_INPUT, "%s is not a string",
                     user && !json_is_string(user) ? "user" : "cache_salt");
    q->priority = (int)p;
    q->plain = json_is_false(guesses);
    if (rc == 0 && user &&
        !(q->user = arena_strndup(&q->arena, json_string_value(user), json_string_length(user))))
        rc = err_nomem(e, "requests");
    if (rc == 0 && salt &&
        !(q->salt = arena_strndup(&q->arena, json_string_value(salt), json_string_length(salt))))
        rc = err_nomem(e, "requests");
    json_decref(priority);
    json_decref(guesses);
    json_decref(user);
    json_decref(salt);
    return rc;
}

/* Reads the constraint on the answer from O. If O has none, the constraint of the command line stays. */
static int read_structured(struct batch_request *q, json_t *o, struct err *e)
{
    struct gallop_structured_outputs own = {0};
    const char *key;
    json_t *v;
    void *next;
    int rc = 0;

    json_object_foreach_safe(o, next, key, v)
    {
        if (!structured_is_field(key))
            continue;
        if (rc == 0)
            rc = structured_set_json(&own, key, v, &q->arena, e);
        json_object_del(o, key);
    }
    if (structured_is_given(&own))
        q->structured = own;
    return rc;
}

/* Returns the object with the fields of the request: the member `body`, else the line itself. New reference. */
static json_t *body_of(struct batch_request *q, json_t *o, struct err *e)
{
    json_t *body = json_object_get(o, "body");
    const char *key;
    json_t *v;

    if ((q->custom_id = requests_take(o, "custom_id")) && !json_is_string(q->custom_id)) {
        err_set(e, ERR_INPUT, "custom_id is not a string");
        return NULL;
    }
    if (!body)
        return json_incref(o);
    if (!json_is_object(body)) {
        err_set(e, ERR_INPUT, "body is not an object");
        return NULL;
    }
    json_object_foreach(o, key, v)
    {
        if (strcmp(key, "body") == 0 || strcmp(key, "method") == 0 || strcmp(key, "url") == 0)
            continue;
        err_set(e, ERR_INPUT, "%.60s beside body: expected custom_id, method, url and body", key);
        return NULL;
    }
    if (json_object_size(o) > 1) {
        err_set(e, ERR_INPUT, "expected the texts custom_id, method and url and the object body, each once");
        return NULL;
    }
    return json_incref(body);
}

/* Renders MESSAGES with the fields of O that are variables of the template. */
static int render_messages(struct requests *r, struct batch_request *q, json_t *messages, json_t *o,
                           struct err *e)
{
    static const char *const names[] = {"tools", "documents"};
    json_t *all = json_object();
    int rc = 0;

    json_object_set(all, "messages", messages);
    for (int i = 0; i < 2; i++) {
        json_t *v = requests_take(o, names[i]);

        if (v)
            json_object_set_new(all, names[i], v);
    }
    if ((!json_is_array(messages) || json_array_size(messages) == 0))
        rc = err_set(e, ERR_INPUT, "messages is not a list of messages");
    if (rc == 0)
        rc = render(r, q, all, e);
    json_decref(all);
    return rc;
}

static int requests_read_prompt(struct requests *r, struct batch_request *q, json_t *o, struct err *e)
{
    json_t *prompt = requests_take(o, "prompt"), *ids = requests_take(o, "ids"),
           *messages = requests_take(o, "messages");
    int rc = 0;

    if ((prompt != NULL) + (ids != NULL) + (messages != NULL) != 1) {
        rc = err_set(e, ERR_INPUT, "expected one of prompt, ids and messages");
    } else if (ids) {
        rc = input_json_ids(ids, "ids", INT32_MIN, &q->ids, e);
    } else if (messages) {
        rc = render_messages(r, q, messages, o, e);
    } else if (!json_is_string(prompt)) {
        rc = err_set(e, ERR_INPUT, "prompt is not a string");
    } else {
        q->is_text = true;
        buf_add(&q->text, json_string_value(prompt), json_string_length(prompt));
        rc = q->text.oom ? err_nomem(e, "requests") : r->wrap ? wrap(r, q, e) : 0;
    }
    json_decref(prompt);
    json_decref(ids);
    json_decref(messages);
    return rc;
}

static int look_up(const struct requests *r, struct batch_request *q, struct err *e)
{
    return r->resume ? resume_has(r->resume, q, &q->skipped, e) : 0;
}

/* Reads the field `suffix`: the text after the gap that the answer fills (fill in the middle). "" means
 * none. */
static int read_suffix(const struct requests *r, struct batch_request *q, json_t *o, struct err *e)
{
    json_t *suffix = requests_take(o, "suffix");
    int rc = 0;

    if (suffix && !json_is_string(suffix))
        rc = err_set(e, ERR_INPUT, "suffix is not a string");
    else if (json_string_length(suffix) && (!q->is_text || q->rendered || r->wrap))
        rc = err_set(e, ERR_INPUT, "suffix needs a prompt that is text and no conversation");
    else if (json_string_length(suffix)) {
        q->n_suffix = json_string_length(suffix);
        q->suffix = arena_strndup(&q->arena, json_string_value(suffix), q->n_suffix);
        rc = q->suffix ? 0 : err_nomem(e, "requests");
    }
    json_decref(suffix);
    return rc;
}

static int read_body(struct requests *r, struct batch_request *q, json_t *body, struct err *e)
{
    int rc = requests_read_prompt(r, q, body, e);

    if (rc == 0 && (rc = read_suffix(r, q, body, e)) == 0 && (rc = read_answers(q, body, e)) == 0 &&
        (rc = rename_fields(body, e)) == 0 && (rc = read_structured(q, body, e)) == 0)
        rc = read_place(q, body, e);
    return rc;
}

/* Fills Q from O, the JSON object of its line, which has our own format. */
static void read_own(struct requests *r, struct batch_request *q, json_t *o)
{
    struct err *e = &q->fault;
    json_t *body = body_of(q, o, e);

    if (!body || look_up(r, q, e) != 0 || (!q->skipped && read_body(r, q, body, e) != 0)) {
        err_prefix(e, "%s", q->where);
    } else if (!q->skipped) {
        q->sampling.seed += q->index * q->n; /* requests without their own seed get different ones */
        sampling_set_json(&q->sampling, body, q->where, &q->arena, e);
    }
    json_decref(body);
}

/* Fills Q from LINE, which has the format of OpenAI's batch files. */
static void read_served(struct requests *r, struct batch_request *q, const struct served_line *line)
{
    q->custom_id = print_json_string(line->custom_id.s, line->custom_id.n);
    if (!q->custom_id || !served_open(r->served, q, line))
        err_nomem(&q->fault, "requests");
    else if (look_up(r, q, &q->fault) != 0)
        err_prefix(&q->fault, "%s", q->where);
    if (q->fault.code) { /* the error is printed in our own format */
        served_free(q->served);
        q->served = NULL;
    } else if (!q->skipped) {
        served_read(r->served, q, line, &r->sampling);
    }
}

/* Fills Q from its LINE. An error is stored in q->fault, with the number of the line. */
static void requests_read_request(struct requests *r, struct batch_request *q, const char *line, size_t len)
{
    struct err *e = &q->fault;
    struct served_line served;
    json_t *o;

    if (served_split(&served, line, len, &q->arena)) {
        read_served(r, q, &served);
        return;
    }
    if (json_pull_load_large(&o, line, len, q->where, "seed", e) != 0)
        return;
    if (!json_is_object(o))
        err_set(e, ERR_INPUT, "%s: expected a JSON object", q->where);
    else
        read_own(r, q, o);
    json_decref(o);
}

/* Removes the newest request, which has a result already. BEFORE: the request before it, or NULL. */
static void leave_out(struct requests *r, struct batch_request *before)
{
    requests_free(r->last);
    r->last = before;
    if (before)
        before->next = NULL;
    else
        r->first = NULL;
    r->n_skipped++;
    r->n_answers--;
}

/* Adds the request of the next line. Sets *SKIPPED if the request has a result already and was not added. */
static int read_one(struct requests *r, bool wait, bool *got, bool *skipped, struct err *e)
{
    struct batch_request *q, *before = r->last;
    char *line;
    size_t len;
    int rc = next_line(r, wait, &line, &len, e);

    *skipped = false;
    *got = line != NULL;
    if (rc == 0 && !line && r->lines->eof)
        close_lines(r);
    if (rc || !line)
        return rc;
    if (!(q = requests_add(r, e)))
        return ERR_NOMEM;
    snprintf(q->where, sizeof(q->where), "%.200s: line %zu", r->lines->path, r->lines->number);
    requests_read_request(r, q, line, len);
    *skipped = q->skipped && !q->fault.code;
    if (*skipped)
        leave_out(r, before);
    else
        r->n_answers += q->n - 1;
    return !*skipped && q->fault.code == ERR_NOMEM ? err_nomem(e, "requests") : 0;
}

int requests_read_line(struct requests *r, bool wait, bool *got, struct err *e)
{
    bool skipped = true;
    int rc = 0;

    while (rc == 0 && skipped)
        rc = read_one(r, wait, got, &skipped, e);
    return rc;
}

bool requests_count_lines(const struct requests *r, size_t *n)
{
    char chunk[65536];
    bool blank = true;
    off_t at = 0;
    ssize_t got;

    *n = 0;
    if (!requests_never_wait(r))
        return false;
    while ((got = pread(r->lines->fd, chunk, sizeof(chunk), at)) > 0) {
        at += got;
        for (ssize_t i = 0; i < got; i++) {
            *n += chunk[i] == '\n' && !blank;
            blank = chunk[i] == '\n' || (blank && is_blank(&chunk[i], 1));
        }
    }
    *n += !blank;
    return got == 0;
}

const char *requests_name(const struct requests *r)
{
    return r->lines ? r->lines->path : "--batch";
}

bool requests_never_wait(const struct requests *r)
{
    return r->lines && r->lines->is_file;
}
