/* options.h - rows that several verbs have. */
#ifndef GALLOP_APP_OPTIONS_H
#define GALLOP_APP_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/opt.h"
#include "engine/engine.h"

/* Groups of a help page, in its order. */
enum options_group { EVERYDAY, SERVER, PROMPT, SAMPLING, LOAD, MODEL, SCHEDULING, CACHE, COMPUTING, OUTPUT };
extern const char *const options_headings[]; /* NULL ends the list */

extern const struct opt_row options_model[]; /* --model */
/* Whether text of messages may hold special tokens, for verbs that render chats. */
#define OPTION_USER_TEXT(group)                                                                                \
    {                                                                                                          \
        "user-text", 0, OPT_CHOICE, NULL, group,                                                               \
            .help = "special tokens in the text of messages: special reads them as such, plain as text",       \
            .choices = "special|plain", .fallback = "special",                                                 \
            .manual =                                                                                          \
                "plain keeps what a chat template is given - messages, tools, documents and variables - from " \
                "writing the model's control tokens; those that the template writes itself stay. Added "       \
                "tokens that are not special are read as tokens in any case."                                  \
    }
enum { USER_TEXT_SPECIAL, USER_TEXT_PLAIN }; /* its choices */

extern const struct opt_row options_source[];                 /* how it is found */
extern const struct opt_row options_engine[];                 /* what an engine is opened with */
extern const struct opt_row options_scheduling[];             /* who of many is computed when */
const char *options_prefix_index(const struct opt_values *v); /* which of its two names was used */

/* What the sampling options say: a record of those that were given, and the lists. */
struct options_sampling {
    struct sampling s;
#define SAMPLING_LIST(field, name, ...) struct opt_list name;
#include "engine/sampling.def"
};
extern const struct opt_row options_sampling[]; /* into struct options_sampling */

extern const struct opt_row options_force[]; /* for verbs that write files (save.c) */
extern const struct opt_row options_json[];
extern const struct opt_row options_help[];
extern const struct opt_row *const options_shared[]; /* all of them; NULL ends the list */

/* Refuses values of options_engine that are wrong with any model (ERR_USAGE) or not built in yet. */
int options_check_engine(const struct opt_values *v, struct err *e);

/* Remarks on options of one kind of cache that were given beside another kind. */
void options_remark_cache(const struct opt_values *v);

/* The sentence of E to OUT [size]. Where E has a subject, it and the options of LIST that the sentence names as struct
 * gallop_options does become flags: "--kv-cache-memory: ..., or --max-model-len 512 or less". */
void options_error_text(const struct opt_part *list, const struct err *e, char *out, size_t size);

/* The sampling options that were given, as a record marked accordingly; lists live in A. */
int options_read_sampling(const struct opt_values *v, struct sampling *s, struct arena *a, struct err *e);

/* Gives S a random seed of 32 bits where it has none, nor has CONFIG, and tokens are drawn at random. *DRAWN:
 * they are. */
int options_draw_seed(struct sampling *s, const struct sampling *config, bool *drawn, struct err *e);

#endif
