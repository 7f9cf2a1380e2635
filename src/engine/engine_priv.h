/* engine_priv.h - the parts of an opened engine, for measurements, `gallop inspect` and tests.
 *
 * The server must not include this header (tools/lint.d/floors).
 */
#ifndef GALLOP_ENGINE_ENGINE_PRIV_H
#define GALLOP_ENGINE_ENGINE_PRIV_H

struct constraints;
struct frames;
struct gallop;
struct guess_sources;
struct llm;
struct step;

struct llm *engine_llm(struct gallop *g);
const struct constraints *engine_constraints(const struct gallop *g);
struct step *engine_loop(const struct gallop *g);
const struct frames *engine_frames(const struct gallop *g); /* the executor "pjrt"; NULL: another executor */
const struct guess_sources *engine_guesses(const struct gallop *g); /* NULL: no speculative decoding */

#endif
