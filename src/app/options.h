/* options.h - option rows that several verbs share, and the structs that they are read into. */
#ifndef GALLOP_APP_OPTIONS_H
#define GALLOP_APP_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/opt.h"
#include "engine/engine.h"
#include "engine/sampling/sampling.h"

/* The groups of a help page, in their order. */
enum options_group { EVERYDAY, SERVER, PROMPT, SAMPLING, LOAD, MODEL, SCHEDULING, CACHE, COMPUTING, OUTPUT };
extern const char *const options_headings[]; /* NULL ends the list */

/* Read into struct load (load.h). */
extern const struct opt_row options_model[];      /* --model */
extern const struct opt_row options_source[];     /* how the model is found */
extern const struct opt_row options_engine[];     /* what an engine is opened with */
extern const struct opt_row options_scheduling[]; /* which requests are computed when */

/* Read into struct options_sampling: the fields of a request. */
extern const struct opt_row options_sampling[];

/* Read into struct options_output. */
extern const struct opt_row options_force[]; /* for verbs that write files (save.c) */
extern const struct opt_row options_json[];
extern const struct opt_row options_help[];

extern const struct opt_row *const options_shared[]; /* all of these arrays; NULL ends the list */

struct options_output {
    bool force, json, quiet;
    const char *help; /* "", "all"; NULL: not asked for */
};

/* Whether the text of messages may hold special tokens, for verbs that render chats: a row for INTO, a bool. */
#define OPTION_USER_TEXT(group, into_member)                                                                     \
    {                                                                                                            \
        "user-text", 0, OPT_CHOICE, NULL, group,                                                                 \
            .help =                                                                                              \
                "how special tokens in the text of messages are read: as special tokens or as plain text",       \
            .choices = "special|plain", .fallback = "special",                                                   \
            .manual =                                                                                            \
                "With plain, nothing that a chat template is given (messages, tools, documents, variables) can " \
                "become a control token of the model; the control tokens of the template itself stay. Added "    \
                "tokens that are not special are read as tokens in any case.",                                   \
            into_member                                                                                          \
    }

/* What the sampling options say: a record of those that were given, which are marked, and the lists. */
struct options_sampling {
    struct sampling s;
#define SAMPLING_LIST(field, name, ...) struct opt_list name;
#include "engine/sampling/sampling.def"
};

void options_sampling_init(struct options_sampling *o);

/* Takes the lists of O, which was read, into O->s; they live in A. Warns of options that change nothing. */
int options_sampling_finish(struct options_sampling *o, struct arena *a, struct err *e);

/* Gives S a random seed of 32 bits where it has none, nor has CONFIG, and tokens are drawn at random. *DRAWN:
 * they are. */
int options_draw_seed(struct sampling *s, const struct sampling *config, bool *drawn, struct err *e);

/* Checks the values of options_engine that can be checked without the model (ERR_USAGE). */
int options_check_engine(const struct gallop_options *o, struct err *e);

/* Writes the sentence of E to OUT [size]. Where E has a subject, it and the options of LIST that the sentence names as
 * struct gallop_options does become flags: "--kv-cache-memory: ..., or --max-model-len 512 or less". */
void options_error_text(const struct opt_part *list, const struct err *e, char *out, size_t size);

#endif
