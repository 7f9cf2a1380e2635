/* goldfile.c - see goldfile.h. */
#include "goldfile.h"

#include <dirent.h>
#include <math.h>
#include <unistd.h>

bool goldfile_npy(const char *path, struct goldfile_npy *out)
{
    FILE *f = fopen(path, "rb");
    unsigned char prefix[10];
    char head[4096], *p;
    size_t len, n = 1;

    *out = (struct goldfile_npy){0};
    if (!f)
        return false;
    if (fread(prefix, 1, 10, f) != 10 || memcmp(prefix, "\x93NUMPY", 6) != 0)
        abort();
    len = prefix[8] + 256u * prefix[9];
    if (len >= sizeof(head) || fread(head, 1, len, f) != len)
        abort();
    head[len] = 0;
    if (!strstr(head, "'<f4'") || strstr(head, "'fortran_order': True"))
        abort();
    p = strstr(head, "'shape': (") + 10;
    while (*p != ')') {
        out->shape[out->n_dims] = strtoul(p, &p, 10);
        n *= out->shape[out->n_dims++];
        while (*p == ',' || *p == ' ')
            p++;
    }
    out->x = malloc(n * sizeof(float) + 1);
    if (!out->x || fread(out->x, sizeof(float), n, f) != n)
        abort();
    fclose(f);
    return true;
}

json_t *goldfile_json(const char *dir, const char *name)
{
    char path[8192];
    json_error_t e;

    snprintf(path, sizeof(path), "%s/golden/%s", dir, name);
    return json_load_file(path, 0, &e);
}

int32_t *goldfile_ids(const json_t *list, size_t *n)
{
    int32_t *ids;

    *n = json_array_size(list);
    ids = malloc((*n + 1) * sizeof(*ids));
    for (size_t i = 0; i < *n; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return ids;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

size_t goldfile_list(const char *root, char names[][64], size_t max)
{
    DIR *d = opendir(root);
    struct dirent *x;
    size_t n = 0;

    while (d && (x = readdir(d)) != NULL && n < max) {
        char path[8192];

        snprintf(path, sizeof(path), "%s/%s/golden/greedy.json", root, x->d_name);
        if (strlen(x->d_name) < 64 && access(path, R_OK) == 0)
            strcpy(names[n++], x->d_name);
    }
    if (d)
        closedir(d);
    qsort(names, n, 64, by_name);
    return n;
}

double goldfile_worst(const float *a, const float *b, size_t rows, size_t width, size_t *row)
{
    double worst = -1;

    *row = 0;
    for (size_t r = 0; r < rows; r++) {
        double most = 0, off = 0;

        for (size_t i = 0; i < width; i++) {
            double d = fabs((double)a[r * width + i] - (double)b[r * width + i]);

            off = d > off || isnan(d) ? d : off;
            most = fmax(most, fabs((double)b[r * width + i]));
        }
        off = most > 0 ? off / most : off;
        if (off > worst || isnan(off)) {
            worst = isnan(off) ? INFINITY : off;
            *row = r;
        }
    }
    return worst;
}
