/* fuzz_pack.c - any directory as that of a packed checkpoint, with correct checksums: it is refused, or
 * everything that it lists is inside the file. The input after a zero byte is the data. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <xxhash.h>

#include "base/buf.h"
#include "ckpt/pack/form.h"

/* Builds the file with this directory and data. Only the checksums of the directory and of the end are
 * computed; the fuzzer must find those of the contents. */
static void make(struct buf *out, const char *directory, size_t n, const char *data, size_t n_data)
{
    struct pack_tail tail = {.bytes = n, .magic = PACK_TAIL_MAGIC};
    char page[PACK_ALIGN];

    pack_head(page, 0);
    buf_add(out, page, sizeof(page));
    buf_add(out, data, n_data);
    tail.at = out->len;
    tail.sum = XXH3_64bits(directory, n);
    tail.own_sum = XXH3_64bits(&tail, offsetof(struct pack_tail, own_sum));
    buf_add(out, directory, n);
    buf_add(out, &tail, sizeof(tail));
}

static void check_inside(const struct buf *b, const struct pack_blob *blob)
{
    ASSERT(!blob->bytes || (blob->data >= b->data && blob->data + blob->bytes <= b->data + b->len));
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    const char *data = memchr(input, 0, size), *end = (const char *)input + size;
    size_t n = data ? (size_t)(data - (const char *)input) : size;
    struct pack p;
    struct buf b;
    struct err e;

    buf_init(&b, MEM_CKPT);
    make(&b, (const char *)input, n, data ? data : "", data ? (size_t)(end - data) : 0);
    if (!b.oom && pack_open_bytes(&p, b.data, b.len, "fuzz.gallop", &e) == 0) {
        for (size_t i = 0; i < p.files.n; i++)
            ASSERT(p.files.member[i].bytes >= b.data &&
                   p.files.member[i].bytes + p.files.member[i].len <= b.data + b.len);
        for (size_t i = 0; i < p.tensors.n; i++) {
            check_inside(&b, &p.tensor[i].blob);
            ASSERT(!p.tensor[i].blob.bytes ||
                   view_span_bytes(&p.tensors.tensor[i]) == p.tensor[i].blob.bytes);
        }
        for (size_t i = 0; i < p.n_linears; i++)
            check_inside(&b, &p.linear[i].blob);
        pack_close(&p);
    }
    buf_fini(&b);
    ASSERT(mem_live_blocks() == 0);
    return 0;
}
