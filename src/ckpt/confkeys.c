/* confkeys.c - the words by which keys of config.json are sorted.
 *
 * The order matters: bookkeeping first (attention_dropout holds "attention"), then the words of mathematics,
 * searched anywhere in the name. The list of words is meant to be too long rather than too short: a harmless
 * key that is refused costs its model one conf_ignore(), a harmful one that passes costs wrong tokens.
 */
#include "ckpt/confkeys.h"

#include <stddef.h>
#include <string.h>

/* Patterns: '*' at either end stands for anything. The attributes of Hugging Face's PretrainedConfig, of
 * its older versions, and of training scripts that leave theirs in the file. */
/* clang-format off */
static const char *const bookkeeping[] = {
    /* identity */
    "_*", "name_or_path", "architectures", "model_type", "transformers_version", "transformers.js_config",
    "auto_map", "custom_pipelines", "tokenizer_class", "processor_class", "torch_dtype", "dtype",
    "torchscript", "use_bfloat16", "tf_legacy_loss", "unsloth_*", "is_llama_config", "model_name",
    "model_version", "language", "languages", "license", "prefix", "revision",
    /* outputs and labels */
    "output_*", "return_dict*", "use_cache", "use_return_dict", "id2label", "label2id", "num_labels",
    "problem_type", "finetuning_task", "task_specific_params", "summary_*", "chunk_size_feed_forward",
    "remove_invalid_values",
    /* training */
    "*dropout*", "*pdrop", "*layerdrop", "drop_path_rate", "initializer_range", "initializer_factor",
    "init_std", "init_method*", "gradient_checkpointing", "use_gradient_checkpointing",
    "router_aux_loss_coef", "router_z_loss_coef", "router_jitter_noise", "aux_loss_alpha", "z_loss_coef",
    "z_loss_coefficient", "label_smoothing", "seq_aux", "ignore_index",
    /* special tokens */
    "*_token_id", "*_token_ids", "*_token_index", "*_token",
    /* generation */
    "max_length", "min_length", "max_new_tokens", "min_new_tokens", "do_sample", "early_stopping",
    "num_beams", "num_beam_groups", "diversity_penalty", "temperature", "top_k", "top_p", "min_p",
    "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences", "cache_implementation",
    "exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens", "forced_decoder_ids",
    "generation_config", "max_sequence_length", "seq_length", "model_max_length",
    /* how another program is to compute the same thing */
    "attn_implementation", "attention_implementation", "experts_implementation", "use_flash_attn",
    "use_flash_attention*", "use_sdpa", "flash_attn*", "use_kernel*", "kernel_config", "device_map",
    "onnx*", "neuron", "bettertransformer",
};
/* clang-format on */

/* "*x*" of each. Short ones that also stand in harmless words ("act" in "factor") do no harm: see the head
 * of the file. */
/* clang-format off */
static const char *const maths[] = {
    "scale", "scaling", "multiplier", "softcap", "soft_cap", "window", "rope", "rotary", "norm", "expert",
    "moe", "router", "routed", "attn", "attention", "alibi", "clip", "clamp", "limit", "bias", "act",
    "layer", "head", "position", "embed", "quant", "residual", "resid", "logit", "mlp", "ffn",
    "intermediate", "kv", "qk", "qkv", "query", "mup", "parallel", "tie", "hidden", "vocab", "dim", "size",
    "theta", "beta", "alpha", "eps", "freq", "base", "sink", "block", "sparse", "sparsity", "topk", "top_k",
    "softmax", "sigmoid", "gelu", "swiglu", "gate", "gating", "shared", "skip", "conv", "ssm", "mamba",
    "state", "recurrent", "linear", "lora", "rank", "chunk", "group", "yarn", "ntk", "longrope",
    "interpolat", "original_max", "n_ctx", "d_model", "d_ff", "cross", "encoder", "decoder", "causal",
    "bidirectional", "mask", "pattern", "interleav", "stride", "pool", "compress", "prune", "mtp", "nextn",
    "adapter", "delta", "vision", "audio", "image", "diffusion", "weight", "sqrt", "temperature",
    "n_inner",
};
/* clang-format on */

static const char *const quant[] = {"quantization_config", "compression_config", "quantization",
                                    "quant_method"};

/* Keys whose value 1 is what every model does. */
static const char *const one_is_neutral[] = {"pretraining_tp",  "full_attn_mod",       "interpolate_factor",
                                             "tensor_parallel", "model_parallel_size", "ep_size"};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static bool matches(const char *pattern, const char *name)
{
    size_t n = strlen(pattern), len = strlen(name);
    bool before = pattern[0] == '*', after = n > 1 && pattern[n - 1] == '*';
    size_t core = n - before - after;

    if (len < core)
        return false;
    if (before && after) {
        for (size_t i = 0; i + core <= len; i++)
            if (memcmp(name + i, pattern + 1, core) == 0)
                return true;
        return false;
    }
    if (!before && !after && len != core)
        return false;
    return memcmp(before ? name + len - core : name, pattern + before, core) == 0;
}

enum confkey confkeys_kind(const char *name)
{
    for (size_t i = 0; i < COUNT(quant); i++)
        if (strcmp(quant[i], name) == 0)
            return CONFKEY_QUANT;
    for (size_t i = 0; i < COUNT(bookkeeping); i++)
        if (matches(bookkeeping[i], name))
            return CONFKEY_BOOKKEEPING;
    for (size_t i = 0; i < COUNT(maths); i++)
        if (strstr(name, maths[i]))
            return CONFKEY_MATHS;
    return CONFKEY_UNKNOWN;
}

bool confkeys_one_is_neutral(const char *name)
{
    for (size_t i = 0; i < COUNT(one_is_neutral); i++)
        if (strcmp(one_is_neutral[i], name) == 0)
            return true;
    return false;
}
