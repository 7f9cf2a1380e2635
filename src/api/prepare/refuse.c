/* refuse.c - writes the error replies of workers. */
#include "api/prepare/refuse.h"

#include "api/api_priv.h"
#include "api/flight.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

const char refuse_over_memory[] =
    "requests hold as much memory as this server gives to all of them; come back later";

/* Refuses F with SENTENCE for the client and REASON for the log. The memory of the reply is not charged to requests,
 * since their limit may be reached. */
static int refuse_for(struct flight *f, int status, const char *sentence, const char *reason)
{
    enum mem_charge before = mem_charge(MEM_CHARGE_NONE);

    dialect_reason(reason, f->reason, sizeof(f->reason));
    buf_fini(&f->reply);
    f->q.dialect->error(&f->reply, status, sentence, f->q.field.param[0] ? f->q.field.param : NULL);
    mem_charge(before);
    f->status = status;
    return ERR_INPUT;
}

int refuse(struct flight *f, int status, const char *sentence)
{
    return refuse_for(f, status, sentence, sentence);
}

int refuse_memory(struct flight *f)
{
    if (!mem_over_budget())
        return refuse(f, 503, "out of memory");
    atomic_fetch_add(&f->api->n_over_memory, 1);
    fields_blame(&f->q.field, "", 0);
    return refuse(f, 429, refuse_over_memory);
}

int refuse_field(struct flight *f, const char *field, const char *sentence)
{
    fields_blame(&f->q.field, field, 0);
    return refuse(f, 400, sentence);
}

int refuse_error(struct flight *f, const struct err *e)
{
    char text[sizeof(*e)], reason[sizeof(*e)];

    if (mem_lib_failed() || e->code == ERR_NOMEM) /* when memory runs out, E may wrongly blame a field */
        return refuse_memory(f);
    err_text_without_path(e, text, sizeof(text));
    err_text_for_log(e, reason, sizeof(reason));
    return refuse_for(f, e->code == ERR_NOSPACE ? 429 : 400, text, reason);
}

bool refuse_late(struct flight *f)
{
    double most_s = f->api->opt.request_timeout_s;

    if (atomic_load(&f->unwanted))
        refuse(f, 503, "the server is shutting down"); /* a client that has left does not see this */
    else if (most_s > 0 && clock_seconds() - f->q.origin.arrival_s >= most_s)
        refuse(f, 504, "the request took longer than this server allows");
    else
        return false;
    return true;
}
