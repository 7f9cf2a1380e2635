/* embed.h - the steps from a text to the tokens whose hidden states are pooled, and from the pooled state to
 * the embedding, as an embedder says. Any thread may take them. */
#ifndef GALLOP_ENGINE_EMBEDDINGS_EMBED_H
#define GALLOP_ENGINE_EMBEDDINGS_EMBED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct embedder;
struct err;
struct tok;
struct tok_ids;

/* Encodes TEXT [n] with the default prompt, and appends its tokens to IDS, which is empty. SPECIAL: add BOS
 * and similar tokens; without an effect on messages, whose template writes them. The tokens that the
 * tokenizer puts around a text, and what the template writes behind the message, are kept when the text is
 * cut. Sets *N_CUT to the number of tokens that were cut. */
int embed_text(const struct embedder *x, const struct tok *tok, const char *text, size_t n, bool special,
               struct tok_ids *ids, size_t *n_cut, struct err *e);

/* Cuts a prompt of tokens: sets *IDS and *N to the part of them that is kept. Returns the number of the
 * others. */
size_t embed_ids(const struct embedder *x, const int32_t **ids, size_t *n);

/* Returns the number of elements of an embedding that is made of a pooled state of N. X may be NULL. */
size_t embed_size(const struct embedder *x, size_t n);

/* Returns the embedding [embed_size()] made of the pooled hidden state STATE [n] by the Dense modules, cut
 * and, if NORMALIZE, scaled to Euclidean length 1 (zeros stay zeros). N has passed dense_check(). X NULL: the
 * state is only scaled. NULL: out of memory. The caller frees the result with mem_free(). */
float *embed_vector(const struct embedder *x, const float *state, size_t n, bool normalize);

#endif
