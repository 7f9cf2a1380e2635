/* options.h - option rows that several verbs share, and the structs that they are read into. */
#ifndef GALLOP_APP_OPTIONS_H
#define GALLOP_APP_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/opt.h"
#include "engine/sampling/sampling.h"

struct gallop_options;

/* The groups of a help page, in their order. */
enum options_group { EVERYDAY, SERVER, PROMPT, SAMPLING, LOAD, MODEL, SCHEDULING, CACHE, COMPUTING, OUTPUT };
extern const char *const options_headings[]; /* NULL ends the list */

/* Rows that are read into struct load (load.h). */
extern const struct opt_row options_model[];      /* --model */
extern const struct opt_row options_source[];     /* how to find the model */
extern const struct opt_row options_engine[];     /* options of an engine */
extern const struct opt_row options_scheduling[]; /* order and limits of requests */

/* Sampling fields of a request, which are read into struct options_sampling. */
extern const struct opt_row options_sampling[];

/* Rows that are read into struct options_output. */
extern const struct opt_row options_force[]; /* for verbs that write files (save.c) */
extern const struct opt_row options_json[];
extern const struct opt_row options_help[];

extern const struct opt_row *const options_shared[]; /* all of these arrays; NULL ends the list */

struct options_output {
    bool force, json, quiet;
    const char *help; /* value of --help: "" or "all"; NULL: --help was not given */
};

/* The row of --user-text, for verbs that render chats. INTO_MEMBER names a bool, which becomes true for plain. */
#define OPTION_USER_TEXT(group, into_member)                                                                     \
    {                                                                                                            \
        "user-text", 0, PARAM_CHOICE, NULL, group,                                                               \
            .help =                                                                                              \
                "how special tokens in the text of messages are read: as special tokens or as plain text",       \
            .values = "special|plain", .fallback = "special",                                                    \
            .manual =                                                                                            \
                "With plain, nothing that a chat template is given (messages, tools, documents, variables) can " \
                "become a control token of the model; the control tokens of the template itself stay. Added "    \
                "tokens that are not special are read as tokens in any case.",                                   \
            into_member                                                                                          \
    }

/* The values of the sampling options. S holds the fields, and marks which of them were given. The lists hold
 * the values of repeatable options until options_sampling_finish() copies them to S. */
struct options_sampling {
    struct sampling s;
#define SAMPLING_LIST(field, name, ...) struct param_list name;
#include "engine/sampling/sampling.def"
};

void options_sampling_init(struct options_sampling *o);

/* Copies the lists of O into O->s, allocated in A, after options were read into O. Warns about options that --greedy
 * overrides. */
int options_sampling_finish(struct options_sampling *o, struct arena *a, struct err *e);

/* Sets *DRAWN to whether tokens are drawn at random with the parameters S and, for those not given in S,
 * CONFIG. If so, and if neither S nor CONFIG has a seed, S gets a random 32-bit seed. */
int options_draw_seed(struct sampling *s, const struct sampling *config, bool *drawn, struct err *e);

/* Checks the values of options_engine that can be checked without the model (ERR_USAGE). */
int options_check_engine(const struct gallop_options *o, struct err *e);

/* Writes the sentence of E to OUT [size]. If E has a subject, names of members of struct gallop_options in
 * the sentence are replaced by the names of their options in LIST: "max_model_len" becomes
 * "--max-model-len". */
void options_error_text(const struct opt_part *list, const struct err *e, char *out, size_t size);

#endif
