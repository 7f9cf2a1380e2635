/* goldfile.h - reads golden folders: .npy arrays, lists of ids, and the list of the folders. */
#ifndef GALLOP_TEST_GOLDFILE_H
#define GALLOP_TEST_GOLDFILE_H

#include <jansson.h>

struct goldfile_npy {
    float *x; /* free() */
    size_t shape[4];
    int n_dims;
};
bool goldfile_npy(const char *path, struct goldfile_npy *out); /* Returns false if the file does not exist. */
json_t *goldfile_json(const char *dir, const char *name);      /* Returns NULL if the file does not exist. */

/* Returns the *N ids of a JSON list. free(). */
int32_t *goldfile_ids(const json_t *list, size_t *n);

/* Lists the folders of ROOT that hold golden/greedy.json: their names, sorted. Returns their number, at most
 * MAX. */
size_t goldfile_list(const char *root, char names[][64], size_t max);

/* Returns the largest |a - b| of a row over its largest |b|, the worst of all rows, and sets *row to its
 * number. */
double goldfile_worst(const float *a, const float *b, size_t rows, size_t width, size_t *row);

#endif
