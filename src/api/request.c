/* request.c - the life of a call: it comes, is prepared, gathers what the engine says, is answered, and
 * goes. */
#include "api/request.h"

#include <stdio.h>
#include <string.h>

#include "api/answer.h"
#include "api/crash_table.h"
#include "api/prepare.h"
#include "api/routes.h"
#include "api/status.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/dense.h"

enum {
    MOST_UNSENT = 64 << 10, /* bytes on their way; then events wait, and what waits becomes one */
    MOST_BATCHES = 8,       /* steps that are taken at once, before sockets have their turn */
    MOST_AT_ONCE = 2048,    /* numbers of an answer that are written between two streams: below 1 ms */
};

const char request_over_memory[] =
    "requests hold as much memory as this server gives them (--max-request-memory); come back later";

/* ---- coming and going ---- */

static void copy_header(struct server_exchange *x, const char *name, char *out, size_t size)
{
    const char *value = http_head_get(server_head(x), name);

    snprintf(out, size, "%s", value ? value : "");
}

bool request_is_id(const char *id)
{
    size_t n = 0;

    while ((unsigned char)id[n] > 0x20 && (unsigned char)id[n] < 0x7f && n <= REQUEST_ID_SENT)
        n++;
    return n > 0 && n <= REQUEST_ID_SENT && !id[n];
}

/* Lower case digits and dashes where the form has them; ids of zeros alone are none. */
void request_trace(struct server_exchange *x, char out[REQUEST_TRACE])
{
    static const char form[] = "00-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";
    const char *value = http_head_get(server_head(x), "traceparent");
    bool is_trace;
    size_t n = 0;

    _Static_assert(sizeof(form) == REQUEST_TRACE, "a traceparent of version 00");
    while (value && form[n] && value[n] &&
           (form[n] == 'x' ? strchr("0123456789abcdef", value[n]) != NULL : value[n] == form[n]))
        n++;
    is_trace = value && !form[n] && !value[n] && strspn(value + 3, "0") < 32 && strspn(value + 36, "0") < 16;
    snprintf(out, REQUEST_TRACE, "%s", is_trace ? value : "");
}

/* A name that is none is not repeated; the front refuses it. */
static void name_by_header(struct request *c)
{
    copy_header(c->x, "x-request-id", c->request_id, REQUEST_ID_SENT + 2); /* one too long is seen to be so */
    c->named = request_is_id(c->request_id);
    c->misnamed = c->request_id[0] && !c->named;
    if (c->named)
        snprintf(c->id, sizeof(c->id), "%s%s", c->form->prefix, c->request_id);
    else
        c->request_id[0] = 0;
}

/* ---- places of the queue ---- */

static size_t all_places(const struct api *a)
{
    return a->opt.max_running + a->opt.max_queued;
}

size_t request_most_places(const struct api *a)
{
    size_t most = all_places(a);

    return a->opt.fair && most > 1 ? most - most / 4 - (most % 4 != 0) : most;
}

/* Takes N more places of the queue for KEY, under the lock. ANY: the fair share of KEY is not checked, for a
 * request whose user is not known yet. */
static bool take_places(struct api *a, uint32_t key, size_t n, bool any)
{
    size_t held = atomic_load(&a->n_reserved), most = all_places(a), left = most > held ? most - held : 0;

    if (n > left ||
        (a->opt.fair && !any && a->places_of[key] + n > 1 && a->places_of[key] + n > 3 * (left - n)))
        return false;
    atomic_fetch_add(&a->n_reserved, n);
    a->places_of[key] += n;
    return true;
}

static void give_places(struct api *a, uint32_t key, size_t n)
{
    atomic_fetch_sub(&a->n_reserved, n);
    a->places_of[key] -= n;
}

/* The first place of a request. Without an API key its user is not known yet. */
static bool take_first(struct api *a, const char *key)
{
    bool good;

    pthread_mutex_lock(&a->places_lock);
    good = take_places(a, engine_fair_key(key, strlen(key)), 1, !key[0]);
    pthread_mutex_unlock(&a->places_lock);
    return good;
}

static void give_first(struct api *a, const char *key)
{
    pthread_mutex_lock(&a->places_lock);
    give_places(a, engine_fair_key(key, strlen(key)), 1);
    pthread_mutex_unlock(&a->places_lock);
}

bool request_settle(struct request *c, uint32_t key, size_t n)
{
    struct api *a = c->api;
    bool good;

    pthread_mutex_lock(&a->places_lock);
    give_places(a, c->place_key, 1);
    good = take_places(a, key, n, false);
    if (good) {
        c->place_key = key;
        c->n_reserved = n;
    } else {
        take_places(a, c->place_key, 1, true);
    }
    pthread_mutex_unlock(&a->places_lock);
    return good;
}

void request_leave_places(struct request *c, size_t n)
{
    pthread_mutex_lock(&c->api->places_lock);
    give_places(c->api, c->place_key, n);
    c->n_reserved -= n;
    pthread_mutex_unlock(&c->api->places_lock);
}

static struct request *new_call(struct api *a, struct server_exchange *x, const struct route *r)
{
    struct request *c = mem_zalloc(1, sizeof(*c), MEM_API);

    if (!c)
        return NULL;
    c->job.run = prepare_request;
    c->api = a;
    c->x = x;
    c->endpoint = r->endpoint;
    c->route = r->path;
    c->form = r->form ? r->form : &answer_completions_form;
    c->arrival_s = c->sent_s = clock_seconds();
    c->created = (int64_t)time(NULL);
    c->n_reserved = 1;
    c->busy = true;
    arena_init(&c->arena, MEM_API);
    buf_init(&c->reply, MEM_API);
    c->body_bytes = server_take_body(x, &c->body);
    name_by_header(c);
    request_trace(x, c->trace);
    snprintf(c->peer, sizeof(c->peer), "%s", server_peer(x));
    routes_key(a, x, c->key);
    c->place_key = engine_fair_key(c->key, strlen(c->key));
    c->link = &a->first;
    c->next = a->first;
    if (c->next)
        c->next->link = &c->next;
    a->first = c;
    a->n_calls++;
    server_set_user(x, c);
    return c;
}

static void free_tokens(struct request_tokens *t)
{
    mem_free(t->v);
    mem_free(t->top);
}

static void free_lists(struct request_lists *l)
{
    buf_fini(&l->offset);
    buf_fini(&l->logprob);
    buf_fini(&l->token);
    buf_fini(&l->top);
}

static void destroy(struct request *c)
{
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    c->api->n_calls--;
    crash_table_end(c);
    request_leave_places(c, c->n_reserved);
    if (c->body_bytes)
        server_release_body(c->api->server, c->body_bytes);
    for (size_t i = 0; i < c->n_prompts * c->n; i++) {
        free_tokens(&c->choice[i].tokens);
        buf_fini(&c->choice[i].text);
        buf_fini(&c->choice[i].reasoning);
        buf_fini(&c->choice[i].calls);
        buf_fini(&c->choice[i].held);
        buf_fini(&c->choice[i].head);
        buf_fini(&c->choice[i].said);
        buf_fini(&c->choice[i].items);
        parser_close(c->choice[i].parts);
        tok_stream_free(c->choice[i].pieces);
        mem_free(c->choice[i].stop_string);
    }
    for (size_t i = 0; i < c->n_prompts; i++) {
        free_tokens(&c->prompt[i].scored);
        free_lists(&c->prompt[i].lists);
        mem_free(c->prompt[i].embedding);
        buf_fini(&c->prompt[i].text);
        tok_ids_fini(&c->prompt[i].ids);
    }
    fields_fini(&c->f);
    buf_fini(&c->body);
    buf_fini(&c->reply);
    arena_fini(&c->arena);
    mem_free(c);
}

/* Whether the key of X has no request left, or no token; it is refused then. */
static bool is_beyond_limit(struct api *a, struct server_exchange *x, const struct route *r)
{
    char key[KEYS_NAME];
    double wait_s;

    routes_key(a, x, key);
    wait_s = key[0] ? keys_take(a->opt.keys, key, clock_seconds()) : 0;
    if (wait_s > 0)
        routes_limit(a, x, r->path, key, wait_s);
    return wait_s > 0;
}

static void refuse_memory(struct api *a, struct server_exchange *x, const struct route *r)
{
    bool over = mem_over_budget();

    atomic_fetch_add(&a->n_over_memory, over);
    routes_refuse(a, x, r->path, over ? 429 : 503, over ? request_over_memory : "out of memory", NULL);
}

void request_start(struct api *a, struct server_exchange *x, const struct route *r)
{
    char key[KEYS_NAME];
    struct request *c;

    routes_key(a, x, key);

    if (a->draining) {
        routes_refuse(a, x, r->path, 503, "the server is shutting down", NULL);
        return;
    }
    if (a->opt.max_queued_tokens && atomic_load(&a->n_waiting_tokens) >= a->opt.max_queued_tokens) {
        routes_refuse(a, x, r->path, 429, "too many tokens of prompts wait; come back later", NULL);
        return;
    }
    if (!take_first(a, key)) {
        routes_refuse(a, x, r->path, 429, "the queue is full; come back later", NULL);
        return;
    }
    if (is_beyond_limit(a, x, r)) {
        give_first(a, key);
        return;
    }
    mem_over_budget();
    mem_charge(MEM_CHARGE_NEW);
    c = new_call(a, x, r);
    mem_charge(MEM_CHARGE_NONE);
    if (c) {
        workers_add(&a->front, &c->job);
    } else {
        give_first(a, key);
        refuse_memory(a, x, r);
    }
}

/* ---- what the engine says ---- */

static bool add_token(struct request_tokens *t, const struct engine_thread_batch *b,
                      const struct engine_thread_event *r)
{
    const struct gallop_event *ev = &r->ev;

    if (!mem_grow((void **)&t->v, &t->cap, t->n + 1, sizeof(*t->v), MEM_API) ||
        !mem_grow((void **)&t->top, &t->cap_top, t->n_top + ev->n_top, sizeof(*t->top), MEM_API))
        return false;
    t->v[t->n++] = (struct request_token){ev->token, ev->logprob, ev->rank, t->n_top, ev->n_top};
    if (ev->n_top)
        memcpy(t->top + t->n_top, b->top + r->top, ev->n_top * sizeof(*t->top));
    t->n_top += ev->n_top;
    return true;
}

static bool take_token(struct request *c, struct request_choice *h, const struct engine_thread_batch *b,
                       const struct engine_thread_event *r)
{
    struct metrics *m = &c->api->metrics;

    if (c->first_s == 0)
        c->first_s = b->now_s;
    if (h->n_output++ == 0)
        metrics_observe(m, METRICS_TTFT, b->now_s - c->arrival_s);
    else
        metrics_observe(m, METRICS_ITL, b->now_s - h->last_s);
    if (c->row)
        atomic_fetch_add_explicit(&c->row->n_output, 1, memory_order_relaxed);
    h->last_s = b->now_s;
    h->logprob += r->ev.logprob;
    h->n_new++;
    return !c->keep_tokens || add_token(&h->tokens, b, r);
}

static void observe_end(struct request *c, const struct engine_thread_batch *b, const struct gallop_event *ev)
{
    static const enum metrics_end ends[] = {[GALLOP_FINISH_STOP] = METRICS_STOP,
                                            [GALLOP_FINISH_LENGTH] = METRICS_LENGTH,
                                            [GALLOP_FINISH_CANCELLED] = METRICS_ABORT,
                                            [GALLOP_FINISH_ERROR] = METRICS_ERROR,
                                            [GALLOP_FINISH_DEADLINE] = METRICS_ABORT};
    double all = b->now_s - c->arrival_s, inference = ev->prefill_s + ev->decode_s;
    struct metrics *m = &c->api->metrics;

    m->ended[ends[ev->finish]]++;
    if (ev->choice == 0) { /* further answers find the rows of the first */
        m->prompt_tokens += ev->n_prompt;
        m->cached_tokens += ev->n_cached;
        metrics_observe(m, METRICS_PROMPT_TOKENS, (double)ev->n_prompt);
    }
    metrics_observe(m, METRICS_E2E, all);
    metrics_observe(m, METRICS_QUEUE, all > inference ? all - inference : 0);
    metrics_observe(m, METRICS_INFERENCE, inference);
    metrics_observe(m, METRICS_PREFILL, ev->prefill_s);
    metrics_observe(m, METRICS_DECODE, ev->decode_s);
    metrics_observe(m, METRICS_GENERATION_TOKENS, (double)ev->n_output);
    if (ev->n_output > 1)
        metrics_observe(m, METRICS_TPOT, ev->decode_s / (double)(ev->n_output - 1));
    c->api->mean_s = c->api->mean_s > 0 ? 0.9 * c->api->mean_s + 0.1 * all : all;
}

/* A stop string or a stop token of the request has ended the answer, not the model. */
static bool is_stopped(const struct request *c, const struct gallop_event *ev)
{
    for (size_t i = 0; i < c->n_ends_of_call; i++)
        if (ev->stop_token == c->end_of_call[i])
            return false;
    return ev->stop_string || ev->stop_token >= 0;
}

static bool take_end(struct request *c, struct request_prompt *p, struct request_choice *h,
                     const struct engine_thread_batch *b, const struct engine_thread_event *r)
{
    const struct gallop_event *ev = &r->ev;

    h->ended = true;
    h->finish = h->lost ? GALLOP_FINISH_ERROR : ev->finish;
    h->stop_token = ev->stop_token;
    h->prefill_s = ev->prefill_s;
    h->decode_s = ev->decode_s;
    h->forbids_all = ev->forbids_all;
    if (answer_take_end(c, h, ev->finish, is_stopped(c, ev)) != 0)
        h->finish = GALLOP_FINISH_ERROR;
    if (ev->choice == 0)
        p->n_cached = ev->n_cached;
    p->n_open--;
    if (!c->busy)
        c->n_open--;
    request_leave_places(c, 1);
    if (c->key[0])
        keys_charge(c->api->opt.keys, c->key, (double)(ev->n_output + (ev->choice == 0 ? ev->n_prompt : 0)),
                    b->now_s);
    observe_end(c, b, ev);
    if (!ev->stop_string && !ev->error)
        return true;
    h->stop_string = mem_strndup(b->text + r->text, ev->text_len, MEM_API);
    return h->stop_string != NULL;
}

static bool take_embedding(struct request_prompt *p, const struct engine_thread_batch *b,
                           const struct engine_thread_event *r)
{
    p->embedding = mem_alloc(r->ev.text_len, MEM_API);
    if (!p->embedding)
        return false;
    memcpy(p->embedding, b->text + r->text, r->ev.text_len);
    p->n_embedding = r->ev.n_embedding;
    return true;
}

static struct request_choice *choice_of(const struct gallop_event *ev)
{
    const struct request_prompt *p = ev->user;
    const struct request *c = p->call;

    return &c->choice[(size_t)(p - c->prompt) * c->n + ev->choice];
}

/* The call is there, as its end was not told yet. */
void request_lost(const struct gallop_event *ev)
{
    choice_of(ev)->lost = true;
}

static void take_event(const struct engine_thread_batch *b, const struct engine_thread_event *r,
                       struct request **touched)
{
    struct request_prompt *p = r->ev.user;
    struct request *c = p->call;
    struct request_choice *h = choice_of(&r->ev);
    bool good = true;

    if (r->ev.type == GALLOP_TOKEN || r->ev.type == GALLOP_FINISHED)
        prepare_waits_no_more(p);
    mem_charge(MEM_CHARGE_OLD);
    switch (r->ev.type) {
    case GALLOP_TOKEN: good = take_token(c, h, b, r); break;
    case GALLOP_TEXT:
        good = r->ev.text_len == 0 || answer_take(c, h, b->text + r->text, r->ev.text_len) == 0;
        break;
    case GALLOP_EMBEDDING: good = take_embedding(p, b, r); break;
    case GALLOP_PROMPT_TOKEN: good = add_token(&p->scored, b, r); break;
    case GALLOP_FINISHED: good = take_end(c, p, h, b, r); break;
    }
    mem_charge(MEM_CHARGE_NONE);
    if (!good || h->text.oom)
        h->lost = true;
    if (h->lost) {
        h->finish = h->ended ? GALLOP_FINISH_ERROR : h->finish;
        request_abort(c);
    }
    if (!c->touched) {
        c->touched = true;
        c->next_touched = *touched;
        *touched = c;
    }
}

/* ---- answering ---- */

/* The tokens of C's answers, and those of its prompts that the prefix cache had. */
static void count_tokens(const struct request *c, size_t *n_output, size_t *n_cached)
{
    *n_output = *n_cached = 0;
    for (size_t i = 0; i < c->n_prompts * c->n; i++)
        *n_output += c->choice[i].n_output;
    for (size_t i = 0; i < c->n_prompts; i++)
        *n_cached += c->prompt[i].n_cached;
}

static void log_call(const struct request *c, int status)
{
    bool known = !c->busy; /* else its parts are still the front's */
    double all = clock_seconds() - c->arrival_s, first = c->first_s > 0 ? c->first_s - c->arrival_s : 0;
    size_t n_prompt = known ? c->n_prompt_tokens : 0, n_cached = 0, n_output = 0, n = 11;
    const char *id = known || c->named ? c->request_id : "";
    const char *reason = status == 499 ? "the client closed the connection" : known ? c->reason : "";
    char seed[40] = "";
    struct log_field field[13];

    metrics_count_http(&c->api->metrics, c->route, "POST", status);
    if (c->api->opt.quiet)
        return;
    if (known)
        count_tokens(c, &n_output, &n_cached);
    memcpy(field,
           (struct log_field[]){{"client", c->peer, 0, 0},
                                {"method", "POST", 0, 0},
                                {"path", c->route, 0, 0},
                                {"status", NULL, status, 0},
                                {"prompt_tokens", NULL, (double)n_prompt, 0},
                                {"cached_tokens", NULL, (double)n_cached, 0},
                                {"output_tokens", NULL, (double)n_output, 0},
                                {"first_token_seconds", NULL, first, 6},
                                {"seconds", NULL, all, 6},
                                {"request_id", id, 0, 0},
                                {"traceparent", c->trace, 0, 0}},
           n * sizeof(*field));
    if (known && c->drew_seed) {
        snprintf(seed, sizeof(seed), "seed %llu, ", (unsigned long long)c->seed);
        field[n++] = (struct log_field){"seed", NULL, (double)c->seed, 0};
    }
    if (reason[0])
        field[n++] = (struct log_field){"reason", reason, 0, 0};
    log_fields(LOG_INFO, field, n,
               "%s \"POST %s\" %d %zu+%zu tokens, %zu cached, %.3f s, first %.3f s, %s%s%s%s%s%s", c->peer,
               c->route, status, n_prompt, n_output, n_cached, all, first, seed, id[0] ? id : "-",
               c->trace[0] ? ", " : "", c->trace, reason[0] ? ": " : "", reason);
}

/* The lines of its own that an answer to C has. */
static void make_headers(const struct request *c, int status, char *out, size_t size)
{
    int n = c->request_id[0] ? snprintf(out, size, "X-Request-Id: %s\r\n", c->request_id) : 0;
    char limits[STATUS_LIMITS];

    out[n] = 0;
    if (status == 429 || status == 503)
        n += snprintf(out + n, size - (size_t)n, "Retry-After: %.0f\r\n", status_retry_s(c->api));
    status_limits(c->api, c->key, limits);
    snprintf(out + n, size - (size_t)n, "%s", limits);
}

/* X is answered: nobody waits any more. */
static struct server_exchange *take_exchange(struct request *c)
{
    struct server_exchange *x = c->x;

    server_set_user(x, NULL);
    c->x = NULL;
    return x;
}

static void reply(struct request *c, int status, struct buf *body)
{
    char headers[320 + STATUS_LIMITS];

    make_headers(c, status, headers, sizeof(headers));
    log_call(c, status);
    c->api->metrics.n_refused += status == 429 || status == 503;
    if (body == &c->reply) /* which may be large, and nobody needs any more */
        server_give(take_exchange(c), status, headers, "application/json", body);
    else
        server_reply(take_exchange(c), status, headers, "application/json", body->data ? body->data : "",
                     body->len);
}

/* What ends a call that cannot be answered as it was asked. 0: nothing. */
static int fault_of(const struct request *c, const char **sentence)
{
    for (size_t i = 0; i < c->n_prompts * c->n; i++) {
        const struct request_choice *h = &c->choice[i];

        *sentence = h->stop_string && !h->lost ? h->stop_string : "out of memory";
        if (h->ended && h->finish == GALLOP_FINISH_ERROR)
            return h->forbids_all && !h->lost ? 400 : 500;
        *sentence = "the request took longer than this server allows";
        if (h->ended && h->finish == GALLOP_FINISH_DEADLINE)
            return 504;
        *sentence = "the request was ended before its embeddings were computed"; /* a vector says not so */
        if (h->ended && h->finish == GALLOP_FINISH_CANCELLED && c->endpoint & FIELDS_POOLED)
            return 503;
    }
    return 0;
}

/* Of C, which forbids every token. */
static const char *forbidding_field(const struct request *c)
{
    return c->f.allowed ? "allowed_token_ids" : c->f.bad_words ? "bad_words" : "min_tokens";
}

/* What a form writes to OUT from here on. */
static void begin_answer(struct buf *out)
{
    buf_clear(out);
    mem_lib_failed();
}

/* Something of it is missing, in OUT or in what jansson made for it. */
static bool lacks_memory(struct buf *out)
{
    out->oom |= mem_lib_failed();
    return out->oom;
}

/* The whole answer to OUT. Returns its status. */
static int write_answer(struct request *c, struct buf *out)
{
    const char *sentence;
    int status;

    begin_answer(out);
    status = fault_of(c, &sentence);
    if (status) {
        dialect_reason(sentence, c->reason, sizeof(c->reason));
        c->form->error(out, status, sentence, status == 400 ? forbidding_field(c) : NULL);
    } else {
        c->form->whole(c, out);
    }
    if (lacks_memory(out)) {
        dialect_reason("out of memory", c->reason, sizeof(c->reason));
        buf_clear(out);
        status = 503;
        c->form->error(out, status, "out of memory", NULL);
    }
    return status ? status : 200;
}

/* On a thread of the front. */
static void write_reply(struct workers_job *job)
{
    struct request *c = (struct request *)(void *)job;

    mem_charge(MEM_CHARGE_OLD);
    c->status = write_answer(c, &c->reply);
    mem_charge(MEM_CHARGE_NONE);
}

/* Vectors or log-probabilities are many, or vectors have still to pass Dense modules. */
static bool is_large(const struct request *c)
{
    size_t n = 0;

    if (c->endpoint & FIELDS_POOLED && c->api->opt.dense && c->api->opt.dense->n)
        return true;
    for (size_t i = 0; i < c->n_prompts; i++)
        n += c->prompt[i].n_embedding + c->prompt[i].scored.n + c->prompt[i].scored.n_top;
    for (size_t i = 0; i < c->n_prompts * c->n; i++)
        n += c->choice[i].tokens.n + c->choice[i].tokens.n_top;
    return n > MOST_AT_ONCE;
}

/* Everything is computed: the answer is sent, or written by the front first, and sent then. */
static void answer(struct request *c)
{
    if (c->n_open || !c->x)
        return;
    if (is_large(c)) {
        c->busy = true;
        c->job.run = write_reply;
        workers_add(&c->api->front, &c->job);
    } else {
        int status = write_answer(c, &c->api->scratch);

        reply(c, status, &c->api->scratch);
    }
}

static void begin_stream(struct request *c)
{
    char headers[320 + STATUS_LIMITS];

    make_headers(c, 200, headers, sizeof(headers));
    strcat(headers, "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n");
    server_begin(c->x, 200, headers, c->form->type);
    c->begun = true;
}

/* A stream with a hole in it would be taken for a whole one. */
static void cut_stream(struct request *c)
{
    log_warn("%s: a stream is cut: out of memory", c->peer);
    log_call(c, 500);
    server_cut(take_exchange(c));
    request_abort(c);
}

static void end_stream(struct request *c, struct buf *out)
{
    const char *sentence;
    int status = fault_of(c, &sentence);

    if (status)
        dialect_reason(sentence, c->reason, sizeof(c->reason));
    c->form->end(c, status, sentence, out);
    if (lacks_memory(out)) {
        cut_stream(c);
        return;
    }
    log_call(c, status ? status : 200);
    server_send(c->x, out->data, out->len);
    server_end(take_exchange(c));
}

/* In front of the first token, which is there; or of an answer that has none. */
static void introduce(struct request *c, struct buf *out)
{
    if (!c->introduced && c->form->introduce)
        c->form->introduce(c, out);
    c->introduced = true;
}

/* On a thread of the front. */
static void write_lists(struct workers_job *job)
{
    struct request *c = (struct request *)(void *)job;

    mem_charge(MEM_CHARGE_OLD);
    for (size_t i = 0; i < c->n_prompts; i++)
        if (c->prompt[i].listing)
            answer_list_prompt(c, &c->prompt[i]);
    mem_charge(MEM_CHARGE_NONE);
}

/* An answer to the prompt P of C has something to show for the first time. */
static bool begins(const struct request *c, const struct request_prompt *p)
{
    const struct request_choice *first = &c->choice[(size_t)(p - c->prompt) * c->n];

    for (const struct request_choice *h = first; h < first + c->n; h++)
        if (!h->introduced && answer_has_news(c, h))
            return true;
    return false;
}

/* Whether the next events begin with so many log-probabilities of prompts that the front writes them first.
 * The tokens of these prompts were all told in front of the first of an answer. */
static bool lists_prompts(struct request *c)
{
    size_t n = 0;

    for (size_t i = 0; i < c->n_prompts; i++) {
        struct request_prompt *p = &c->prompt[i];

        p->listing = c->f.echo && c->f.logprobs >= 0 && !p->listed && begins(c, p);
        n += p->listing ? p->scored.n + p->scored.n_top : 0;
    }
    return n > MOST_AT_ONCE;
}

/* What choice I has to show; of one that failed what came before, as the end of the call says why. */
static void request_put_part(struct request *c, size_t i, struct buf *out)
{
    struct request_choice *h = &c->choice[i];
    bool fails = h->ended && (h->finish == GALLOP_FINISH_ERROR || h->finish == GALLOP_FINISH_DEADLINE);

    h->ended &= !fails;
    if (!h->closed && !h->lost && answer_has_news(c, h)) {
        introduce(c, out);
        c->form->part(c, i, out);
    }
    h->ended |= fails;
    h->closed |= fails;
}

/* Sends what the client can take. */
static void send_events(struct request *c)
{
    struct buf *out = &c->api->scratch;
    bool all_closed = true;

    begin_answer(out);
    if (!c->begun) {
        begin_stream(c);
        if (c->form->begin)
            c->form->begin(c, out);
    } else if (server_unsent(c->x) > MOST_UNSENT) {
        return; /* request_drained() goes on, with one event for all that came meanwhile */
    }
    if (c->first_s > 0)
        introduce(c, out);
    for (size_t i = 0; i < c->n_prompts * c->n; i++) {
        request_put_part(c, i, out);
        all_closed &= c->choice[i].closed;
    }
    if (lacks_memory(out)) {
        cut_stream(c);
        return;
    }
    if (out->len)
        c->sent_s = clock_seconds();
    if (all_closed) {
        end_stream(c, out);
    } else {
        server_send(c->x, out->data ? out->data : "", out->len);
    }
}

static void stream(struct request *c)
{
    if (lists_prompts(c)) {
        c->listing = true;
        c->job.run = write_lists;
        workers_add(&c->api->front, &c->job);
    } else {
        send_events(c);
    }
}

/* The front has written lists of prompts. */
static void take_lists(struct request *c)
{
    for (size_t i = 0; i < c->n_prompts; i++)
        c->prompt[i].listed |= c->prompt[i].listing;
    c->listing = false;
}

/* Goes on with C as far as it can; it may be gone afterwards. */
static void advance(struct request *c)
{
    c->touched = false;
    if (c->busy || c->listing)
        return;
    if (c->x && c->status)
        reply(c, c->status, &c->reply);
    else if (c->x && c->f.stream)
        stream(c);
    else if (c->x)
        answer(c);
    if (!c->x && c->n_open == 0)
        destroy(c);
}

/* How many tokens an answer to C may have: what was asked for, at most what the context leaves. */
static size_t most_tokens(const struct request *c)
{
    size_t room = c->api->max_len - c->prompt->ids.n;
    int64_t most = prepare_max_tokens(c);

    return most >= 0 && (size_t)most < room ? (size_t)most : room;
}

/* The front is done with C. */
static void take_prepared(struct request *c)
{
    c->busy = false;
    for (size_t i = 0; i < c->n_prompts; i++)
        c->n_open += c->prompt[i].n_open;
    if (c->n_prompts && !c->status) {
        crash_table_begin(c);
        metrics_observe(&c->api->metrics, METRICS_N, (double)c->n);
        metrics_observe(&c->api->metrics, METRICS_MAX_TOKENS, (double)most_tokens(c));
    }
    if (c->gone || c->status)
        prepare_cancel(c);
    advance(c);
}

static void take_batch(struct api *a, const struct engine_thread_batch *b)
{
    struct request *touched = NULL;
    uint64_t tokens = b->stats.n_prompt_tokens + b->stats.n_output_tokens;

    a->now.stats = b->stats;
    if (tokens > a->tokens_before)
        metrics_observe(&a->metrics, METRICS_ITERATION, (double)(tokens - a->tokens_before));
    a->tokens_before = tokens;
    for (size_t i = 0; i < b->n; i++)
        take_event(b, &b->event[i], &touched);
    while (touched) {
        struct request *c = touched;

        touched = c->next_touched;
        advance(c);
    }
    if (b->n && a->n_handed < ENGINE_THREAD_BATCHES) {
        a->handed_s[a->n_handed++] = b->now_s;
        server_tell_written(a->server);
    }
}

void request_written(struct api *a)
{
    double now = clock_seconds();

    for (size_t i = 0; i < a->n_handed; i++)
        metrics_observe(&a->metrics, METRICS_HANDOFF, now - a->handed_s[i]);
    a->n_handed = 0;
    engine_thread_written(&a->relay);
}

void request_advance(struct api *a)
{
    const struct engine_thread_batch *b;
    int n = 0;

    for (struct workers_job *job = workers_done(&a->front), *next; job; job = next) {
        struct request *c = (struct request *)(void *)job;

        next = job->next;
        if (c->listing) {
            take_lists(c);
            advance(c);
        } else {
            take_prepared(c);
        }
    }
    while ((b = engine_thread_take(&a->relay)) != NULL) {
        if (n++ == MOST_BATCHES) {
            server_wake(a->server);
            break;
        }
        take_batch(a, b);
        engine_thread_give_back(&a->relay);
    }
    for (struct request *c = a->first; c; c = c->next)
        if (c->aborting && !c->busy)
            prepare_cancel(c);
}

/* ---- what the client does ---- */

void request_abort(struct request *c)
{
    if (!c->busy)
        prepare_cancel(c);
    else
        c->gone = true; /* the front submits it first */
}

void request_gone(struct request *c)
{
    log_call(c, 499);
    c->x = NULL;
    c->gone = true;
    atomic_store(&c->unwanted, true);
    if (c->busy)
        return;
    prepare_cancel(c);
    if (c->n_open == 0 && !c->touched && !c->listing)
        destroy(c);
}

void request_drained(struct request *c)
{
    if (c->listing)
        return;
    if (!c->busy && c->begun)
        stream(c);
    if (!c->x && c->n_open == 0 && !c->touched)
        destroy(c);
}

void request_ping(struct api *a, double now)
{
    for (struct request *c = a->first; c; c = c->next)
        if (c->x && c->begun && c->form->ping && now - c->sent_s > a->opt.ping_s &&
            server_unsent(c->x) == 0) {
            server_send(c->x, c->form->ping, strlen(c->form->ping));
            c->sent_s = now;
        }
}

void request_forget_all(struct api *a)
{
    while (a->first) {
        a->first->body_bytes = 0; /* the server is closed */
        destroy(a->first);
    }
}
