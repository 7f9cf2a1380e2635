/* tokfamily.c - one row a family. The patterns are those the models were trained with, as published with
 * them. */
#include "text/tokfamily.h"

#include <stdio.h>
#include <string.h>

#include "text/tokcore.h"

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define BLANKS       "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CL100K \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" BLANKS
#define QWEN2 CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" BLANKS
#define CASED(upper, lower)                                                                         \
    "[^\\r\\n\\p{L}\\p{N}]?[" upper "]*[" lower "]+" CONTRACTIONS "?|[^\\r\\n\\p{L}\\p{N}]?[" upper \
    "]+[" lower "]*" CONTRACTIONS "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+"
#define UPPER "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
#define O200K CASED(UPPER, LOWER) "[\\r\\n/]*|" BLANKS
#define KIMI  "[\\p{Han}]+|" CASED(UPPER "&&[^\\p{Han}]", LOWER "&&[^\\p{Han}]") "[\\r\\n]*|" BLANKS

static const struct tokfamily_special gpt2_special[] = {{"<|endoftext|>", 50256, 1, 0}, {NULL, 0, 0, 0}};
static const struct tokfamily_special cl100k_special[] = {
    {"<|endoftext|>", 100257, 1, 0},  {"<|fim_prefix|>", 100258, 1, 0},  {"<|fim_middle|>", 100259, 1, 0},
    {"<|fim_suffix|>", 100260, 1, 0}, {"<|endofprompt|>", 100276, 1, 0}, {NULL, 0, 0, 0},
};
static const struct tokfamily_special o200k_special[] = {
    {"<|endoftext|>", 199999, 1, 0}, {"<|endofprompt|>", 200018, 1, 0}, {NULL, 0, 0, 0}};
static const struct tokfamily_special qwen_special[] = {{"<|endoftext|>", 151643, 1, 0},
                                                        {"<|im_start|>", 151644, 1, 0},
                                                        {"<|im_end|>", 151645, 1, 0},
                                                        {NULL, 0, 0, 0}};
static const struct tokfamily_special llama3_special[] = {
    {"<|begin_of_text|>", 128000, 1, 0},
    {"<|end_of_text|>", 128001, 1, 0},
    {"<|reserved_special_token_%u|>", 128002, 2, 0},
    {"<|finetune_right_pad_id|>", 128004, 1, 0},
    {"<|reserved_special_token_%u|>", 128005, 1, 2},
    {"<|start_header_id|>", 128006, 1, 0},
    {"<|end_header_id|>", 128007, 1, 0},
    {"<|eom_id|>", 128008, 1, 0},
    {"<|eot_id|>", 128009, 1, 0},
    {"<|python_tag|>", 128010, 1, 0},
    {"<|reserved_special_token_%u|>", 128011, 245, 3},
    {NULL, 0, 0, 0},
};

static const struct tokfamily family[] = {
    {"GPT-2", NULL, false, 50256, NULL,
     " GPT2Tokenizer GPT2TokenizerFast CodeGenTokenizer CodeGenTokenizerFast OPTTokenizer ", gpt2_special},
    {"p50k", NULL, false, 50280, NULL, NULL, gpt2_special},
    {"RoBERTa", NULL, false, 0, NULL, " RobertaTokenizer RobertaTokenizerFast ", NULL},
    {"cl100k", CL100K, false, 100256, NULL, NULL, cl100k_special},
    {"Llama 3", CL100K, false, 128000, "<|begin_of_text|>", NULL, llama3_special},
    {"Qwen", QWEN2, true, 151643, NULL, " Qwen2Tokenizer Qwen2TokenizerFast QWenTokenizer ", qwen_special},
    {"o200k", O200K, false, 199998, NULL, NULL, o200k_special},
    {"Llama 4", O200K, false, 200000, "<|begin_of_text|>", NULL, NULL},
    {"Kimi K2", KIMI, false, 163584, NULL, " TikTokenTokenizer ", NULL},
};

enum { N_FAMILIES = sizeof(family) / sizeof(*family) };

const struct tokfamily *tokfamily_of_ranks(size_t n_ranks)
{
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (n_ranks && family[i].n_ranks == n_ranks)
            return &family[i];
    return NULL;
}

const struct tokfamily *tokfamily_of_class(const char *class)
{
    char word[80];

    snprintf(word, sizeof(word), " %s ", class);
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (*class && family[i].classes && strstr(family[i].classes, word))
            return &family[i];
    return NULL;
}

const struct tokfamily *tokfamily_of_model(const char *model_type)
{
    static const struct {
        const char *model_type, *class;
    } known[] = {
        {"gpt2", "GPT2Tokenizer"},   {"gptj", "GPT2Tokenizer"},       {"opt", "GPT2Tokenizer"},
        {"qwen2", "Qwen2Tokenizer"}, {"qwen3", "Qwen2Tokenizer"},     {"qwen2_moe", "Qwen2Tokenizer"},
        {"phi", "CodeGenTokenizer"}, {"codegen", "CodeGenTokenizer"}, {"qwen3_moe", "Qwen2Tokenizer"},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (strcmp(known[i].model_type, model_type) == 0)
            return tokfamily_of_class(known[i].class);
    return NULL;
}

int tokfamily_apply(const struct tokfamily *f, struct tok *t, bool prefix_space, struct err *e)
{
    struct pretok_step split = {.kind = PRETOK_SPLIT, .behavior = PRETOK_ISOLATED};
    int rc = 0;

    if (f->nfc)
        rc = normalize_add(&t->norm,
                           (struct normalize_step){.kind = NORMALIZE_FORM, .form = NORMALIZEUNI_NFC}, e);
    if (rc == 0 && f->pattern) {
        rc = pretokre_new(&split.re, f->pattern, strlen(f->pattern), true, e);
        if (rc == 0)
            rc = pretok_add(&t->pre, split, e);
    }
    if (rc == 0)
        rc = pretok_add_byte_level(&t->pre, prefix_space, !f->pattern, e);
    if (rc == 0)
        rc = detokchain_add(&t->chain, (struct detokchain_step){.kind = DETOKCHAIN_BYTE_LEVEL}, e);
    return rc;
}

int tokfamily_add_special(const struct tokfamily *f, struct tok *t, struct err *e)
{
    int rc = 0;

    for (const struct tokfamily_special *s = f->special; s && s->content && rc == 0; s++) {
        const char *number = strstr(s->content, "%u");

        for (uint32_t k = 0; k < s->n && rc == 0; k++) {
            struct tokadded_token a = {.id = s->id + k, .special = true};
            char content[64];

            if (number)
                snprintf(content, sizeof(content), "%.*s%u%s", (int)(number - s->content), s->content,
                         s->first + k, number + 2);
            else
                snprintf(content, sizeof(content), "%s", s->content);
            rc = tokcore_add_token_at(t, a, content, strlen(content), e);
        }
    }
    return rc;
}
