/* ggufmake.h - reading metadata and writing a config at once: the first error stays, later calls do nothing.
 * For ggufconf.c and ggufrope.c.
 */
#ifndef GALLOP_CKPT_GGUFMAKE_H
#define GALLOP_CKPT_GGUFMAKE_H

#include <jansson.h>

#include "ckpt/ggufarch.h"

struct ggufmake {
    struct ggufset *s;
    const struct ggufarch *a;
    json_t *o; /* the config that grows */
    struct err *e;
    int rc; /* of the first error */
};

/* What NAME.KEY of the metadata says; REQUIRED: it must be there. 0 after an error. */
int64_t ggufmake_int(struct ggufmake *m, const char *key, int64_t def, int64_t lo, int64_t hi);
int64_t ggufmake_need(struct ggufmake *m, const char *key, int64_t hi);
double ggufmake_float(struct ggufmake *m, const char *key, double def);
bool ggufmake_has(struct ggufmake *m, const char *key);
struct jp_str ggufmake_text(struct ggufmake *m, const char *key); /* s NULL: missing */

void ggufmake_put(struct ggufmake *m, const char *key, json_t *v); /* takes V; NULL: out of memory */
void ggufmake_put_int(struct ggufmake *m, const char *key, int64_t v);
void ggufmake_put_float(struct ggufmake *m, const char *key, double v);
void ggufmake_put_bool(struct ggufmake *m, const char *key, bool v);
void ggufmake_put_str(struct ggufmake *m, const char *key, const char *v);

/* Sets the error "PATH: ..." unless there is one. */
void ggufmake_fail(struct ggufmake *m, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* rope_theta, rope_scaling and partial_rotary_factor of a head of HEAD_DIM dims: ggufrope.c. */
void ggufrope_put(struct ggufmake *m, int64_t head_dim, int64_t context);

#endif
