/* embed.h - encodes texts whose hidden states are pooled, and makes embeddings from the pooled states, by the settings
 * of an embedder. Any thread may call these functions. */
#ifndef GALLOP_ENGINE_EMBEDDINGS_EMBED_H
#define GALLOP_ENGINE_EMBEDDINGS_EMBED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct embedder;
struct err;
struct tok;
struct tok_ids;

/* Encodes TEXT [n] with the default prompt, and appends its tokens to IDS, which is empty. SPECIAL: add BOS and similar
 * tokens; no effect on texts that a chat template renders, because the template writes them. A text that is too long is
 * cut; the tokens that the tokenizer or the template puts around it are kept. Sets *N_CUT to the number of tokens that
 * were cut. */
int embed_text(const struct embedder *x, const struct tok *tok, const char *text, size_t n, bool special,
               struct tok_ids *ids, size_t *n_cut, struct err *e);

/* Cuts the prompt *IDS [*N] to the maximum length: sets *IDS and *N to the tokens that are kept. Returns the number of
 * tokens that were cut. */
size_t embed_ids(const struct embedder *x, const int32_t **ids, size_t *n);

/* Returns the number of elements of the embedding of a pooled hidden state with N elements. X may be NULL. */
size_t embed_size(const struct embedder *x, size_t n);

/* Returns the embedding [embed_size()] made of the pooled hidden state STATE [n] by the Dense modules, cut
 * and, if NORMALIZE, scaled to Euclidean length 1 (zeros stay zeros). N has passed dense_check(). X NULL: the
 * state is only scaled. NULL: out of memory. The caller frees the result with mem_free(). */
float *embed_vector(const struct embedder *x, const float *state, size_t n, bool normalize);

#endif
