/* ggufarch.c - the table of architectures. */
#include "ckpt/ggufarch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct ggufarch table[] = {
    {GGUFARCH_LLAMA, "llama", false, "LlamaForCausalLM", "llama"},
    {GGUFARCH_MIXTRAL, "llama", true, "MixtralForCausalLM", "mixtral"},
    {GGUFARCH_QWEN2, "qwen2", false, "Qwen2ForCausalLM", "qwen2"},
    {GGUFARCH_QWEN3, "qwen3", false, "Qwen3ForCausalLM", "qwen3"},
    {GGUFARCH_QWEN3MOE, "qwen3moe", true, "Qwen3MoeForCausalLM", "qwen3_moe"},
    {GGUFARCH_PHI3, "phi3", false, "Phi3ForCausalLM", "phi3"},
    {GGUFARCH_GEMMA3, "gemma3", false, "Gemma3ForCausalLM", "gemma3_text"},
    {GGUFARCH_GPT2, "gpt2", false, "GPT2LMHeadModel", "gpt2"},
    {GGUFARCH_GPT_OSS, "gpt-oss", true, "GptOssForCausalLM", "gpt_oss"},
};

enum { N_ARCHS = sizeof(table) / sizeof(*table), MAX_EXPERTS = 4096 };

int ggufarch_int(const struct ggufarch *a, struct ggufset *s, const char *key, int64_t def, int64_t lo,
                 int64_t hi, int64_t *v, struct err *e)
{
    char full[96];

    snprintf(full, sizeof(full), "%s.%s", a->name, key);
    return gguf_int(&s->part[0], full, def, lo, hi, v, e);
}

/* A file may also hold an adapter or the vision part of a model. */
static int check_type(struct gguf *g, struct err *e)
{
    struct jp_str type;
    int rc = gguf_text(g, "general.type", &type, e);

    if (rc || !type.s || jp_is(&type, "model"))
        return rc;
    return err_set(e, ERR_UNSUPPORTED, "%s: general.type is %.*s, expected is model", g->path,
                   type.n < 60 ? (int)type.n : 60, type.s);
}

static int unknown(const struct gguf *g, const struct jp_str *name, struct err *e)
{
    char known[200] = "";

    for (int i = 0; i < N_ARCHS; i++)
        if (i == 0 || strcmp(table[i].name, table[i - 1].name) != 0)
            snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s", i ? ", " : "",
                     table[i].name);
    return err_set(e, ERR_UNSUPPORTED, "%s: general.architecture %.*s is not supported (known: %s)", g->path,
                   name->n < 60 ? (int)name->n : 60, name->s, known);
}

int ggufarch_of(const struct ggufarch **a, struct ggufset *s, struct err *e)
{
    struct gguf *g = &s->part[0];
    struct jp_str name;
    int64_t experts;
    int rc;

    *a = NULL;
    if ((rc = gguf_text(g, "general.architecture", &name, e)) != 0 || (rc = check_type(g, e)) != 0)
        return rc;
    if (!name.s)
        return err_set(e, ERR_INPUT, "%s: general.architecture is missing", g->path);
    for (int i = 0; i < N_ARCHS; i++) {
        if (!jp_is(&name, table[i].name))
            continue;
        *a = &table[i];
        if ((rc = ggufarch_int(*a, s, "expert_count", 0, 0, MAX_EXPERTS, &experts, e)) != 0)
            return rc;
        if ((experts > 0) == table[i].experts)
            return 0;
    }
    if (!*a)
        return unknown(g, &name, e);
    return err_set(e, ERR_UNSUPPORTED,
                   "%s: %s.expert_count is %" PRId64 ", which this architecture does not go with", g->path,
                   (*a)->name, experts);
}
