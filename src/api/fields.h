/* fields.h - the fields of a request, read from JSON by the table fields.def.
 *
 * Every field has a type, a range and a maximum size, and an error names the field. A field that is null
 * counts as not given. A field that would change the answer but is not supported is refused by name; an
 * unknown field is accepted with a warning in the log.
 */
#ifndef GALLOP_API_FIELDS_H
#define GALLOP_API_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/markup/tools.h"
#include "engine/sampling/sampling.h"

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

/* Whether the chat template is told to let the model think before it answers. */
enum fields_thinking { FIELDS_THINKING_UNSAID, FIELDS_THINKING_OFF, FIELDS_THINKING_ON };

enum {
    FIELDS_MAX_PROMPTS = 1024,
    FIELDS_MAX_TOOLS = 1024,
    FIELDS_MAX_BIASES = 4096,
    FIELDS_MAX_LOGPROB_IDS = 128,
    FIELDS_MAX_BAD_WORDS = 256,
    FIELDS_MAX_BAD_BYTES = 128,  /* of a bad word */
    FIELDS_MAX_DEPTH = 64,       /* of nested lists and objects */
    FIELDS_MAX_LISTS = 65536,    /* lists and objects */
    FIELDS_MAX_VALUES = 4259840, /* values after a comma: more than the tokens that /detokenize takes */
};

/* Called for a field without effect, because it is unknown, or because its row says so. */
typedef void fields_unknown(void *ctx, const char *name);

/* The values of a request are the MEMBER rows of fields.def. JSON is borrowed from the body. */
#define MEMBER(group, type, name, otherwise) MEMBER_##group(type, name)
#define MEMBER_output(type, name)
#define MEMBER_generation(type, name)
#define MEMBER_input(type, name) type name;
/* What the answer continues. */
struct fields_input {
#include "api/fields.def"
};
#undef MEMBER_input
#define MEMBER_input(type, name)
#undef MEMBER_output
#define MEMBER_output(type, name) type name;
/* What the answer has. */
struct fields_output {
#include "api/fields.def"
};
#undef MEMBER_output
#define MEMBER_output(type, name)
#undef MEMBER_generation
#define MEMBER_generation(type, name) type name;
/* How many answers and tokens there are, what ends them, and which tokens are chosen. */
struct fields_generation {
#include "api/fields.def"
};
#undef MEMBER_input
#undef MEMBER_output
#undef MEMBER_generation
#undef MEMBER

struct fields {
    json_t *body;       /* owned */
    json_t *own;        /* what a dialect made of it; owned */
    json_t *tool_names; /* of the functions that tool_choice allows, as a list; NULL: all; owned */
    struct fields_input input;
    struct fields_output output;
    struct fields_generation generation;
    /* The rows of engine/sampling/sampling.def that requests have; those that are given are marked. */
    struct sampling sampling;
    const char *model, *request_id, *cache_salt, *user;
    const json_t *request_ids;
    int64_t priority;
    char param[128]; /* the field that an error is about */
    fields_unknown *unknown;
    void *unknown_ctx;
};

/* Reads TEXT [n], a JSON object, for ENDPOINT. 0, ERR_INPUT, ERR_UNSUPPORTED or ERR_NOMEM; then F->param
 * names the field at fault, or is "". F needs fields_fini() in any case. */
int fields_read(struct fields *f, unsigned endpoint, const char *text, size_t n, fields_unknown *unknown,
                void *ctx, struct err *e);
/* Frees everything but numbers and the fields that an answer repeats, once the request is submitted. A list
 * remains only as a sign that it was given. */
void fields_forget(struct fields *f, unsigned endpoint);
void fields_fini(struct fields *f);

/* Notes that an error is about the field NAME. Returns RC. */
int fields_blame(struct fields *f, const char *name, int rc);

/* The field that ENDPOINT needs, or NULL. */
const char *fields_needed(unsigned endpoint);

/* Writes the tables of docs/API.md. */
void fields_document(struct buf *out);

/* Writes the JSON Schema of the body of ENDPOINT. MODELS: the values that `model` may have, as a JSON list.
 */
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
