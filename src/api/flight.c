/* flight.c - the state transitions of a flight (an HTTP request for the engine): from its arrival through the
 * engine's events to the sent answer. */
#include "api/flight.h"

#include <stdio.h>
#include <string.h>

#include "api/api_priv.h"
#include "api/http/access.h"
#include "api/http/load.h"
#include "api/http/reply.h"
#include "api/http/routes.h"
#include "api/prepare.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "chat/prepare/prepare.h"
#include "chat/prepare/refuse.h"
#include "engine/embeddings/embedder.h"
#include "net/server.h"

enum {
    /* if a connection has more unsent bytes than this, events are held back and later sent as one event */
    MOST_UNSENT = 64 << 10,
    MOST_BATCHES = 8, /* batches handled before the server's thread returns to the sockets */
    /* an answer with at most this many numbers is written by the server's thread itself, in less than 1 ms */
    MOST_AT_ONCE = 2048,
    LARGE_JOB = 256 << 10, /* a worker's job with more bytes than this is large: it takes about 50 ms */
    NUMBER_BYTES = 16,     /* approximate bytes of a number in an answer */
};

static struct flight *flight_of(struct workers_job *job)
{
    return (struct flight *)(void *)job;
}

/* Gives F to a worker, which reads or writes about N_BYTES. */
static void queue_job(struct flight *f, size_t n_bytes)
{
    f->job.client = f->client;
    f->job.is_large = n_bytes > LARGE_JOB;
    workers_add(&f->api->workers, &f->job);
}

bool flight_is_with_worker(const struct flight *f)
{
    return f->state == FLIGHT_PREPARING || f->state == FLIGHT_WRITING;
}

bool flight_may_free(const struct flight *f)
{
    return f->state == FLIGHT_DRAINING && f->n_open == 0 && !f->touched;
}

/* ---- creating and freeing ---- */

static void link_flight(struct api *a, struct flight *f)
{
    f->link = &a->first;
    f->next = a->first;
    if (f->next)
        f->next->link = &f->next;
    a->first = f;
    a->n_flights++;
}

static void set_origin(struct request_origin *o, const struct api *a, struct server_exchange *x,
                       const struct route *r)
{
    o->route = r->path;
    access_trace(x, o->trace);
    snprintf(o->peer, sizeof(o->peer), "%s", server_peer(x));
    _Static_assert(sizeof(o->key) == KEYS_NAME, "an origin has room for the name of a key");
    access_key(a, server_head(x), o->key);
}

/* Creates the flight of the exchange X. The flight takes ownership of PLACES, which holds one place in the
 * queue. Returns NULL if memory runs out. */
static struct flight *new_flight(struct api *a, struct server_exchange *x, const struct route *r,
                                 const struct queue_places *places, uint32_t client)
{
    struct flight *f = mem_zalloc(1, sizeof(*f), MEM_API);

    if (!f)
        return NULL;
    f->job.run = prepare_request;
    f->api = a;
    f->client = client;
    f->x = x;
    f->places.n = places->n;
    f->places.client = places->client;
    request_open(&f->q, &a->opt.service, r->endpoint, r->dialect);
    f->q.once = &a->once;
    f->q.seeds = &a->seeds;
    set_origin(&f->q.origin, a, x, r);
    f->sent_s = f->q.origin.arrival_s;
    f->body_bytes = server_take_body(x, &f->body);
    access_name(&f->q, x);
    link_flight(a, f);
    server_set_user(x, f);
    return f;
}

/* Frees the body of the HTTP request, which has been read. */
static void release_body(struct flight *f)
{
    buf_fini(&f->body);
    if (f->body_bytes.n)
        server_release_body(f->api->server, f->body_bytes);
    f->body_bytes.n = 0;
}

static void flight_free(struct flight *f)
{
    struct api *a = f->api;

    *f->link = f->next;
    if (f->next)
        f->next->link = f->link;
    a->n_flights--;
    crash_table_remove(f->row);
    queue_leave(&a->queue, &f->places, f->places.n);
    release_body(f);
    request_fini(&f->q);
    mem_free(f);
}

/* Refuses a request with 429 if requests hold more than --max-request-memory, or with 503 if the machine is
 * out of memory. */
static void refuse_for_memory(const struct reply *r)
{
    bool over = mem_over_budget();

    atomic_fetch_add(&r->api->n_over_memory, over);
    reply_refuse(r, over ? 429 : 503, over ? refuse_over_memory : "out of memory", NULL);
}

/* Reserves a place *P in the queue for CLIENT with the API key KEY. Returns false after the request was
 * refused. */
static bool take_place(const struct reply *r, const char *key, uint32_t client, struct queue_places *p)
{
    struct api *a = r->api;
    double wait_s;

    if (a->draining) {
        reply_refuse(r, 503, "the server is shutting down", NULL);
        return false;
    }
    if (queue_is_full_of_tokens(&a->queue)) {
        reply_refuse(r, 429, "too many tokens of prompts wait; come back later", NULL);
        return false;
    }
    if (!queue_enter(&a->queue, p, client, key[0])) {
        reply_refuse(r, 429, "the queue is full; come back later", NULL);
        return false;
    }
    wait_s = key[0] ? keys_take(a->opt.keys, key, clock_seconds()) : 0;
    if (wait_s > 0) {
        queue_leave(&a->queue, p, 1);
        reply_limit(r, key, wait_s);
    }
    return !(wait_s > 0);
}

void flight_start(struct api *a, struct server_exchange *x, const struct route *r)
{
    struct reply reply = {.api = a, .x = x, .route = r->path, .dialect = r->dialect};
    struct queue_places places = {0};
    char key[KEYS_NAME];
    uint32_t client;
    struct flight *f;

    access_key(a, server_head(x), key);
    client = access_client(key, server_peer(x));
    if (!take_place(&reply, key, client, &places))
        return;
    mem_over_budget();
    mem_set_client(client);
    mem_charge(MEM_CHARGE_NEW);
    f = new_flight(a, x, r, &places, client);
    mem_charge(MEM_CHARGE_NONE);
    if (f) {
        queue_job(f, f->body.len);
    } else {
        queue_leave(&a->queue, &places, 1);
        refuse_for_memory(&reply);
    }
}

/* ---- events of the engine ---- */

struct flight *flight_of_prompt(const struct request_prompt *p)
{
    return (struct flight *)((char *)p->request - offsetof(struct flight, q));
}

static void observe_token(struct flight *f, struct answer_choice *h, double now_s)
{
    struct metrics *m = &f->api->metrics;

    if (f->first_s == 0)
        f->first_s = now_s;
    if (h->n_output == 0)
        metrics_observe(m, METRICS_TTFT, now_s - f->q.origin.arrival_s);
    else
        metrics_observe(m, METRICS_ITL, now_s - h->last_s);
    if (f->row)
        atomic_fetch_add_explicit(&f->row->n_output, 1, memory_order_relaxed);
    h->last_s = now_s;
}

static void observe_end(struct flight *f, const struct event_ring_batch *b, const struct gallop_event *ev)
{
    static const enum metrics_end ends[] = {[GALLOP_FINISH_STOP] = METRICS_STOP,
                                            [GALLOP_FINISH_LENGTH] = METRICS_LENGTH,
                                            [GALLOP_FINISH_CANCELLED] = METRICS_ABORT,
                                            [GALLOP_FINISH_ERROR] = METRICS_ERROR,
                                            [GALLOP_FINISH_DEADLINE] = METRICS_ABORT};
    double all = b->now_s - f->q.origin.arrival_s, inference = ev->prefill_s + ev->decode_s;
    struct metrics *m = &f->api->metrics;

    m->ended[ends[ev->finish]]++;
    if (ev->choice == 0) { /* the other choices reuse the KV cache of the first for the prompt */
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
    f->api->mean_s = f->api->mean_s > 0 ? 0.9 * f->api->mean_s + 0.1 * all : all;
}

static void charge_key(const struct flight *f, const struct gallop_event *ev, double now_s)
{
    size_t n = ev->n_output + (ev->choice == 0 ? ev->n_prompt : 0);

    if (f->q.origin.key[0])
        keys_charge(f->api->opt.keys, f->q.origin.key, (double)n, now_s);
}

/* Handles the end of one of F's answers (choices). */
static void leave(struct flight *f, const struct gallop_event *ev, const struct event_ring_batch *b)
{
    if (f->state != FLIGHT_PREPARING)
        f->n_open--;
    queue_leave(&f->api->queue, &f->places, 1);
    charge_key(f, ev, b->now_s);
    observe_end(f, b, ev);
}

/* The flight still exists: it is not freed before the server's thread gets this choice's GALLOP_FINISHED
 * event. */
void flight_lost(const struct gallop_event *ev)
{
    request_choice(ev->user, ev->choice)->lost = true;
}

/* Counts F, once, if it was refused or failed because of --max-request-memory. */
static void count_over_memory(struct flight *f)
{
    if (f->q.is_over_memory && !f->counts_as_over_memory)
        atomic_fetch_add(&f->api->n_over_memory, 1);
    f->counts_as_over_memory |= f->q.is_over_memory;
}

static void take_event(const struct event_ring_batch *b, const struct event_ring_event *r,
                       struct flight **touched)
{
    struct request_prompt *p = r->ev.user;
    struct flight *f = flight_of_prompt(p);
    struct gallop_event ev;
    bool good;

    event_ring_point(b, r, &ev);
    if (ev.type == GALLOP_TOKEN || ev.type == GALLOP_FINISHED)
        prepare_waits_no_more(p);
    if (ev.type == GALLOP_TOKEN)
        observe_token(f, request_choice(p, ev.choice), b->now_s);
    mem_over_budget();
    mem_set_client(f->client);
    mem_charge(MEM_CHARGE_OLD);
    good = request_take(p, &ev);
    mem_charge(MEM_CHARGE_NONE);
    if (ev.type == GALLOP_FINISHED)
        leave(f, &ev, b);
    request_note_memory(&f->q);
    count_over_memory(f);
    if (!good)
        flight_abort(f);
    if (!f->touched) {
        f->touched = true;
        f->next_touched = *touched;
        *touched = f;
    }
}

/* ---- log and headers ---- */

static void log_flight(const struct flight *f, int status)
{
    bool known = !flight_is_with_worker(f);
    const struct request_origin *o = &f->q.origin;
    double all = clock_seconds() - o->arrival_s, first = f->first_s > 0 ? f->first_s - o->arrival_s : 0;
    size_t n_prompt = known ? f->q.n_prompt_tokens : 0, n_cached = known ? answer_n_cached(&f->q.answer) : 0,
           n_output = known ? answer_n_output(&f->q.answer) : 0, n = 11;
    const char *id = known || f->q.naming == REQUEST_NAMED ? f->q.name : "";
    const char *reason = status == 499 ? "the client closed the connection" : known ? f->q.reason : "";
    char seed[40] = "";
    struct log_field field[13];

    metrics_count_http(&f->api->metrics, o->route, "POST", status);
    if (f->api->opt.quiet)
        return;
    memcpy(field,
           (struct log_field[]){{"client", o->peer, 0, 0},
                                {"method", "POST", 0, 0},
                                {"path", o->route, 0, 0},
                                {"status", NULL, status, 0},
                                {"prompt_tokens", NULL, (double)n_prompt, 0},
                                {"cached_tokens", NULL, (double)n_cached, 0},
                                {"output_tokens", NULL, (double)n_output, 0},
                                {"first_token_seconds", NULL, first, 6},
                                {"seconds", NULL, all, 6},
                                {"request_id", id, 0, 0},
                                {"traceparent", o->trace, 0, 0}},
           n * sizeof(*field));
    if (known && f->q.draws) {
        snprintf(seed, sizeof(seed), "seed %llu, ", (unsigned long long)f->q.seed);
        field[n++] = (struct log_field){"seed", NULL, (double)f->q.seed, 0};
    }
    if (reason[0])
        field[n++] = (struct log_field){"reason", reason, 0, 0};
    log_fields(LOG_INFO, field, n,
               "%s \"POST %s\" %d %zu+%zu tokens, %zu cached, %.3f s, first %.3f s, %s%s%s%s%s%s", o->peer,
               o->route, status, n_prompt, n_output, n_cached, all, first, seed, id[0] ? id : "-",
               o->trace[0] ? ", " : "", o->trace, reason[0] ? ": " : "", reason);
}

enum { HEADER_BYTES = 320 + LOAD_LIMITS };

static void make_headers(const struct flight *f, int status, char out[HEADER_BYTES])
{
    const size_t size = HEADER_BYTES;
    int n = f->q.name[0] ? snprintf(out, size, "X-Request-Id: %s\r\n", f->q.name) : 0;
    char limits[LOAD_LIMITS];

    out[n] = 0;
    if (status == 429 || status == 503)
        n += snprintf(out + n, size - (size_t)n, "Retry-After: %.0f\r\n", load_retry_s(f->api));
    else if (status == 504)
        n += snprintf(out + n, size - (size_t)n, SERVER_NO_RETRY);
    load_limits(f->api, f->q.origin.key, limits);
    snprintf(out + n, size - (size_t)n, "%s", limits);
}

/* ---- answering ---- */

/* Detaches the exchange from F, which becomes DRAINING, and returns it for the final send. */
static struct server_exchange *take_exchange(struct flight *f)
{
    struct server_exchange *x = f->x;

    server_set_user(x, NULL);
    f->x = NULL;
    f->state = FLIGHT_DRAINING;
    return x;
}

static void send_whole(struct flight *f, int status, struct buf *body)
{
    char headers[HEADER_BYTES];

    count_over_memory(f);
    make_headers(f, status, headers);
    log_flight(f, status);
    f->api->metrics.n_refused += status == 429 || status == 503;
    if (body == &f->q.reply) /* it may be large: the server takes over its memory without a copy */
        server_give(take_exchange(f), status, headers, "application/json", body);
    else
        server_reply(take_exchange(f), status, headers, "application/json", body->data ? body->data : "",
                     body->len);
}

/* Job of a worker: writes the complete answer. */
static void write_reply(struct workers_job *job)
{
    struct flight *f = flight_of(job);

    mem_set_client(f->client);
    mem_charge(MEM_CHARGE_OLD);
    f->q.status = request_write(&f->q, &f->q.reply);
    mem_charge(MEM_CHARGE_NONE);
}

/* Returns whether writing the answer takes long: it has many log-probabilities or embedding values, or
 * Dense modules have to be applied. */
static bool is_long(const struct flight *f)
{
    const struct embedder *x = f->q.service->embedder;

    return (f->q.endpoint & FIELDS_POOLED && x && x->dense.n) ||
           answer_n_numbers(&f->q.answer) > MOST_AT_ONCE;
}

static void hand_to_worker(struct flight *f, enum flight_state state, void (*run)(struct workers_job *job))
{
    f->state = state;
    f->job.run = run;
    queue_job(f, answer_n_numbers(&f->q.answer) * NUMBER_BYTES);
}

/* Sends the answer if all choices have ended, or gives a long answer to a worker to write. */
static void answer_whole(struct flight *f)
{
    int status;

    if (f->n_open)
        return;
    if (is_long(f)) {
        hand_to_worker(f, FLIGHT_WRITING, write_reply);
        return;
    }
    status = request_write(&f->q, &f->api->scratch);
    send_whole(f, status, &f->api->scratch);
}

/* ---- streams ---- */

static void begin_stream(struct flight *f, struct buf *out)
{
    char headers[HEADER_BYTES];

    make_headers(f, 200, headers);
    strcat(headers, "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n");
    server_begin(f->x, 200, headers, f->q.dialect->type);
    f->state = FLIGHT_BEGUN;
    if (f->q.dialect->begin)
        f->q.dialect->begin(&f->q.writer, out);
}

/* Closes the connection in mid-stream, because a client would take a stream with a gap for complete. */
static void cut_stream(struct flight *f)
{
    log_warn("%s: a stream is cut: out of memory", f->q.origin.peer);
    log_flight(f, 500);
    server_cut(take_exchange(f));
    flight_abort(f);
}

static void end_stream(struct flight *f, struct buf *out)
{
    const char *sentence;
    int status = request_fault(&f->q, &sentence);

    if (status)
        dialect_reason(sentence, f->q.reason, sizeof(f->q.reason));
    f->q.dialect->end(&f->q.writer, status, sentence, out);
    if (request_lacks_memory(out)) {
        cut_stream(f);
        return;
    }
    log_flight(f, status ? status : 200);
    server_send(f->x, out->data, out->len);
    server_end(take_exchange(f));
}

/* Writes the beginning of a stream, before its first token, unless it was written before. */
static void introduce(struct flight *f, struct buf *out)
{
    if (f->state == FLIGHT_BEGUN && f->q.dialect->introduce)
        f->q.dialect->introduce(&f->q.writer, out);
    f->state = FLIGHT_STREAMING;
}

/* Writes the output of choice I since its last event. For a choice that failed, this is the output before the failure.
 * The end of the stream then reports the error. */
static void write_part(struct flight *f, size_t i, struct buf *out)
{
    struct answer_choice *h = &f->q.answer.choice[i];

    if (h->progress != ANSWER_CLOSED && !h->lost && answer_has_news(h)) {
        introduce(f, out);
        f->q.dialect->part(&f->q.writer, i, out);
        answer_sent(h);
    }
    if (h->state == ANSWER_FAILED)
        h->progress = ANSWER_CLOSED;
}

/* Appends the next events of all choices to OUT, and sends OUT. */
static void send_events(struct flight *f, struct buf *out)
{
    bool all_closed = true;

    if (f->first_s > 0)
        introduce(f, out);
    for (size_t i = 0; i < f->q.answer.n_choices; i++) {
        write_part(f, i, out);
        all_closed &= f->q.answer.choice[i].progress == ANSWER_CLOSED;
    }
    if (request_lacks_memory(out)) {
        cut_stream(f);
        return;
    }
    if (out->len)
        f->sent_s = clock_seconds();
    if (all_closed)
        end_stream(f, out);
    else
        server_send(f->x, out->data ? out->data : "", out->len);
}

/* Job of a worker: formats the log-probabilities at the beginning of the next event, which are many. */
static void format_logprobs(struct workers_job *job)
{
    struct flight *f = flight_of(job);

    mem_set_client(f->client);
    mem_charge(MEM_CHARGE_OLD);
    f->q.dialect->format_logprobs(&f->q.writer);
    mem_charge(MEM_CHARGE_NONE);
}

/* Sends the next events, unless too many bytes are unsent, or a worker must first format many
 * log-probabilities. */
static void stream(struct flight *f)
{
    struct buf *out = &f->api->scratch;
    bool fresh = f->state == FLIGHT_COMPUTING;

    request_begin_writing(out);
    if (fresh)
        begin_stream(f, out);
    if (f->q.dialect->n_logprobs_left && f->q.dialect->n_logprobs_left(&f->q.writer) > MOST_AT_ONCE) {
        introduce(f, out);
        server_send(f->x, out->data ? out->data : "", out->len);
        hand_to_worker(f, FLIGHT_LISTING, format_logprobs);
    } else if (fresh || server_unsent(f->x) <= MOST_UNSENT) {
        send_events(f, out);
    } /* else flight_drained() sends everything generated until then as one event */
}

/* ---- advancing ---- */

/* Cancels the sequences of F in the engine. The engine accepts a limited number of messages at once; flight_advance()
 * tries again. */
static void cancel(struct flight *f)
{
    f->cancel = prepare_cancel(&f->q) ? FLIGHT_CANCELLED : FLIGHT_CANCEL;
}

static void free_if_done(struct flight *f)
{
    if (flight_may_free(f))
        flight_free(f);
}

/* Advances F as far as its state allows. This may free F. */
static void advance(struct flight *f)
{
    f->touched = false;
    if (flight_is_with_worker(f) || f->state == FLIGHT_LISTING)
        return;
    if (f->x && f->q.status)
        send_whole(f, f->q.status, &f->q.reply);
    else if (f->x && f->q.field.output.stream)
        stream(f);
    else if (f->x)
        answer_whole(f);
    free_if_done(f);
}

/* Returns the maximum number of tokens of an answer: the request's limit, bounded by the context length. */
static size_t most_tokens(const struct flight *f)
{
    size_t room = f->api->max_len - f->q.prompt->n_ids;
    int64_t most = request_max_tokens(&f->q);

    return most >= 0 && (size_t)most < room ? (size_t)most : room;
}

/* Handles F after a worker has prepared it. From now on the server's thread owns its prompts. */
static void take_prepared(struct flight *f)
{
    f->state = f->x ? FLIGHT_COMPUTING : FLIGHT_DRAINING;
    release_body(f);
    count_over_memory(f);
    for (size_t i = 0; f->q.prompt && i < f->q.n_prompts; i++)
        f->n_open += f->q.prompt[i].n_open;
    if (f->q.prompt && !f->q.status) {
        /* The first tokens may have come before the worker returned F. */
        f->row = crash_table_add(&f->api->crash_table, f->q.name, f->q.n_prompt_tokens,
                                 answer_n_output(&f->q.answer));
        metrics_observe(&f->api->metrics, METRICS_N, (double)f->q.n);
        metrics_observe(&f->api->metrics, METRICS_MAX_TOKENS, (double)most_tokens(f));
    }
    if (f->cancel == FLIGHT_CANCEL || f->q.status)
        cancel(f);
}

/* Takes F back from the worker whose job for F has ended. */
static void take_back(struct flight *f)
{
    if (f->state == FLIGHT_PREPARING)
        take_prepared(f);
    else if (!f->x)
        f->state = FLIGHT_DRAINING;
    else
        f->state = f->state == FLIGHT_LISTING ? FLIGHT_STREAMING : FLIGHT_COMPUTING;
    advance(f);
}

static void take_batch(struct api *a, const struct event_ring_batch *b)
{
    struct flight *touched = NULL;
    uint64_t tokens = b->stats.n_prompt_tokens + b->stats.n_output_tokens;

    a->now.stats = b->stats;
    if (tokens > a->tokens_before)
        metrics_observe(&a->metrics, METRICS_ITERATION, (double)(tokens - a->tokens_before));
    a->tokens_before = tokens;
    for (size_t i = 0; i < b->n; i++)
        take_event(b, &b->event[i], &touched);
    while (touched) {
        struct flight *f = touched;

        touched = f->next_touched;
        advance(f);
    }
    if (b->n && a->n_handed < EVENT_RING_BATCHES) {
        a->handed_s[a->n_handed++] = b->now_s;
        server_tell_written(a->server);
    }
}

void flight_written(struct api *a)
{
    double now = clock_seconds();

    for (size_t i = 0; i < a->n_handed; i++)
        metrics_observe(&a->metrics, METRICS_HANDOFF, now - a->handed_s[i]);
    a->n_handed = 0;
    event_ring_written(&a->event_ring);
}

void flight_advance(struct api *a)
{
    const struct event_ring_batch *b;
    int n = 0;

    for (struct workers_job *job = workers_done(&a->workers), *next; job; job = next) {
        next = job->next;
        take_back(flight_of(job));
    }
    while ((b = event_ring_take(&a->event_ring)) != NULL) {
        if (n++ == MOST_BATCHES) {
            server_wake(a->server);
            break;
        }
        take_batch(a, b);
        event_ring_give_back(&a->event_ring);
    }
    for (struct flight *f = a->first; f; f = f->next)
        if (f->cancel == FLIGHT_CANCEL && f->state != FLIGHT_PREPARING)
            cancel(f);
}

/* ---- events of the client ---- */

void flight_abort(struct flight *f)
{
    f->cancel = FLIGHT_CANCEL;
    if (f->state != FLIGHT_PREPARING) /* otherwise the worker must submit it first */
        cancel(f);
}

void flight_gone(struct flight *f)
{
    log_flight(f, 499);
    f->x = NULL;
    atomic_store(&f->q.unwanted, true);
    flight_abort(f);
    if (flight_is_with_worker(f) || f->state == FLIGHT_LISTING)
        return; /* take_back() finishes this when the worker is done */
    f->state = FLIGHT_DRAINING;
    free_if_done(f);
}

void flight_drained(struct flight *f)
{
    if (f->state == FLIGHT_BEGUN || f->state == FLIGHT_STREAMING)
        stream(f);
    free_if_done(f);
}

void flight_ping(struct api *a, double now)
{
    for (struct flight *f = a->first; f; f = f->next) {
        bool streams = f->state == FLIGHT_BEGUN || f->state == FLIGHT_STREAMING || f->state == FLIGHT_LISTING;

        if (f->x && streams && f->q.dialect->ping && now - f->sent_s > a->opt.ping_s &&
            server_unsent(f->x) == 0) {
            server_send(f->x, f->q.dialect->ping, strlen(f->q.dialect->ping));
            f->sent_s = now;
        }
    }
}

void flight_free_all(struct api *a)
{
    while (a->first) {
        a->first->body_bytes.n = 0; /* the server, which counts these bytes, is closed */
        flight_free(a->first);
    }
}
