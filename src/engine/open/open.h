/* open.h - opens what an engine and the public executor (gallop_executor.c) are made of, from the options of gallop.h:
 * the model with its generation config, and the executor.
 */
#ifndef GALLOP_ENGINE_OPEN_H
#define GALLOP_ENGINE_OPEN_H

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct err;
struct executor;
struct frames;
struct gallop;
struct gallop_options;
struct llm;
struct llm_source;
struct plugin_source;
struct sampling;

/* Checks O, downloads the model if it is on a hub, and fills *S. IS_EXECUTOR: O opens an executor, which has
 * no prefix cache. */
int engine_read_source(const struct gallop_options *o, bool is_executor, struct llm_source *s, struct err *e);

/* Calls llm_open(), and reads generation_config.json and the end tokens of config.json into *CONFIG, whose
 * arrays are allocated in A. */
int engine_open_llm(struct llm *m, const struct gallop_options *o, const struct llm_source *s,
                    struct sampling *config, struct arena *a, struct err *e);

/* Initializes *X as the executor of O, which borrows M. If it is "pjrt", opens *PLUGIN and *FRAMES, which
 * borrows M and *PLUGIN; the caller closes both with engine_close_executor(), also after an error. MOST_ROWS limits the
 * rows of a step in addition to the limit of M. MOST_GUESSES: the maximum number of guesses of a decoding sequence in a
 * step. */
int engine_open_executor(struct executor *x, struct frames **frames, struct plugin_source **plugin,
                         struct llm *m, const struct gallop_options *o, size_t most_rows, size_t most_guesses,
                         struct err *e);

/* Closes F and PLUGIN, which may be NULL. Returns false if a call of the plugin has not returned: then these, and the
 * model, must stay (frames.h). */
bool engine_close_executor(struct frames *f, struct plugin_source *plugin);

/* Fills g->model and g->info, except has_priorities. MODEL is the name or path that the user gave. */
int engine_read_info(struct gallop *g, const char *model, struct err *e);

#endif
