/* engine_priv.h - the parts of an opened engine, for measurements, `gallop inspect` and tests, and the functions that
 * the engine and the public executor (gallop_executor.c) share: reading options and opening the model.
 *
 * The server must not include this header (tools/lint.d/floors).
 */
#ifndef GALLOP_ENGINE_ENGINE_PRIV_H
#define GALLOP_ENGINE_ENGINE_PRIV_H

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct constraints;
struct err;
struct executor;
struct gallop;
struct gallop_options;
struct llm;
struct llm_source;
struct plugin_source;
struct sampling;
struct step;

struct llm *engine_llm(struct gallop *g);
const struct constraints *engine_constraints(const struct gallop *g);
struct step *engine_loop(struct gallop *g); /* the step, for tests that replace the executor */
const struct step *engine_scheduling(const struct gallop *g);
const struct frames *engine_frames(const struct gallop *g); /* the executor "pjrt"; NULL: another executor */
struct guess_sources;
const struct guess_sources *engine_guesses(const struct gallop *g); /* NULL: no speculative decoding */

/* ---- for gallop_executor.c ---- */

/* Checks O, downloads the model if it is on a hub, and fills *S. IS_EXECUTOR: O opens an executor, which has
 * no prefix cache. */
int engine_read_source(const struct gallop_options *o, bool is_executor, struct llm_source *s, struct err *e);

/* Calls llm_open(), and reads generation_config.json and the end tokens of config.json into *CONFIG, whose
 * arrays are allocated in A. */
int engine_open_llm(struct llm *m, const struct gallop_options *o, const struct llm_source *s,
                    struct sampling *config, struct arena *a, struct err *e);

/* Initializes *X as the executor of O, which borrows M. If it is "pjrt", fills *PLUGIN and opens *FRAMES, which borrows
 * both. MOST_ROWS limits the rows of a step in addition to the limit of M. MOST_GUESSES: the maximum number of guesses
 * of a decoding sequence in a step. */
int engine_open_executor(struct executor *x, struct frames **frames, struct plugin_source *plugin,
                         struct llm *m, const struct gallop_options *o, size_t most_rows, size_t most_guesses,
                         struct err *e);

#endif
