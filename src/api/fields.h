/* fields.h - the fields of a request: read from JSON by the table of fields.def, and the page that documents
 * it.
 *
 * Every field has a type, a range and a cap, and an error names it. A field that is null is as if it were not
 * there. What would change the answer and is not built is refused by name; a field that no row knows is
 * taken, and said once in the log.
 */
#ifndef GALLOP_API_FIELDS_H
#define GALLOP_API_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/markup/tools.h"
#include "engine/sampling.h"

struct buf;
struct err;

/* The endpoints: a bit for each path of routes.def that has a body. */
#define COMPUTED(letter, name, path, needs, form, gives, says)            FIELDS_AT_##name,
#define HANDLED(letter, name, path, needs, access, function, gives, says) FIELDS_AT_##name,
#define ANSWERED(path, access, function, gives, says)
#define WRITTEN(path, access, function, gives, says)
enum fields_at {
#include "api/routes.def"
    FIELDS_N_ENDPOINTS
};
#undef COMPUTED
#undef HANDLED
#define COMPUTED(letter, name, path, needs, form, gives, says) FIELDS_##name = 1 << FIELDS_AT_##name,
#define HANDLED(letter, name, path, needs, access, function, gives, says) \
    FIELDS_##name = 1 << FIELDS_AT_##name,
enum {
#include "api/routes.def"
    FIELDS_OPTIONS = 1 << FIELDS_N_ENDPOINTS, /* member `options` of Ollama's requests */
    FIELDS_END = FIELDS_OPTIONS << 1,         /* no endpoint has this bit, or a higher one */

    FIELDS_POOLED = FIELDS_EMBEDDINGS | FIELDS_EMBED | FIELDS_EMBED_ONE /* answers are vectors */
};
#undef COMPUTED
#undef HANDLED
#undef ANSWERED
#undef WRITTEN

/* Whether the model is asked to think before it answers; the chat template is told. */
enum fields_thinking { FIELDS_THINKING_UNSAID, FIELDS_THINKING_OFF, FIELDS_THINKING_ON };

enum {
    FIELDS_MAX_PROMPTS = 1024,
    FIELDS_MAX_TOOLS = 1024,
    FIELDS_MAX_BIASES = 4096,
    FIELDS_MAX_LOGPROB_IDS = 128,
    FIELDS_MAX_BAD_WORDS = 256,
    FIELDS_MAX_BAD_BYTES = 128,  /* of one */
    FIELDS_MAX_DEPTH = 64,       /* of the JSON, */
    FIELDS_MAX_LISTS = 65536,    /* lists and objects in it, */
    FIELDS_MAX_VALUES = 4259840, /* values behind a comma: as many tokens as /detokenize takes, and more */
};

/* Called for a field that changes nothing, because no row knows it, or as its row says. */
typedef void fields_unknown(void *ctx, const char *name);

/* What a request says. Numbers that are not given are -1, or NaN; JSON is borrowed from body. */
struct fields {
    json_t *body; /* owned */
    json_t *own;  /* what a form made of it, owned */
    enum fields_thinking thinking;
    bool asks_for_edits; /* context_management is there: answers say which edits were made */
    const char *model, *reasoning_effort, *truncation_side, *request_id, *cache_salt, *user;
    const json_t *prompt, *messages, *system, *tools, *documents, *kwargs;
    const json_t *stop, *bad_words, *stop_token_ids, *logit_bias, *allowed, *logprob_ids, *tokens,
        *request_ids;
    bool add_generation_prompt, continue_final_message, add_special_tokens, stream, include_usage,
        continuous_usage, echo, chat_logprobs, include_stop, skip_special_tokens, return_token_ids,
        tokens_as_ids, return_token_strs, parallel_tool_calls, include_reasoning;
    enum tools_choice tool_choice;
    bool has_add_special, has_stream_options, normalize, base64, raw, truncate;
    int64_t max_tokens, max_completion_tokens, n, best_of, logprobs, top_logprobs, prompt_logprobs,
        truncate_prompt_tokens, priority, num_predict;
    struct sampling sampling; /* the fields that engine/sampling.def gives to requests, marked as given */
    bool has_seed;
    uint64_t seed;
    char param[128]; /* the field that an error is about */
    fields_unknown *unknown;
    void *unknown_ctx;
};

/* Reads TEXT [n], a JSON object, for one of the endpoints. ERR_INPUT, ERR_UNSUPPORTED or ERR_NOMEM; f->param
 * then names the field, or is "". *f needs fields_fini() in any case. */
int fields_read(struct fields *f, unsigned endpoint, const char *text, size_t n, fields_unknown *unknown,
                void *ctx, struct err *e);
/* The request is submitted: lets go of everything but numbers, and what an answer repeats. Of lists remains
 * whether they were given. */
void fields_forget(struct fields *f, unsigned endpoint);
void fields_fini(struct fields *f);

/* The error is about the field NAME. Returns RC. */
int fields_blame(struct fields *f, const char *name, int rc);

/* The field that an endpoint cannot be without, or NULL. */
const char *fields_needed(unsigned endpoint);

/* The tables of docs/API.md. */
void fields_document(struct buf *out);

/* The JSON Schema of what an endpoint takes. MODELS: what `model` may be, a list as JSON. */
void fields_schema(unsigned endpoint, const char *models, struct buf *out);

/* ---- for tests ---- */

/* The I-th row: name, endpoints, "bool", "int", "number", "text", "filled", "own", "empty", "logged" or
 * "never", range or bytes. False: there are no more. */
struct fields_row {
    const char *name, *kind, *range;
    unsigned endpoints;
};
bool fields_row(size_t i, struct fields_row *out);

#endif
