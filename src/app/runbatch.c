/* runbatch.c - reads requests, submits them, collects events by request, prints. */
#include "app/runbatch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "app/out.h"
#include "base/err.h"
#include "base/mem.h"

enum { SEQS = 32, AHEAD = 2 * SEQS, DEFAULT_NEW_TOKENS = 512, POLL_MS = 100 };

struct runbatch_item {
    struct runbatch_item *next;
    size_t index;
    char where[256];        /* "F: line 3"; empty: the command line */
    bool is_text, rendered; /* a prompt of text; one that a template wrote, with its own BOS */
    struct buf text;
    struct tok_ids ids; /* the prompt, from submit() on also that of a text */
    json_t *custom_id;
    struct arena arena; /* lists of the sampling */
    struct sampling sampling;
    bool default_limit; /* max_new_tokens is DEFAULT_NEW_TOKENS */
    bool done;
    struct err fault; /* refused or failed */
    struct tok_ids out;
    struct buf answer;
    json_t *logprobs;
    struct gallop_event end;
    char *stop_string; /* in the arena */
};

/* A file of lines, read as far as it is asked for. */
struct runbatch_lines {
    int fd;
    const char *path;
    char *data; /* [cap] */
    size_t begin, end, cap, number;
    bool is_file; /* reading never waits */
    bool eof;
};

/* ---- signals ---- */

static struct {
    volatile sig_atomic_t signal; /* that came first; 0: none */
    struct gallop *volatile engine;
    struct sigaction before_int, before_term;
} stop;

/* The second signal finds the handlers that were there before. */
static void on_signal(int sig)
{
    int saved = errno;

    stop.signal = sig;
    if (stop.engine)
        gallop_cancel(stop.engine, 0);
    sigaction(SIGINT, &stop.before_int, NULL);
    sigaction(SIGTERM, &stop.before_term, NULL);
    errno = saved;
}

static void catch_signals(struct gallop *engine)
{
    struct sigaction sa = {.sa_handler = on_signal};

    stop.signal = 0;
    stop.engine = engine;
    sigaction(SIGINT, NULL, &stop.before_int);
    sigaction(SIGTERM, NULL, &stop.before_term);
    if (stop.before_int.sa_handler != SIG_IGN) /* as under nohup, or in the background of a script */
        sigaction(SIGINT, &sa, NULL);
    if (stop.before_term.sa_handler != SIG_IGN)
        sigaction(SIGTERM, &sa, NULL);
}

static void release_signals(void)
{
    sigaction(SIGINT, &stop.before_int, NULL);
    sigaction(SIGTERM, &stop.before_term, NULL);
    stop.engine = NULL;
}

/* ---- requests ---- */

void runbatch_init(struct runbatch *b)
{
    *b = (struct runbatch){0};
    arena_init(&b->arena, MEM_APP);
    sampling_default(&b->sampling);
}

static void free_item(struct runbatch_item *it)
{
    buf_fini(&it->text);
    tok_ids_fini(&it->ids);
    json_decref(it->custom_id);
    arena_fini(&it->arena);
    tok_ids_fini(&it->out);
    buf_fini(&it->answer);
    json_decref(it->logprobs);
    mem_free(it);
}

static void close_lines(struct runbatch *b)
{
    if (!b->lines)
        return;
    if (b->lines->fd > STDERR_FILENO)
        close(b->lines->fd);
    mem_free(b->lines->data);
    mem_free(b->lines);
    b->lines = NULL;
}

void runbatch_fini(struct runbatch *b)
{
    for (struct runbatch_item *it = b->first, *next; it; it = next) {
        next = it->next;
        free_item(it);
    }
    close_lines(b);
    jinja_free(b->jinja);
    chat_close(b->chat);
    gallop_close(b->engine);
    checkpoint_close(&b->model);
    arena_fini(&b->arena);
}

static struct runbatch_item *add(struct runbatch *b, struct err *e)
{
    struct runbatch_item *it = mem_zalloc(1, sizeof(*it), MEM_APP);

    if (!it) {
        err_nomem(e, "requests");
        return NULL;
    }
    buf_init(&it->text, MEM_APP);
    buf_init(&it->answer, MEM_APP);
    arena_init(&it->arena, MEM_APP);
    it->sampling = b->sampling;
    it->index = b->n++;
    if (b->last)
        b->last->next = it;
    else
        b->first = it;
    b->last = it;
    return it;
}

int runbatch_add_text(struct runbatch *b, const char *text, size_t len, struct err *e)
{
    struct runbatch_item *it = add(b, e);

    if (!it)
        return ERR_NOMEM;
    it->is_text = true;
    buf_add(&it->text, text, len);
    return it->text.oom ? err_nomem(e, "requests") : 0;
}

static bool add_id(struct tok_ids *ids, int32_t id)
{
    if (!mem_grow((void **)&ids->id, &ids->cap, ids->n + 1, sizeof(*ids->id), MEM_TEXT))
        return false;
    ids->id[ids->n++] = id;
    return true;
}

int runbatch_add_ids(struct runbatch *b, const int32_t *ids, size_t n, struct err *e)
{
    struct runbatch_item *it = add(b, e);

    if (!it)
        return ERR_NOMEM;
    for (size_t i = 0; i < n; i++)
        if (!add_id(&it->ids, ids[i]))
            return err_nomem(e, "requests");
    return 0;
}

/* ---- chat templates ---- */

/* The text that the template makes of MESSAGES, a list or an object with more variables. */
static int render(const struct runbatch *b, json_t *messages, struct buf *out, struct err *e)
{
    json_t *context = NULL;
    time_t now = time(NULL);
    struct tm tm;
    int rc;

    localtime_r(&now, &tm);
    if (!b->jinja)
        return chat_render(b->chat, messages, NULL, true, &tm, out, e);
    if ((rc = chat_variables(b->chat, messages, true, &context, e)) == 0)
        rc = jinja_render(b->jinja, context, &tm, out, e);
    json_decref(context);
    return rc;
}

/* Replaces the text of IT by what the template makes of it. */
static int wrap(const struct runbatch *b, struct runbatch_item *it, struct err *e)
{
    json_t *list = json_array(), *user;
    struct buf text = it->text;
    int rc = 0;

    if (b->system)
        json_array_append_new(list, json_pack("{s:s,s:s}", "role", "system", "content", b->system));
    user = json_pack("{s:s,s:s%}", "role", "user", "content", text.data ? text.data : "", text.len);
    if (json_array_append_new(list, user) != 0 || json_array_size(list) != 1 + (b->system != NULL))
        rc = err_nomem(e, "a message");
    buf_init(&it->text, MEM_APP);
    if (rc == 0 && (rc = render(b, list, &it->text, e)) == 0 && it->text.oom)
        rc = err_nomem(e, "a message");
    it->rendered = true;
    json_decref(list);
    buf_fini(&text);
    return rc;
}

static int read_template(struct runbatch *b, const char *path, struct err *e)
{
    struct buf text;
    int rc;

    buf_init(&text, MEM_APP);
    if ((rc = common_read_text(path, &text, e)) == 0)
        rc = jinja_parse(&b->jinja, text.data ? text.data : "", text.len, path, e);
    buf_fini(&text);
    return rc;
}

int runbatch_open_model(struct runbatch *b, struct err *e)
{
    return b->model.in.path ? 0 : checkpoint_open(&b->model, b->folder, e);
}

static int open_chat(struct runbatch *b, struct err *e)
{
    int rc;

    if (b->chat)
        return 0;
    if ((rc = runbatch_open_model(b, e)) != 0 || (rc = checkpoint_chat(&b->chat, &b->model, e)) != 0)
        return rc;
    if (b->template)
        return read_template(b, b->template, e);
    return chat_has_template(b->chat)
               ? 0
               : err_set(e, ERR_INPUT, "%s: this model has no chat template", b->folder.path);
}

int runbatch_open_chat(struct runbatch *b, struct err *e)
{
    int rc = open_chat(b, e);

    for (struct runbatch_item *it = b->first; it && rc == 0; it = it->next)
        rc = wrap(b, it, e);
    return rc;
}

/* ---- lines ---- */

int runbatch_open_lines(struct runbatch *b, const char *path, struct err *e)
{
    struct runbatch_lines *l = mem_zalloc(1, sizeof(*l), MEM_APP);
    struct stat s;

    if (!l)
        return err_nomem(e, "requests");
    b->lines = l;
    l->path = strcmp(path, "-") == 0 ? "standard input" : path;
    l->fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (l->fd < 0)
        return err_os(e, "open", path);
    if (fstat(l->fd, &s) == 0 && S_ISDIR(s.st_mode))
        return err_set(e, ERR_INPUT, "%s: this is a folder; a file of lines is expected", path);
    l->is_file = S_ISREG(s.st_mode);
    return 0;
}

/* True when a read will not wait; with WAIT, waits for that or a signal. */
static bool is_readable(const struct runbatch_lines *l, bool wait)
{
    struct pollfd p = {.fd = l->fd, .events = POLLIN};

    if (l->is_file)
        return true;
    while (!stop.signal) {
        int n = poll(&p, 1, wait ? POLL_MS : 0);

        if (n > 0 || !wait)
            return n > 0;
        if (n < 0 && errno != EINTR)
            return true; /* the read will say what it is */
    }
    return false;
}

static int read_more(struct runbatch_lines *l, struct err *e)
{
    ssize_t n;

    if (l->begin) {
        memmove(l->data, l->data + l->begin, l->end - l->begin);
        l->end -= l->begin;
        l->begin = 0;
    }
    if (l->end > COMMON_FILE_MAX)
        return err_set(e, ERR_INPUT, "%s: line %zu is longer than %d MiB, the most that is read", l->path,
                       l->number + 1, COMMON_FILE_MAX >> 20);
    if (!mem_grow((void **)&l->data, &l->cap, l->end + 65536, 1, MEM_APP))
        return err_nomem(e, l->path);
    do
        n = read(l->fd, l->data + l->end, l->cap - l->end);
    while (n < 0 && errno == EINTR && !stop.signal);
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

/* The next line that is not blank, without its end, to *LINE (NULL: none now, or none any more). */
static int next_line(struct runbatch_lines *l, bool wait, char **line, size_t *len, struct err *e)
{
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
        if (l->eof || !is_readable(l, wait))
            return 0;
        seen = left;
        if ((rc = read_more(l, e)) != 0)
            return rc;
    }
}

/* ---- what a line says ---- */

static int read_ids(struct runbatch_item *it, const json_t *list, struct err *e)
{
    size_t n = json_array_size(list);

    if (!json_is_array(list))
        return err_set(e, ERR_INPUT, "ids is not a list");
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);

        if (!json_is_integer(v) || json_integer_value(v) > INT32_MAX || json_integer_value(v) < INT32_MIN)
            return err_set(e, ERR_INPUT, "ids[%zu] is not a token id", i);
        if (!add_id(&it->ids, (int32_t)json_integer_value(v)))
            return err_nomem(e, "requests");
    }
    return 0;
}

/* Moves KEY out of O; the caller owns it. NULL: not there, or null. */
static json_t *take(json_t *o, const char *key)
{
    json_t *v = json_incref(json_object_get(o, key));

    json_object_del(o, key);
    if (!json_is_null(v))
        return v;
    json_decref(v);
    return NULL;
}

/* OpenAI's names of what has another one here, and fields that ask for what is done anyway. */
static int rename_fields(json_t *o, struct err *e)
{
    static const char *const lengths[] = {"max_tokens", "max_completion_tokens"};
    json_t *v, *top;
    int rc = 0;

    for (int i = 0; i < 2 && rc == 0; i++) {
        if (!(v = take(o, lengths[i])))
            continue;
        if (json_object_get(o, "max_new_tokens"))
            rc = err_set(e, ERR_INPUT, "%s: max_new_tokens is there too, under this or another name",
                         lengths[i]);
        else
            json_object_set(o, "max_new_tokens", v);
        json_decref(v);
    }
    if ((v = take(o, "n")) && rc == 0 && json_integer_value(v) != 1)
        rc = err_set(e, ERR_INPUT, "n: one answer a line is given, expected 1");
    json_decref(v);
    if ((v = take(o, "stream")) && rc == 0 && !json_is_false(v))
        rc = err_set(e, ERR_INPUT, "stream: a line is answered at once, expected false");
    json_decref(v);
    top = take(o, "top_logprobs");
    if (json_is_boolean(v = json_object_get(o, "logprobs"))) {
        bool wanted = json_is_true(v);

        json_object_del(o, "logprobs");
        if (wanted)
            json_object_set_new(o, "logprobs", top ? json_incref(top) : json_integer(0));
    } else if (top && rc == 0) {
        rc = err_set(e, ERR_INPUT, "top_logprobs: expected only beside \"logprobs\": true");
    }
    json_decref(top);
    json_object_del(o, "model"); /* -m names it */
    json_object_del(o, "user");
    return rc;
}

/* The object that the model is asked with: BODY of OpenAI's batch files, or the line itself. New
 * reference. */
static json_t *body_of(struct runbatch_item *it, json_t *o, struct err *e)
{
    json_t *body = json_object_get(o, "body");
    const char *key;
    json_t *v;

    if ((it->custom_id = take(o, "custom_id")) && !json_is_string(it->custom_id)) {
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
        const char *text = json_string_value(v) ? json_string_value(v) : "";

        if (strcmp(key, "body") == 0 || (strcmp(key, "method") == 0 && strcmp(text, "POST") == 0) ||
            (strcmp(key, "url") == 0 &&
             (strcmp(text, "/v1/chat/completions") == 0 || strcmp(text, "/v1/completions") == 0)))
            continue;
        err_set(
            e, ERR_INPUT,
            "%.60s beside body: expected custom_id, method POST, url /v1/chat/completions or /v1/completions",
            key);
        return NULL;
    }
    return json_incref(body);
}

/* The object that a template is given, from the fields of O that are its own. */
static int render_messages(struct runbatch *b, struct runbatch_item *it, json_t *messages, json_t *o,
                           struct err *e)
{
    static const char *const names[] = {"tools", "documents"};
    json_t *all = json_object();
    int rc;

    json_object_set(all, "messages", messages);
    for (int i = 0; i < 2; i++) {
        json_t *v = take(o, names[i]);

        if (v)
            json_object_set_new(all, names[i], v);
    }
    it->is_text = it->rendered = true;
    if (!json_is_array(messages) || json_array_size(messages) == 0)
        rc = err_set(e, ERR_INPUT, "messages is not a list of messages");
    else if ((rc = open_chat(b, e)) == 0 && (rc = render(b, all, &it->text, e)) == 0 && it->text.oom)
        rc = err_nomem(e, "a message");
    json_decref(all);
    return rc;
}

static int read_prompt(struct runbatch *b, struct runbatch_item *it, json_t *o, struct err *e)
{
    json_t *prompt = take(o, "prompt"), *ids = take(o, "ids"), *messages = take(o, "messages");
    int rc = 0;

    if ((prompt != NULL) + (ids != NULL) + (messages != NULL) != 1) {
        rc = err_set(e, ERR_INPUT, "one of prompt, ids and messages is expected");
    } else if (ids) {
        rc = read_ids(it, ids, e);
    } else if (messages) {
        rc = render_messages(b, it, messages, o, e);
    } else if (!json_is_string(prompt)) {
        rc = err_set(e, ERR_INPUT, "prompt is not a string");
    } else {
        it->is_text = true;
        buf_add(&it->text, json_string_value(prompt), json_string_length(prompt));
        rc = it->text.oom ? err_nomem(e, "requests") : b->chat_prompts ? wrap(b, it, e) : 0;
    }
    json_decref(prompt);
    json_decref(ids);
    json_decref(messages);
    return rc;
}

/* Fills IT from its line; what is wrong is its fault, with the line's number. */
static void read_request(struct runbatch *b, struct runbatch_item *it, const char *line, size_t len)
{
    struct err *e = &it->fault;
    json_t *o = NULL, *body = NULL;
    json_error_t je;

    if (common_utf8(it->where, line, len, e) != 0)
        return;
    o = json_loadb(line, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &je);
    if (!o)
        err_set(e, ERR_INPUT, "%s: column %d: %s", it->where, je.column, je.text);
    else if (!json_is_object(o))
        err_set(e, ERR_INPUT, "%s: an object is expected", it->where);
    else if (!(body = body_of(it, o, e)) || read_prompt(b, it, body, e) != 0 || rename_fields(body, e) != 0)
        err_prefix(e, "%s", it->where);
    else
        sampling_set_json(&it->sampling, body, it->where, &it->arena, e);
    json_decref(body);
    json_decref(o);
}

/* Takes the next line if there is one; WAIT: waits for it. *GOT: there was. */
static int add_line(struct runbatch *b, bool wait, bool *got, struct err *e)
{
    struct runbatch_item *it;
    char *line;
    size_t len;
    int rc = next_line(b->lines, wait, &line, &len, e);

    *got = line != NULL;
    if (rc || !line)
        return rc;
    if (!(it = add(b, e)))
        return ERR_NOMEM;
    snprintf(it->where, sizeof(it->where), "%.200s: line %zu", b->lines->path, b->lines->number);
    read_request(b, it, line, len);
    return it->fault.code == ERR_NOMEM ? err_nomem(e, "requests") : 0;
}

int runbatch_size(struct runbatch *b, struct gallop_options *o, struct err *e)
{
    bool got = b->lines && b->lines->is_file;
    int rc = 0;

    while (got && b->n < SEQS && rc == 0)
        rc = add_line(b, false, &got, e);
    if (rc == 0 && b->n == 0 && (!b->lines || b->lines->is_file))
        return err_set(e, ERR_INPUT, "%s: the batch holds no request", b->lines ? b->lines->path : "--batch");
    o->max_num_seqs = b->lines && !b->lines->is_file ? SEQS : (int64_t)b->n;
    return rc;
}

/* ---- running ---- */

/* The limit of a request that has none: the model's own, else ours. */
static void limit(struct runbatch *b, struct runbatch_item *it)
{
    const struct sampling *config = gallop_config(b->engine);
    struct sampling *s = &it->sampling;

    if (sampling_given(s, SAMPLING_MAX_NEW_TOKENS) || sampling_given(config, SAMPLING_MAX_NEW_TOKENS) ||
        sampling_given(config, SAMPLING_MAX_LENGTH))
        return;
    s->max_new_tokens = DEFAULT_NEW_TOKENS;
    if (sampling_given(s, SAMPLING_MIN_NEW_TOKENS) && s->min_new_tokens > DEFAULT_NEW_TOKENS)
        s->max_new_tokens = s->min_new_tokens;
    sampling_mark(s, SAMPLING_MAX_NEW_TOKENS);
    it->default_limit = true;
}

static void submit(struct runbatch *b, struct runbatch_item *it)
{
    const struct tok *tok = gallop_llm(b->engine)->tok;
    unsigned flags = b->no_special || it->rendered ? 0 : TOK_ADD_SPECIAL; /* a template writes its own BOS */
    struct gallop_request r;

    if (it->is_text && tok && !it->fault.code)
        tok_encode(tok, it->text.data ? it->text.data : "", it->text.len, flags, &it->ids, &it->fault);
    gallop_request_init(&r);
    r.text = it->is_text && !tok ? "" : NULL; /* the engine says what is missing */
    r.ids = it->ids.id;
    r.n_ids = it->ids.n;
    r.keep_special = b->keep_special;
    r.user = it;
    if (!it->fault.code) {
        limit(b, it);
        gallop_submit_sampling(b->engine, &r, &it->sampling, NULL, &it->fault);
        if (it->fault.code && it->where[0])
            err_prefix(&it->fault, "%s", it->where);
    }
    it->done = it->fault.code != 0;
    b->n_open += !it->done;
}

static void take_logprob(struct runbatch_item *it, const struct gallop_event *ev)
{
    json_t *top = json_array(), *o;

    if (!it->logprobs)
        it->logprobs = json_array();
    for (size_t i = 0; i < ev->n_top; i++)
        json_array_append_new(top, json_pack("[i,f]", (int)ev->top[i].id, (double)ev->top[i].logprob));
    o = json_pack("{s:i,s:f,s:o}", "id", (int)ev->token, "logprob", (double)ev->logprob, "top", top);
    json_array_append_new(it->logprobs, o);
}

static void take_event(struct runbatch *b, const struct gallop_event *ev)
{
    struct runbatch_item *it = ev->user;

    switch (ev->type) {
    case GALLOP_TOKEN:
        add_id(&it->out, ev->token);
        if (it->sampling.logprobs >= 0 && b->json)
            take_logprob(it, ev);
        break;
    case GALLOP_TEXT:
        buf_add(&it->answer, ev->text, ev->text_len);
        if (b->stream && !b->json)
            out_bytes(ev->text, ev->text_len);
        break;
    case GALLOP_FINISHED:
        it->end = *ev;
        it->done = true;
        b->n_open--;
        if (ev->stop_string)
            it->stop_string = arena_strndup(&it->arena, ev->stop_string, strlen(ev->stop_string));
        if (ev->error)
            err_set(&it->fault, ERR_INPUT, "%s", ev->error);
        if (ev->error && it->where[0])
            err_prefix(&it->fault, "%s", it->where);
    }
}

/* ---- printing ---- */

static json_t *ids_json(const struct tok_ids *ids)
{
    json_t *a = json_array();

    for (size_t i = 0; i < ids->n; i++)
        json_array_append_new(a, json_integer(ids->id[i]));
    return a;
}

static void print_json(struct runbatch *b, const struct runbatch_item *it)
{
    const struct gallop_event *ev = &it->end;
    json_t *o = json_object();

    json_object_set_new(o, "index", json_integer((json_int_t)it->index));
    if (it->custom_id)
        json_object_set(o, "custom_id", it->custom_id);
    if (it->fault.code) {
        json_object_set_new(o, "error", json_string(it->fault.msg));
        common_print_json(o);
        return;
    }
    json_object_set_new(o, "prompt_ids", ids_json(&it->ids));
    json_object_set_new(o, "output_ids", ids_json(&it->out));
    if (gallop_llm(b->engine)->tok)
        json_object_set_new(o, "text", json_stringn(it->answer.data ? it->answer.data : "", it->answer.len));
    json_object_set_new(o, "finish_reason",
                        json_string(ev->finish == GALLOP_FINISH_LENGTH ? "length" : "stop"));
    json_object_set_new(o, "stop_reason",
                        it->stop_string       ? json_string(it->stop_string)
                        : ev->stop_token >= 0 ? json_integer(ev->stop_token)
                                              : json_null());
    if (it->logprobs)
        json_object_set(o, "logprobs", it->logprobs);
    json_object_set_new(o, "timing",
                        json_pack("{s:f,s:f,s:f,s:I,s:I}", "load_s", gallop_llm(b->engine)->load_s,
                                  "prefill_s", ev->prefill_s, "decode_s", ev->decode_s, "prompt_tokens",
                                  (json_int_t)ev->n_prompt, "output_tokens", (json_int_t)ev->n_output));
    common_print_json(o);
}

/* Remarks about the request IT on stderr. */
static void say(struct runbatch *b, const struct runbatch_item *it)
{
    char which[300] = "";

    if (it->where[0])
        snprintf(which, sizeof(which), "%s: ", it->where);
    if (it->fault.code)
        log_error("%s", it->fault.msg);
    else if (it->end.context_full)
        log_warn("%sthe context of %zu tokens is full after %zu new tokens", which,
                 gallop_llm(b->engine)->max_len, it->end.n_output);
    else if (it->default_limit && it->end.finish == GALLOP_FINISH_LENGTH)
        log_warn("%scut after %zu new tokens; -n sets another limit", which, it->end.n_output);
}

static void print_text(struct runbatch *b, const struct runbatch_item *it)
{
    bool is_text = gallop_llm(b->engine)->tok != NULL;

    if (b->stream && is_text) { /* it was printed as it came */
        if (it->answer.len)
            out_text("\n");
        return;
    }
    if (it->fault.code)
        return;
    if (!b->stream)
        out_fmt("--- %zu\n", it->index);
    if (is_text)
        out_bytes(it->answer.data, it->answer.len);
    for (size_t i = 0; i < it->out.n && !is_text; i++) /* nothing else can be shown */
        out_fmt(i ? ",%d" : "%d", (int)it->out.id[i]);
    out_text("\n");
}

/* One result; of a cancelled request only the end of the line that stands there. */
static void print(struct runbatch *b, const struct runbatch_item *it)
{
    bool cancelled = !it->fault.code && it->end.finish == GALLOP_FINISH_CANCELLED;

    if (cancelled && !b->stream)
        return;
    if (!cancelled)
        say(b, it);
    b->n_failed += it->fault.code != 0;
    if (!b->json)
        print_text(b, it);
    else if (!cancelled)
        print_json(b, it);
}

/* Prints what is finished and may be printed, and forgets it: JSON comes in input order. */
static void print_ready(struct runbatch *b)
{
    struct runbatch_item **at = &b->first, *before = NULL;

    while (*at) {
        struct runbatch_item *it = *at;

        if (it->done) {
            print(b, it);
            *at = it->next;
            b->last = b->last == it ? before : b->last;
            free_item(it);
        } else if (b->json) {
            return;
        } else {
            before = it;
            at = &it->next;
        }
    }
}

/* Keeps the engine supplied: lines that are there, and when nothing runs, the next one. */
static int supply(struct runbatch *b, struct err *e)
{
    bool got = true;
    int rc = 0;

    while (b->lines && got && rc == 0 && b->n_open < AHEAD && !stop.signal) {
        struct runbatch_item *before = b->last;

        if ((rc = add_line(b, b->n_open == 0, &got, e)) == 0 && got)
            submit(b, b->last);
        if (b->last != before && b->last->done) /* refused: nobody waits to hear it */
            break;
        if (rc == 0 && !got && b->lines->eof)
            close_lines(b);
    }
    return rc;
}

/* Until all is answered. Closing the engine drops what still runs after an error. */
static int work(struct runbatch *b, struct err *e)
{
    struct gallop_event ev;
    int rc = 0;

    for (bool more = true; more || (b->lines && !stop.signal);) {
        if (stop.signal) /* also what was submitted while it came */
            gallop_cancel(b->engine, 0);
        print_ready(b);
        if ((rc = out_flush(e)) != 0 ||
            (rc = supply(b, e)) != 0) /* what is there is out before supply() waits */
            return rc;
        more = gallop_next(b->engine, &ev) != 0;
        if (more)
            take_event(b, &ev);
    }
    print_ready(b);
    return out_flush(e);
}

int runbatch_run(struct runbatch *b, struct err *e)
{
    int rc;

    catch_signals(b->engine);
    for (struct runbatch_item *it = b->first; it; it = it->next)
        submit(b, it);
    rc = work(b, e);
    release_signals();
    b->signal = (int)stop.signal;
    if (rc == 0 && b->n == 0 && !b->signal)
        return err_set(e, ERR_INPUT, "--batch: there is no request in it");
    return rc ? rc : b->n_failed || b->signal ? -1 : 0;
}
