/* openai_completions.c - OpenAI's completions: writes answers as one object or as a stream of events, with the
 * log-probabilities of prompts and answers.
 *
 * Specification: https://platform.openai.com/docs/api-reference/completions.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "chat/dialect/logprobs.h"
#include "chat/dialect/openai.h"
#include "chat/schema.h"
#include "engine/sampling/sampling.h"

static const char object[] = "text_completion";

/* The log-probabilities of a prompt that the answer repeats (`echo`). */
struct echo {
    enum { ECHO_UNLISTED, ECHO_WANTED, ECHO_LISTED } state; /* WANTED: the next part needs LISTS */
    struct logprobs_lists lists;
};

/* The position up to which the log-probabilities of a choice were written. */
struct listed {
    struct tok_stream *stream; /* decodes the tokens of the choice; owned */
    size_t n_characters;       /* characters before the next token */
    bool written;              /* best_of: the choice was selected and written */
};

struct state {
    struct echo *echo;     /* [n_prompts] */
    struct listed *listed; /* [n_choices] */
};

static bool open_state(struct dialect_writer *w)
{
    struct state *s = mem_zalloc(1, sizeof(*s), MEM_API);

    w->state = s;
    if (!s)
        return false;
    s->echo = mem_zalloc(w->a->n_prompts, sizeof(*s->echo), MEM_API);
    s->listed = mem_zalloc(w->a->n_choices, sizeof(*s->listed), MEM_API);
    return s->echo && s->listed;
}

static void close_state(struct dialect_writer *w)
{
    struct state *s = w->state;

    for (size_t i = 0; s->echo && i < w->a->n_prompts; i++)
        logprobs_fini_lists(&s->echo[i].lists);
    for (size_t i = 0; s->listed && i < w->a->n_choices; i++)
        logprobs_free_stream(s->listed[i].stream);
    mem_free(s->echo);
    mem_free(s->listed);
    mem_free(s);
}

/* ---- log-probabilities ---- */

static size_t most_alternatives(const struct request *q)
{
    return q->field.output.logprobs > 0 ? (size_t)q->field.output.logprobs : 0;
}

/* Fills the lists of prompt I with its tokens and their log-probabilities. */
static void list_prompt(const struct dialect_writer *w, size_t i)
{
    struct echo *echo = &((struct state *)w->state)->echo[i];
    const struct answer_tokens *scored = &w->a->prompt[i].scored;
    const struct request_prompt *prompt = &w->q->prompt[i];
    struct logprobs_place at = {.prompt = &prompt->text, .most = most_alternatives(w->q)};

    logprobs_init_lists(&echo->lists);
    if (prompt->n_ids)
        logprobs_add(w->q, &echo->lists, &at, NULL, &(struct answer_token){.id = prompt->id[0]});
    for (size_t k = 0; k < scored->n; k++)
        logprobs_add(w->q, &echo->lists, &at, scored, &scored->v[k]);
    logprobs_free_stream(at.stream);
    echo->state = ECHO_LISTED;
}

/* Writes the member `logprobs` of choice I. WITH_PROMPT: the tokens of the prompt come first. */
static void put_logprobs(const struct dialect_writer *w, size_t i, bool with_prompt, struct buf *out)
{
    const struct request *q = w->q;
    const struct answer_choice *h = &w->a->choice[i];
    struct state *s = w->state;
    struct echo *echo = &s->echo[i / q->n];
    struct listed *listed = &s->listed[i];
    struct logprobs_place at = {
        .stream = listed->stream,
        .at = with_prompt ? logprobs_n_characters(&q->prompt[i / q->n].text) : listed->n_characters,
        .most = q->field.sampling->n_logprob_ids ? FIELDS_MAX_LOGPROB_IDS : most_alternatives(q)};
    struct logprobs_lists l;

    buf_str(out, ",\"logprobs\":");
    if (q->field.output.logprobs < 0) {
        buf_str(out, "null");
        return;
    }
    if (with_prompt && echo->state != ECHO_LISTED)
        list_prompt(w, i / q->n);
    logprobs_init_lists(&l);
    for (size_t k = 0; k < h->tokens.n; k++)
        logprobs_add(q, &l, &at, &h->tokens, &h->tokens.v[k]);
    listed->n_characters = at.at;
    listed->stream = at.stream;
    logprobs_put_lists(with_prompt ? &echo->lists : NULL, &l, out);
}

/* Returns whether a choice of prompt I is about to send its first part. */
static bool begins(const struct dialect_writer *w, size_t i)
{
    const struct answer_choice *first = &w->a->choice[i * w->q->n];

    for (const struct answer_choice *h = first; h < first + w->q->n; h++)
        if (h->progress == ANSWER_UNSENT && answer_has_news(h))
            return true;
    return false;
}

/* Implements dialect.n_logprobs_left: returns the number of log-probabilities in the repeated prompts (`echo`) that the
 * next part begins with, and marks these prompts as ECHO_WANTED. */
static size_t count_logprobs(const struct dialect_writer *w)
{
    struct state *s = w->state;
    size_t n = 0;

    if (!w->q->field.output.echo || w->q->field.output.logprobs < 0)
        return 0;
    for (size_t i = 0; i < w->a->n_prompts; i++)
        if (s->echo[i].state != ECHO_LISTED && begins(w, i)) {
            s->echo[i].state = ECHO_WANTED;
            n += w->a->prompt[i].scored.n + w->a->prompt[i].scored.n_top;
        }
    return n;
}

static void format_logprobs(const struct dialect_writer *w)
{
    struct state *s = w->state;

    for (size_t i = 0; i < w->a->n_prompts; i++)
        if (s->echo[i].state == ECHO_WANTED)
            list_prompt(w, i);
}

/* ---- answers ---- */

/* Writes the text of choice I. WITH_PROMPT: the text of the prompt comes first. */
static void put_text(const struct dialect_writer *w, size_t i, bool with_prompt, struct buf *out)
{
    const struct buf *prompt = &w->q->prompt[i / w->q->n].text, *own = &w->a->choice[i].said.text;
    struct buf text = {.tag = MEM_API};

    if (with_prompt && prompt->len)
        buf_add(&text, prompt->data, prompt->len);
    if (own->len)
        buf_add(&text, own->data, own->len);
    buf_str(out, ",\"text\":");
    dialect_put_text(out, &text);
    out->oom |= text.oom;
    buf_fini(&text);
}

const struct schema openai_completions_schema = {
    "Completion",
    "{'type':'object','required':['id','object','created','model','choices','usage'],"
    "'properties':{'warnings':{'type':'array','items':{'type':'string'}},"
    "'id':{'type':'string'},'object':{'const':'text_completion'},"
    "'created':{'type':'integer'},'model':{'type':'string'},"
    "'usage':{'$ref':'#/components/schemas/Usage'},'choices':{'type':'array',"
    "'items':{'type':'object','required':['index','text','finish_reason'],"
    "'properties':{'index':{'type':'integer'},'text':{'type':'string'},"
    "'finish_reason':{'$ref':'#/components/schemas/FinishReason'},'logprobs':{'type':['object',"
    "'null']}}}}}}",
    (const struct schema *const[]){&openai_usage_schema, &openai_finish_schema, NULL}};

/* Writes choice I as the element INDEX of the answer's list of choices. */
static void put_choice(const struct dialect_writer *w, size_t i, size_t index, struct buf *out)
{
    const struct answer_choice *h = &w->a->choice[i];
    const struct request *q = w->q;
    const struct request_prompt *prompt = &q->prompt[i / q->n];

    buf_fmt(out, index ? ",{\"index\":%zu" : "{\"index\":%zu", index);
    put_text(w, i, true, out);
    put_logprobs(w, i, q->field.output.echo, out);
    openai_put_finish(h, out);
    if (q->field.output.return_token_ids) {
        openai_put_token_ids(&h->tokens, out);
        openai_put_ids("prompt_token_ids", prompt->id, prompt->n_ids, out);
    }
    if (q->field.output.prompt_logprobs >= 0)
        logprobs_put_prompt(q, &w->a->prompt[i / q->n], out);
    buf_str(out, "}");
}

/* Returns the index of the choice of prompt P with the highest mean log-probability per token among the choices that
 * are not written yet (of equal choices the first), and marks the choice as written. */
static size_t best_choice(const struct dialect_writer *w, size_t p)
{
    struct listed *listed = ((struct state *)w->state)->listed;
    size_t best = SIZE_MAX;
    double highest = 0;

    for (size_t i = p * w->q->n; i < (p + 1) * w->q->n; i++) {
        const struct answer_choice *h = &w->a->choice[i];
        double mean = h->n_output ? h->logprob / (double)h->n_output : 0;

        if (!listed[i].written && (best == SIZE_MAX || mean > highest)) {
            best = i;
            highest = mean;
        }
    }
    listed[best].written = true;
    return best;
}

static void completions_put_whole(const struct dialect_writer *w, struct buf *out)
{
    size_t n = (size_t)w->q->field.generation.n;

    openai_put_head(w->q, object, out);
    for (size_t i = 0; i < w->a->n_prompts * n; i++)
        put_choice(w, w->q->n > n ? best_choice(w, i / n) : i, i, out);
    buf_str(out, "]");
    openai_put_all_usage(w, out);
    dialect_put_warnings(w->a, out);
    buf_str(out, "}");
}

static void completions_put_part(const struct dialect_writer *w, size_t i, struct buf *out)
{
    const struct answer_choice *h = &w->a->choice[i];
    const struct request *q = w->q;
    const struct request_prompt *prompt = &q->prompt[i / q->n];
    bool first = h->progress == ANSWER_UNSENT;

    openai_begin_event(q, object, i, out);
    put_text(w, i, q->field.output.echo && first, out);
    put_logprobs(w, i, q->field.output.echo && first, out);
    openai_put_finish(h, out);
    if (q->field.output.return_token_ids) {
        openai_put_token_ids(&h->tokens, out);
        if (first)
            openai_put_ids("prompt_token_ids", prompt->id, prompt->n_ids, out);
    }
    buf_str(out, "}]");
    openai_end_event(w, i, false, out);
}

static void completions_put_end(const struct dialect_writer *w, int status, const char *sentence,
                                struct buf *out)
{
    openai_put_end(w, object, status, sentence, out);
}

const struct dialect openai_completions = {.prefix = "cmpl-",
                                           .type = "text/event-stream; charset=utf-8",
                                           .ping = dialect_ping,
                                           .open = open_state,
                                           .close = close_state,
                                           .whole = completions_put_whole,
                                           .n_logprobs_left = count_logprobs,
                                           .format_logprobs = format_logprobs,
                                           .part = completions_put_part,
                                           .end = completions_put_end,
                                           .error = dialect_error,
                                           .error_schema = &dialect_error_schema};
