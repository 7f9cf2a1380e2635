/* fields.h - reads the fields of a request from JSON, as the table fields.def defines them.
 *
 * Every field has a type, a range and a maximum size, and an error names its field. A null field counts as
 * absent. A field that would change the answer but is not supported is refused by name. An unknown field
 * is accepted with a warning in the log. FIELDS_LINE is different: its members that are not in the table are sampling
 * parameters with the names of sampling.def, and others are refused.
 */
#ifndef GALLOP_CHAT_FIELDS_H
#define GALLOP_CHAT_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "text/markup/tools.h"

struct buf;
struct err;
struct sampling;

/* The endpoints: one bit for each route of routes.def whose requests have a body. */
#define COMPUTED(letter, name, path, needs, form, gives, says)            FIELDS_AT_##name,
#define HANDLED(letter, name, path, needs, access, function, gives, says) FIELDS_AT_##name,
#define ANSWERED(path, access, function, gives, says)
#define WRITTEN(path, access, function, gives, says)
enum fields_at {
#include "chat/routes.def"
    FIELDS_N_ENDPOINTS
};
#undef COMPUTED
#undef HANDLED
#define COMPUTED(letter, name, path, needs, form, gives, says) FIELDS_##name = 1 << FIELDS_AT_##name,
#define HANDLED(letter, name, path, needs, access, function, gives, says) \
    FIELDS_##name = 1 << FIELDS_AT_##name,
enum {
#include "chat/routes.def"
    FIELDS_OPTIONS = 1 << FIELDS_N_ENDPOINTS, /* fields of the member `options` in Ollama's requests */
    FIELDS_LINE = FIELDS_OPTIONS << 1,        /* lines of `gallop run --batch` in Gallop's own format */
    FIELDS_END = FIELDS_LINE << 1,            /* above all endpoint bits */

    /* endpoints that answer with embeddings */
    FIELDS_POOLED = FIELDS_EMBEDDINGS | FIELDS_EMBED | FIELDS_EMBED_ONE
};
#undef COMPUTED
#undef HANDLED
#undef ANSWERED
#undef WRITTEN

/* Whether the request sets the chat template's switch for thinking before the answer. */
enum fields_thinking { FIELDS_THINKING_UNSAID, FIELDS_THINKING_OFF, FIELDS_THINKING_ON };

enum {
    FIELDS_MAX_PROMPTS = 1024,
    FIELDS_MAX_TOOLS = 1024,
    FIELDS_MAX_BIASES = 4096,
    FIELDS_MAX_LOGPROB_IDS = 128,
    FIELDS_MAX_DEPTH = 64,                     /* maximum nesting depth of lists and objects */
    FIELDS_MAX_LISTS = 65536,                  /* maximum number of lists and objects in a body */
    FIELDS_MAX_MEMBERS = 4 * FIELDS_MAX_LISTS, /* maximum number of members of all objects in a body */
    FIELDS_MAX_FIELDS = 1024,                  /* maximum number of members of the body itself */
    /* maximum number of commas in a body: above the maximum number of tokens of /detokenize */
    FIELDS_MAX_VALUES = 4259840,
};

/* Called with the NAME of a field that is accepted but has no effect. */
typedef void fields_unknown(void *ctx, const char *name);

/* The members of the next three structs are the MEMBER rows of fields.def. JSON members are borrowed from the
 * parsed body. */
#define MEMBER(group, type, name, otherwise) MEMBER_##group(type, name)
#define MEMBER_output(type, name)
#define MEMBER_generation(type, name)
#define MEMBER_input(type, name) type name;
/* The input: prompt or messages, tools, and how they are rendered. */
struct fields_input {
#include "chat/fields.def"
};
#undef MEMBER_input
#define MEMBER_input(type, name)
#undef MEMBER_output
#define MEMBER_output(type, name) type name;
/* The output: the parts that the answer contains and how it is sent. */
struct fields_output {
#include "chat/fields.def"
};
#undef MEMBER_output
#define MEMBER_output(type, name)
#undef MEMBER_generation
#define MEMBER_generation(type, name) type name;
/* The generation: number and length of answers, stop conditions, and restrictions on tokens. */
struct fields_generation {
#include "chat/fields.def"
};
#undef MEMBER_input
#undef MEMBER_output
#undef MEMBER_generation
#undef MEMBER

struct fields {
    json_t *body;       /* the parsed body; owned */
    json_t *own;        /* JSON that a dialect's reader converted from the body; owned */
    json_t *tool_names; /* list of the function names that tool_choice allows; NULL: all; owned */
    struct fields_input input;
    struct fields_output output;
    struct fields_generation generation;
    /* Sampling parameters (engine/sampling/sampling.def), owned. Those that the request sets are marked as
     * given. Lists of parameters are allocated in LISTS; the strings in them are borrowed from BODY. */
    struct sampling *sampling;
    struct arena lists;
    const char *model, *request_id, *cache_salt, *user;
    const json_t *request_ids;
    int64_t priority;
    char param[128]; /* name of the field that the latest error is about */
    fields_unknown *unknown;
    void *unknown_ctx;
};

/* Reads TEXT [n], a JSON object, as a request to ENDPOINT. OTHERWISE: the sampling parameters that it does not give;
 * NULL: neutral ones. Returns 0, ERR_INPUT, ERR_UNSUPPORTED or ERR_NOMEM; after an error F->param is the name of the
 * field, or "". Call fields_fini() in any case. */
int fields_read(struct fields *f, unsigned endpoint, const char *text, size_t n,
                const struct sampling *otherwise, fields_unknown *unknown, void *ctx, struct err *e);
/* Frees the JSON of a submitted request, except for the fields that its answer repeats. Members of F that are
 * numbers stay valid, even the lengths of freed lists. F->input.suffix becomes `true` if it was given, so
 * that it still counts as given. */
void fields_forget(struct fields *f, unsigned endpoint);
void fields_fini(struct fields *f);

/* Sets F->param to NAME, the field that the next error is about. Returns RC. */
int fields_blame(struct fields *f, const char *name, int rc);

/* Returns the name of the field that ENDPOINT requires, or NULL. */
const char *fields_needed(unsigned endpoint);

/* Writes the tables of fields in docs/API.md. */
void fields_document(struct buf *out);

/* Writes the JSON Schema of the body of ENDPOINT. MODELS: a JSON list of the allowed values of `model`. */
void fields_schema(unsigned endpoint, const char *models, struct buf *out);

/* ---- for tests ---- */

/* Gets row I of the table; returns false if I is beyond the last row. KIND: "bool", "int", "number",
 * "text", "filled", "own", "empty", "logged" or "never". RANGE: the interval of numbers, such as "[0,1]". */
struct fields_row {
    const char *name, *kind, *range;
    unsigned endpoints;
};
bool fields_row(size_t i, struct fields_row *out);

#endif
