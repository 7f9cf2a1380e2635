/* inspect_model.h - what `gallop inspect` shows of a model: architecture, tensors, backends with their reasons, KV
 * cache, sizes and instruction sets.
 */
#ifndef GALLOP_APP_INSPECT_MODEL_H
#define GALLOP_APP_INSPECT_MODEL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct err;
struct gallop_options;
struct gallop_stats;
struct llm;

/* Returns the first members of the JSON object that is printed for M, which was opened with OPT, and the list of its
 * tensors. S: the figures of its engine. */
json_t *inspect_model_json(const struct llm *m, const struct gallop_options *opt,
                           const struct gallop_stats *s);
json_t *inspect_tensors_json(const struct llm *m);

/* Print the same as text. */
void inspect_print_model(const struct llm *m, const struct gallop_stats *s);
void inspect_print_kv(const struct llm *m, const struct gallop_options *opt);
void inspect_print_tensors(const struct llm *m);

/* Prints the operators of a step that computes ROWS tokens and the logits of the last one, as text or as JSON. */
int inspect_print_graph(const struct llm *m, size_t rows, bool as_json, struct err *e);

#endif
