/* request.c - opens and closes requests, adds events to their answers, and writes complete answers. */
#include "chat/request.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "chat/dialect/dialect.h"
#include "chat/prepare/refuse.h"
#include "chat/service.h"
#include "engine/engine.h"
#include "engine/sampling/sampling.h"

void request_open(struct request *q, const struct service *s, unsigned endpoint,
                  const struct dialect *dialect)
{
    q->service = s;
    q->endpoint = endpoint;
    q->dialect = dialect;
    q->writer = (struct dialect_writer){.q = q, .a = &q->answer};
    q->origin.arrival_s = clock_seconds();
    q->origin.created = (int64_t)time(NULL);
    arena_init(&q->arena, MEM_API);
    buf_init(&q->reply, MEM_API);
}

bool request_is_id(const char *id)
{
    size_t n = 0;

    while ((unsigned char)id[n] > 0x20 && (unsigned char)id[n] < 0x7f && n <= REQUEST_ID_SENT)
        n++;
    return n > 0 && n <= REQUEST_ID_SENT && !id[n];
}

const char *request_model(const struct request *q)
{
    return q->field.model ? q->field.model : q->service->name[0];
}

bool request_has_tools(const struct request *q)
{
    return json_array_size(q->field.input.tools) && q->field.input.tool_choice != TOOLS_NONE;
}

int64_t request_max_tokens(const struct request *q)
{
    const struct sampling *config = engine_info(q->service->engine)->defaults;

    if (q->field.generation.max_completion_tokens >= 0)
        return q->field.generation.max_completion_tokens;
    if (q->field.generation.max_tokens >= 0)
        return q->field.generation.max_tokens;
    if (q->endpoint == FIELDS_COMPLETIONS && !json_is_null(json_object_get(q->field.body, "max_tokens")))
        return 16;
    return sampling_given(config, SAMPLING_MAX_NEW_TOKENS) && config->max_new_tokens <= INT64_MAX
               ? (int64_t)config->max_new_tokens
               : -1;
}

/* ---- events of the engine ---- */

/* Returns whether a stop string or stop token of the request ended the answer. The tokens that end an
 * answer after a tool call count as the model's own end. */
static bool is_stopped(const struct request *q, const struct gallop_event *ev)
{
    for (size_t i = 0; i < q->n_ends_of_call; i++)
        if (ev->stop_token == q->end_of_call[i])
            return false;
    return ev->stop_string || ev->stop_token >= 0;
}

static bool take_token(struct request *q, struct answer_choice *h, const struct gallop_event *ev)
{
    h->n_output++;
    h->n_new++;
    h->logprob += ev->logprob;
    return !q->keeps_tokens || answer_add_token(&h->tokens, ev, ev->top);
}

static bool take_embedding(struct answer_prompt *p, const struct gallop_event *ev)
{
    size_t bytes = ev->n_embedding * sizeof(*ev->embedding);

    p->embedding = mem_alloc(bytes, MEM_API);
    if (!p->embedding)
        return false;
    memcpy(p->embedding, ev->embedding, bytes);
    p->n_embedding = ev->n_embedding;
    return true;
}

static bool take_end(struct request_prompt *p, struct answer_choice *h, const struct gallop_event *ev)
{
    struct request *q = p->request;
    const char *said = ev->error ? ev->error : ev->stop_string;
    char **text = ev->error ? &h->error : &h->stop_string;

    h->finish = h->lost ? GALLOP_FINISH_ERROR : ev->finish;
    h->stop_token = ev->stop_token;
    h->has_score = ev->has_score;
    h->score = ev->score;
    h->cumulative_logprob = ev->cumulative_logprob;
    h->prefill_s = ev->prefill_s;
    h->decode_s = ev->decode_s;
    h->forbids_all = ev->forbids_all;
    answer_end(h, is_stopped(q, ev));
    if (ev->choice == 0)
        q->answer.prompt[p - q->prompt].n_cached = ev->n_cached;
    p->n_open--;
    if (!answer_add_warnings(&q->answer, ev->warnings, ev->n_warnings))
        return false;
    if (!said)
        return true;
    *text = mem_strndup(said, strlen(said), MEM_API);
    return *text != NULL;
}

struct answer_choice *request_choice(const struct request_prompt *p, size_t choice)
{
    const struct request *q = p->request;

    return &q->answer.choice[(size_t)(p - q->prompt) * q->n + choice];
}

/* Adds EV to the choice H of the prompt P. */
static bool add_event(struct request_prompt *p, struct answer_choice *h, const struct gallop_event *ev)
{
    struct answer_prompt *of_prompt = &p->request->answer.prompt[p - p->request->prompt];

    switch (ev->type) {
    case GALLOP_TOKEN: return take_token(p->request, h, ev);
    case GALLOP_TEXT:
        return ev->text_len == 0 || answer_add_text(h, ev->text, ev->special, ev->text_len) == 0;
    case GALLOP_EMBEDDING: return take_embedding(of_prompt, ev);
    case GALLOP_PROMPT_TOKEN: return answer_add_token(&of_prompt->scored, ev, ev->top);
    case GALLOP_FINISHED: return take_end(p, h, ev);
    }
    return true;
}

bool request_take(struct request_prompt *p, const struct gallop_event *ev)
{
    struct answer_choice *h = request_choice(p, ev->choice);

    if (add_event(p, h, ev) && !h->said.text.oom && !h->lost)
        return true;
    h->lost = true;
    if (h->state != ANSWER_RUNNING) {
        h->finish = GALLOP_FINISH_ERROR;
        h->state = ANSWER_FAILED;
    }
    return false;
}

/* ---- writing ---- */

void request_note_memory(struct request *q)
{
    if (mem_over_budget())
        atomic_store(&q->is_over_memory, true);
}

/* Returns the HTTP status of a request whose answer is incomplete because memory ran out, and sets *SENTENCE
 * to the reason. */
static int lost_of(const struct request *q, const char **sentence)
{
    *sentence = q->is_over_memory ? refuse_over_memory : "out of memory";
    return q->is_over_memory ? 429 : 503;
}

int request_fault(const struct request *q, const char **sentence)
{
    for (size_t i = 0; i < q->answer.n_choices; i++) {
        const struct answer_choice *h = &q->answer.choice[i];
        bool failed = h->state == ANSWER_FAILED && h->finish == GALLOP_FINISH_ERROR;

        if (failed && (h->lost || !h->error))
            return lost_of(q, sentence);
        *sentence = h->error;
        if (failed)
            return h->forbids_all ? 400 : 500;
        *sentence = "the request took longer than this server allows";
        if (h->state == ANSWER_FAILED)
            return 504;
        /* unlike a text, an embedding has no member that could report that it is incomplete */
        *sentence = "the request was ended before its embeddings were computed";
        if (h->state == ANSWER_ENDED && h->finish == GALLOP_FINISH_CANCELLED && q->endpoint & FIELDS_POOLED)
            return atomic_load(&q->unwanted) ? 503 : 400; /* 400: it was aborted by its id */
    }
    return 0;
}

/* Returns the name of the field because of which Q failed: its constraint, or the field that most likely forbids every
 * token. NULL: no field is the reason. */
static const char *forbidding_field(const struct request *q)
{
    const struct fields *given = &q->field;
    bool forbids = false;

    for (size_t i = 0; i < q->answer.n_choices; i++) {
        if (q->answer.choice[i].forbids_all == 2 && q->constraint)
            return q->constraint;
        forbids |= q->answer.choice[i].forbids_all;
    }
    return !forbids                       ? NULL
           : given->sampling->n_allowed   ? "allowed_token_ids"
           : given->sampling->n_bad_words ? "bad_words"
                                          : "min_tokens";
}

void request_begin_writing(struct buf *out)
{
    buf_clear(out);
    mem_lib_failed();
    mem_over_budget();
}

bool request_lacks_memory(struct buf *out)
{
    out->oom |= mem_lib_failed();
    return out->oom;
}

int request_write(struct request *q, struct buf *out)
{
    const char *sentence;
    int status;

    request_begin_writing(out);
    status = request_fault(q, &sentence);
    if (status) {
        dialect_reason(sentence, q->reason, sizeof(q->reason));
        q->dialect->error(out, status, sentence, status == 400 ? forbidding_field(q) : NULL);
    } else {
        q->dialect->whole(&q->writer, out);
    }
    if (request_lacks_memory(out)) {
        enum mem_charge before = mem_charge(MEM_CHARGE_NONE); /* errors ignore the memory limit */

        request_note_memory(q);
        status = lost_of(q, &sentence);
        dialect_reason(sentence, q->reason, sizeof(q->reason));
        buf_fini(out);
        q->dialect->error(out, status, sentence, NULL);
        mem_charge(before);
    }
    return status ? status : 200;
}

void request_fini(struct request *q)
{
    if (q->writer.state)
        q->dialect->close(&q->writer);
    answer_fini(&q->answer);
    for (size_t i = 0; q->prompt && i < q->n_prompts; i++) {
        buf_fini(&q->prompt[i].text);
        mem_free(q->prompt[i].id);
    }
    fields_fini(&q->field);
    arena_fini(&q->arena);
    buf_fini(&q->reply);
}
