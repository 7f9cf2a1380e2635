/* fuzz_gguf.c - any bytes as a .gguf file: it is refused, or every tensor is inside the bytes under its new
 * name and layout, and config, tokenizer and template are made of the metadata or refused. */
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "ckpt/config.h"
#include "ckpt/gguf/gguf.h"
#include "ckpt/gguf/set.h"
#include "ckpt/tensor_file.h"
#include "text/tok/ids.h"
#include "text/tok/tok.h"

static void check_table(const struct gguf *g, const char *begin, const char *end)
{
    for (size_t i = 0; i < g->n_tensors; i++) {
        const struct view *v = &g->tensor[i].view;

        ASSERT((const char *)v->data >= begin && (const char *)v->data + view_bytes(v) <= end);
        ASSERT(view_is_contiguous(v));
        ASSERT(i == 0 || (const char *)v->data >= (const char *)g->tensor[i - 1].view.data);
    }
}

/* Reads the first and the last element of every tensor under its new name. */
static void touch(const struct tensor_file *f)
{
    for (size_t i = 0; i < f->n; i++) {
        const struct view *v = &f->tensor[i];
        float x;

        if (v->n_dims > 2 || !dtype_is_weight(v->dtype) || view_elements(v) == 0)
            continue;
        view_part_f32(v, 0, 0, 1, &x);
        view_part_f32(v, v->n_dims == 2 ? v->shape[0] - 1 : 0, v->shape[v->n_dims - 1] - 1, 1, &x);
    }
}

/* Checks that text which was written without an error is JSON without duplicate keys. Tokens may contain
 * NUL. */
static void check_json(struct buf *text, int rc)
{
    json_t *o = rc ? NULL : json_loadb(text->data, text->len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);

    ASSERT(rc || o);
    json_decref(o);
    buf_clear(text);
}

static void use(struct gguf_set *s)
{
    const struct gguf_arch *arch;
    struct tok *tok;
    struct buf text;
    struct err e;

    buf_init(&text, MEM_CKPT);
    check_json(&text, gguf_tokenizer_config(&text, s, &e));
    check_json(&text, gguf_generation(&text, s, &e));
    if (gguf_tokenizer_open(&tok, s, &e) == 0) {
        struct tok_ids ids = {0};

        tok_encode(tok, "a b <s>12", 9, TOK_ADD_SPECIAL, &ids, &e);
        tok_ids_fini(&ids);
        tok_close(tok);
    }
    if (gguf_arch_of(&arch, s, &e) == 0) {
        check_json(&text, gguf_config(&text, s, arch, &e));
        if (gguf_names_fill(s, arch, &e) == 0)
            touch(&s->file[0]);
    }
    buf_fini(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data;
    struct gguf_set s;
    struct err e;

    log_set_level(LOG_ERROR);
    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    if (gguf_set_open_bytes(&s, bytes, size, "fuzz", &e) == 0) {
        check_table(&s.part[0], bytes, bytes + size);
        use(&s);
        gguf_set_close(&s);
    }
    ASSERT(mem_live_blocks() == 0);
    return 0;
}
