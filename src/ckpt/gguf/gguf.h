/* gguf.h - GGUF checkpoints: the tables of one file, the files of a checkpoint, and their contents in the
 * form of a Hugging Face folder. All files of this folder share this header.
 *
 * Versions 2 and 3 are supported, little-endian only. The whole head of a file is checked before any value is
 * used: lengths and offsets are inside the file, keys and tensor names are unique, tensors are aligned, have
 * the size of their shape and type, and do not overlap. Keys, strings and arrays are not copied but point
 * into the file's bytes. Each getter marks its key, so that unread keys can be found afterwards. Format:
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
 */
#ifndef GALLOP_CKPT_GGUF_H
#define GALLOP_CKPT_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_pull.h"
#include "base/strmap.h"
#include "tensor/view.h"

struct gguf_set;
struct tok;

/* ---- one file ---- */

enum { GGUF_MAX_DIMS = 4 };

enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_N_TYPES
};

struct gguf_kv {
    struct json_str key;
    enum gguf_type type; /* type of the value, or of the elements of an array */
    bool is_array;
    bool asked;       /* a getter has read this key */
    size_t n;         /* number of elements; 1 if the value is not an array */
    const char *data; /* bytes of the first element, at any alignment */
};

struct gguf_tensor {
    struct json_str name;
    struct view view; /* contiguous, outermost dimension first; name and file are unset */
};

struct gguf {
    const char *path; /* borrowed, for messages */
    uint32_t version;
    struct gguf_kv *kv;
    size_t n_kv, cap_kv;
    struct gguf_tensor *tensor; /* tensors in the order of their offsets */
    size_t n_tensors, cap_tensors;
    size_t kv_end;      /* offset of the end of the metadata in the file */
    struct strmap key;  /* key -> index into kv[] */
    struct strmap name; /* name -> index into tensor[] */
};

/* Returns whether BYTES [len] begin like a GGUF file. */
bool gguf_is(const char *bytes, size_t len);

/* Reads the head of the file in BYTES [len]. BYTES and PATH must outlive G. On failure G is closed and *e
 * names the file and the field. */
int gguf_read(struct gguf *g, const char *bytes, size_t len, const char *path, struct err *e);

void gguf_close(struct gguf *g); /* G may be zeroed */

/* Returns the entry KEY and marks it as read, or returns NULL. */
const struct gguf_kv *gguf_get(struct gguf *g, const char *key);

/* Returns the tensor NAME, or NULL. */
const struct gguf_tensor *gguf_tensor(const struct gguf *g, const char *name);

/* Getters set *V to the default DEF if KEY is missing. A value of the wrong type or outside of [lo, hi] is
 * ERR_INPUT; the sentence names the file, the key, the value and the expected values. */

/* Reads an integer of any width, or an array of equal integers (some keys have a number for each layer). */
int gguf_int(struct gguf *g, const char *key, int64_t def, int64_t lo, int64_t hi, int64_t *v, struct err *e);

/* Reads a finite number. */
int gguf_float(struct gguf *g, const char *key, double def, double *v, struct err *e);
int gguf_bool(struct gguf *g, const char *key, bool def, bool *v, struct err *e);

/* Reads a string in UTF-8 without NUL characters. V->s is NULL if KEY is missing. */
int gguf_text(struct gguf *g, const char *key, struct json_str *v, struct err *e);

/* Reads an array of strings of any bytes into memory of A. *V is NULL and *N is 0 if KEY is missing. */
int gguf_strs(struct gguf *g, const char *key, struct arena *a, const struct json_str **v, size_t *n,
              struct err *e);

/* Reads an array of TYPE, which has four bytes per element, borrowed. *V is NULL if KEY is missing. */
int gguf_words(struct gguf *g, const char *key, enum gguf_type type, const char **v, size_t *n,
               struct err *e);

/* Describes the value in OUT for messages: a number, "a string", "an array of 5 i32". Returns OUT. */
const char *gguf_kv_text(const struct gguf_kv *kv, char *out, size_t size);

/* Appends the metadata of S to OUT as a GGUF file without tensors. */
int gguf_metadata(struct buf *out, const struct gguf_set *s, struct err *e);

/* ---- architectures ---- */

enum gguf_arch_id {
    GGUF_ARCH_LLAMA,
    GGUF_ARCH_MIXTRAL, /* its name in GGUF is also llama */
    GGUF_ARCH_QWEN2,
    GGUF_ARCH_QWEN3,
    GGUF_ARCH_QWEN3MOE,
    GGUF_ARCH_PHI3,
    GGUF_ARCH_GEMMA3,
    GGUF_ARCH_GPT2,
    GGUF_ARCH_GPT_OSS,
};

struct gguf_arch {
    enum gguf_arch_id id;
    const char *name;       /* value of general.architecture, and prefix of its keys */
    bool experts;           /* the row is for files with expert_count > 0 */
    const char *class_name; /* architectures[0] in config.json */
    const char *model_type;
};

/* Sets *A to the architecture of S. ERR_UNSUPPORTED: the architecture is not in the table. */
int gguf_arch_of(const struct gguf_arch **a, struct gguf_set *s, struct err *e);

/* Reads the integer KEY of the architecture ("attention.head_count") with gguf_int(). */
int gguf_arch_int(const struct gguf_arch *a, struct gguf_set *s, const char *key, int64_t def, int64_t lo,
                  int64_t hi, int64_t *v, struct err *e);

/* ---- contents in the form of a Hugging Face folder ---- */

/* The next four functions append a JSON object to OUT. gguf_config() appends the config.json that the model
 * has on Hugging Face, so that architectures never read GGUF metadata. An unread key of the architecture is
 * an error, like an unknown key of config.json. */
int gguf_config(struct buf *out, struct gguf_set *s, const struct gguf_arch *a, struct err *e);

/* Appends a tokenizer_config.json with chat_template, the special tokens, add_bos_token and add_eos_token. */
int gguf_tokenizer_config(struct buf *out, struct gguf_set *s, struct err *e);

/* Appends a generation_config.json with bos_token_id, all tokens that end a text or turn as eos_token_id,
 * suppress_tokens, and the sampling parameters of general.sampling.*. */
int gguf_generation(struct buf *out, struct gguf_set *s, struct err *e);

/* Appends the config.json of a Pooling module of sentence-transformers with the pooling_mode of the key
 * pooling_type: "mean", or "lasttoken", also without the key. ERR_UNSUPPORTED: another pooling. */
int gguf_pooling(struct buf *out, struct gguf_set *s, struct err *e);

/* Fills and seals s->file[] from s->part[], with the names and layouts of Hugging Face. Views undo the changes of
 * GGUF's converters: Llama's q and k rows have the order for RoPE on halves again, GPT-2's matrices are [in, out]
 * again, Gemma's norm weights are w - 1 again, and each expert is a tensor of its own. Only Gemma's norms are copied
 * for that. An unknown tensor keeps its GGUF name, so that it is reported as unused. */
int gguf_names_fill(struct gguf_set *s, const struct gguf_arch *a, struct err *e);

/* Returns whether S has a tokenizer: tokenizer.ggml.model is neither missing, "none" nor "no_vocab". */
bool gguf_has_tokenizer(struct gguf_set *s);

/* Opens the tokenizer, which borrows nothing from S. */
int gguf_tokenizer_open(struct tok **out, struct gguf_set *s, struct err *e);

#endif
