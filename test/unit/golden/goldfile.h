/* goldfile.h - reading golden folders: .npy arrays, lists of ids, and which folders there are. Test helper.
 * */
#ifndef GALLOP_TEST_GOLDFILE_H
#define GALLOP_TEST_GOLDFILE_H

#include <jansson.h>

struct goldfile_npy {
    float *x; /* free() */
    size_t shape[4];
    int n_dims;
};
bool goldfile_npy(const char *path, struct goldfile_npy *out); /* false: not there */
json_t *goldfile_json(const char *dir, const char *name);      /* NULL: not there */

/* Ids of a JSON list; *n of them. free(). */
int32_t *goldfile_ids(const json_t *list, size_t *n);

/* Folders below ROOT that hold golden/greedy.json: "name" each, sorted. Returns their number, at most MAX. */
size_t goldfile_list(const char *root, char names[][64], size_t max);

/* Largest |a - b| of a row over its largest |b|, the worst of N rows. *row says where. */
double goldfile_worst(const float *a, const float *b, size_t rows, size_t width, size_t *row);

#endif
