/* refuse.c - writes the errors of requests. */
#include "chat/prepare/refuse.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "chat/dialect/dialect.h"
#include "chat/request.h"
#include "chat/service.h"

const char refuse_over_memory[] =
    "requests hold as much memory as this server gives to all of them; come back later";

/* Refuses Q with SENTENCE for the client and REASON for the log. The memory of the reply is not charged to requests,
 * since their limit may be reached. */
static int refuse_for(struct request *q, int status, const char *sentence, const char *reason)
{
    enum mem_charge before = mem_charge(MEM_CHARGE_NONE);

    dialect_reason(reason, q->reason, sizeof(q->reason));
    buf_fini(&q->reply);
    q->dialect->error(&q->reply, status, sentence, q->field.param[0] ? q->field.param : NULL);
    mem_charge(before);
    q->status = status;
    return ERR_INPUT;
}

int refuse(struct request *q, int status, const char *sentence)
{
    return refuse_for(q, status, sentence, sentence);
}

int refuse_memory(struct request *q)
{
    if (!mem_over_budget())
        return refuse(q, 503, "out of memory");
    q->is_over_memory = true;
    fields_blame(&q->field, "", 0);
    return refuse(q, 429, refuse_over_memory);
}

int refuse_field(struct request *q, const char *field, const char *sentence)
{
    fields_blame(&q->field, field, 0);
    return refuse(q, 400, sentence);
}

int refuse_error(struct request *q, const struct err *e)
{
    char text[sizeof(*e)], reason[sizeof(*e)];

    if (mem_lib_failed() || e->code == ERR_NOMEM) /* when memory runs out, E may wrongly blame a field */
        return refuse_memory(q);
    if (q->endpoint == FIELDS_LINE) /* the client owns the model's files */
        err_text(e, text, sizeof(text));
    else
        err_text_without_path(e, text, sizeof(text));
    err_text_for_log(e, reason, sizeof(reason));
    return refuse_for(q, e->code == ERR_NOSPACE ? 429 : 400, text, reason);
}

bool refuse_late(struct request *q)
{
    double most_s = q->service->request_timeout_s;

    if (atomic_load(&q->unwanted))
        refuse(q, 503, "the server is shutting down"); /* a client that has left does not see this */
    else if (most_s > 0 && clock_seconds() - q->origin.arrival_s >= most_s)
        refuse(q, 504, "the request took longer than this server allows");
    else
        return false;
    return true;
}
