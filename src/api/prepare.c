/* prepare.c - prepares a request for the engine on a worker thread, within the limits of the queue. */
#include "api/prepare.h"

#include "api/api_priv.h"
#include "api/flight.h"
#include "api/http/access.h"
#include "base/buf.h"
#include "chat/prepare/prepare.h"
#include "chat/prepare/refuse.h"

static void begin_job(const struct flight *f)
{
    mem_over_budget(); /* resets the flag of an earlier failure */
    mem_set_client(f->client);
    mem_charge(MEM_CHARGE_NEW);
}

static void end_job(struct flight *f)
{
    if (f->q.reply.oom) /* the reply is incomplete */
        refuse_memory(&f->q);
    if (!f->job.then)
        fields_forget(&f->q.field, f->q.endpoint);
    mem_charge(MEM_CHARGE_NONE);
}

/* Adds the tokens of the prompt P to the waiting prompt tokens. Returns false if the limit of waiting tokens
 * is reached. */
static bool take_room(struct request_prompt *p)
{
    struct flight *f = flight_of_prompt(p);

    p->waits = queue_add_tokens(&f->api->queue, f->client, p->n_ids);
    return p->waits;
}

void prepare_waits_no_more(struct request_prompt *p)
{
    struct flight *f = flight_of_prompt(p);

    if (p->waits)
        queue_remove_tokens(&f->api->queue, f->client, p->n_ids);
    p->waits = false;
}

static void submit_request(struct flight *f)
{
    struct request *q = &f->q;

    prepare_submit(q, take_room);
    for (size_t i = 0; i < q->n_prompts; i++)
        if (!q->prompt[i].engine_id)
            prepare_waits_no_more(&q->prompt[i]);
}

/* The second half of prepare_request() for a request whose constraint has to be compiled: runs on a thread
 * that compiles constraints. */
static void compile_request(struct workers_job *job)
{
    struct flight *f = (struct flight *)(void *)job;

    begin_job(f);
    if (!refuse_late(&f->q))
        submit_request(f);
    end_job(f);
}

/* Reads the body of the HTTP request. */
static int read_body(struct flight *f)
{
    struct request *q = &f->q;
    int rc = prepare_read(q, f->body.data ? f->body.data : "", f->body.len);

    if (rc)
        return rc;
    buf_fini(&f->body);
    if (!q->origin.key[0] && q->field.user) {
        f->client = access_client(q->field.user, "");
        mem_set_client(f->client);
    }
    return refuse_late(q);
}

/* Reserves a place in the queue for each answer. The first place was reserved when the request arrived. */
static int reserve_places(struct flight *f)
{
    return queue_extend(&f->api->queue, &f->places, f->client, f->q.n_prompts * f->q.n)
               ? 0
               : refuse(&f->q, 429, "the queue is full; come back later");
}

static void prepare(struct flight *f)
{
    if (read_body(f) != 0 || prepare_check(&f->q) != 0 || reserve_places(f) != 0 ||
        prepare_prompts(&f->q) != 0)
        return;
    if (prepare_compiles(&f->q)) {
        f->job.client = f->client; /* the field `user` may have changed f->client */
        f->job.then = compile_request;
    } else {
        submit_request(f);
    }
}

void prepare_request(struct workers_job *job)
{
    struct flight *f = (struct flight *)(void *)job;

    begin_job(f);
    if (!refuse_late(&f->q))
        prepare(f);
    end_job(f);
}
