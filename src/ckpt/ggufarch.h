/* ggufarch.h - which architectures of GGUF are understood, and what Hugging Face calls them. */
#ifndef GALLOP_CKPT_GGUFARCH_H
#define GALLOP_CKPT_GGUFARCH_H

#include <stdbool.h>

#include "ckpt/ggufset.h"

enum ggufarch_id {
    GGUFARCH_LLAMA,
    GGUFARCH_MIXTRAL, /* GGUF calls it llama too */
    GGUFARCH_QWEN2,
    GGUFARCH_QWEN3,
    GGUFARCH_QWEN3MOE,
    GGUFARCH_PHI3,
    GGUFARCH_GEMMA3,
    GGUFARCH_GPT2,
    GGUFARCH_GPT_OSS,
};

struct ggufarch {
    enum ggufarch_id id;
    const char *name;       /* general.architecture, and the prefix of its keys */
    bool experts;           /* its expert_count is not 0 */
    const char *class_name; /* architectures[0] of a config.json */
    const char *model_type;
};

/* What the metadata of S describe. ERR_UNSUPPORTED names an architecture that is not in the table. */
int ggufarch_of(const struct ggufarch **a, struct ggufset *s, struct err *e);

/* The integer NAME.KEY of the metadata ("attention.head_count"), as gguf_int(). */
int ggufarch_int(const struct ggufarch *a, struct ggufset *s, const char *key, int64_t def, int64_t lo,
                 int64_t hi, int64_t *v, struct err *e);

#endif
