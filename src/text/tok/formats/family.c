/* family.c - the table of families, with the published patterns that the models were trained with. */
#include <stdio.h>
#include <string.h>

#include "text/tok/formats/family.h"

#include "text/tok/added.h"
#include "text/tok/build.h"
#include "text/tok/steps.h"

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
#define TEKKEN                                                                                             \
    "[^\\r\\n\\p{L}\\p{N}]?[" UPPER "]*[" LOWER "]+|[^\\r\\n\\p{L}\\p{N}]?[" UPPER "]+[" LOWER "]*|\\p{N}" \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" BLANKS
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"
#define QWEN35 \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" BLANKS
#define DEEPSEEK                                                                                        \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+" \
    "| ?[\\p{P}\\p{S}]+[\\r\\n]*|" BLANKS
#define KIMI "[\\p{Han}]+|" CASED(UPPER "&&[^\\p{Han}]", LOWER "&&[^\\p{Han}]") "[\\r\\n]*|" BLANKS

static const struct family_special gpt2_special[] = {{"<|endoftext|>", 50256, 1, 0}, {NULL, 0, 0, 0}};
static const struct family_special cl100k_special[] = {
    {"<|endoftext|>", 100257, 1, 0},  {"<|fim_prefix|>", 100258, 1, 0},  {"<|fim_middle|>", 100259, 1, 0},
    {"<|fim_suffix|>", 100260, 1, 0}, {"<|endofprompt|>", 100276, 1, 0}, {NULL, 0, 0, 0},
};
static const struct family_special o200k_special[] = {
    {"<|endoftext|>", 199999, 1, 0}, {"<|endofprompt|>", 200018, 1, 0}, {NULL, 0, 0, 0}};
static const struct family_special qwen_special[] = {{"<|endoftext|>", 151643, 1, 0},
                                                     {"<|im_start|>", 151644, 1, 0},
                                                     {"<|im_end|>", 151645, 1, 0},
                                                     {NULL, 0, 0, 0}};
static const struct family_special llama3_special[] = {
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

/* clang-format off */
static const struct family family[] = {
    {.name = "GPT-2", .n_ranks = 50256, .special = gpt2_special,
     .known_as[FAMILY_CLASS] = " GPT2Tokenizer GPT2TokenizerFast CodeGenTokenizer CodeGenTokenizerFast OPTTokenizer ",
     .known_as[FAMILY_MODEL] = " gpt2 gptj opt phi codegen ",
     .known_as[FAMILY_PRE] = " gpt-2 phi-2 gigachat mellum exaone4 trillion granite-docling jais "},
    {.name = "p50k", .n_ranks = 50280, .special = gpt2_special},
    {.name = "RoBERTa", .known_as[FAMILY_CLASS] = " RobertaTokenizer RobertaTokenizerFast "},
    {.name = "cl100k", .pattern = CL100K, .n_ranks = 100256, .special = cl100k_special,
     .known_as[FAMILY_PRE] = " dbrx smaug-bpe glm4 chatglm-bpe "},
    {.name = "Llama 3", .pattern = CL100K, .n_ranks = 128000, .bos = "<|begin_of_text|>",
     .special = llama3_special, .known_as[FAMILY_PRE] = " llama-bpe llama3 llama-v3 falcon3 midm-2.0 lfm2 ",
     .ignore_merges = true, .pre_bos = true},
    {.name = "Qwen", .pattern = QWEN2, .nfc = true, .n_ranks = 151643, .special = qwen_special,
     .known_as[FAMILY_CLASS] = " Qwen2Tokenizer Qwen2TokenizerFast QWenTokenizer ",
     .known_as[FAMILY_MODEL] = " qwen2 qwen3 qwen2_moe qwen3_moe ", .known_as[FAMILY_PRE] = " qwen2 megrez "},
    {.name = "o200k", .pattern = O200K, .n_ranks = 199998, .special = o200k_special,
     .known_as[FAMILY_PRE] = " gpt-4o kanana2 ", .ignore_merges = true},
    {.name = "Llama 4", .pattern = O200K, .n_ranks = 200000, .bos = "<|begin_of_text|>",
     .known_as[FAMILY_PRE] = " llama4 "},
    {.name = "Kimi K2", .pattern = KIMI, .n_ranks = 163584, .known_as[FAMILY_CLASS] = " TikTokenTokenizer "},
    /* The following families occur in GGUF files only. */
    {.name = "Qwen without NFC", .pattern = QWEN2,
     .known_as[FAMILY_PRE] = " deepseek-r1-qwen hunyuan grok-2 solar-open stablelm2 "},
    {.name = "Qwen 3.5", .pattern = QWEN35, .known_as[FAMILY_PRE] = " qwen35 "},
    {.name = "Tekken", .pattern = TEKKEN, .known_as[FAMILY_PRE] = " tekken ",
     .ignore_merges = true, .pre_bos = true},
    {.name = "digits", .before = {"\\p{N}"},
     .known_as[FAMILY_PRE] = " smollm starcoder refact codeshell minerva-7b "},
    {.name = "Command R", .nfc = true, .before = {"\\p{N}"}, .known_as[FAMILY_PRE] = " command-r "},
    {.name = "NeoX", .nfc = true, .known_as[FAMILY_PRE] = " olmo mpt "},
    {.name = "DeepSeek V3", .pattern = DEEPSEEK, .before = {"\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+"},
     .known_as[FAMILY_PRE] = " deepseek-v3 hunyuan-dense joyai-llm "},
    {.name = "llama.cpp's default", .before = {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+"},
     .pattern = "[0-9][0-9][0-9]", .known_as[FAMILY_PRE] = " default "},
};
/* clang-format on */

enum { N_FAMILIES = sizeof(family) / sizeof(*family) };

const struct family *family_of_ranks(size_t n_ranks)
{
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (n_ranks && family[i].n_ranks == n_ranks)
            return &family[i];
    return NULL;
}

const struct family *family_known_as(enum family_name by, const char *name, size_t n)
{
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (family[i].known_as[by] && tok_is_among(family[i].known_as[by], name, n))
            return &family[i];
    return NULL;
}

int family_apply(const struct family *f, struct tok *t, bool prefix_space, struct err *e)
{
    static const struct step nfc = {.kind = NORMALIZE_FORM, .form = NORMALIZE_NFC},
                             decode = {.kind = DECODE_BYTE_LEVEL}, isolated = {.behavior = SPLIT_ISOLATED};
    int rc = 0;

    if (f->nfc)
        rc = tok_add_step(&t->norm, nfc, "normalizer", e);
    for (size_t i = 0; i < sizeof(f->before) / sizeof(*f->before) && f->before[i] && rc == 0; i++)
        rc = tok_add_split(t, f->before[i], strlen(f->before[i]), isolated, e);
    if (rc == 0 && f->pattern)
        rc = tok_add_split(t, f->pattern, strlen(f->pattern), isolated, e);
    if (rc == 0)
        rc = tok_add_byte_level(t, prefix_space, !f->pattern, e);
    return rc ? rc : tok_add_step(&t->chain, decode, "decoder", e);
}

int family_add_special(const struct family *f, struct tok *t, struct err *e)
{
    int rc = 0;

    for (const struct family_special *s = f->special; s && s->content && rc == 0; s++) {
        const char *number = strstr(s->content, "%u");

        for (uint32_t k = 0; k < s->n && rc == 0; k++) {
            struct tok_added a = {.id = s->id + k, .special = true};
            char content[64];

            if (number)
                snprintf(content, sizeof(content), "%.*s%u%s", (int)(number - s->content), s->content,
                         s->first + k, number + 2);
            else
                snprintf(content, sizeof(content), "%s", s->content);
            rc = tok_add_token(t, a, content, strlen(content), e);
        }
    }
    return rc;
}
