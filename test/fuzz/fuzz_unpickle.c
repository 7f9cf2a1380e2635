/* fuzz_unpickle.c - any bytes as a file of torch.save (zip or stream), and as a bare pickle: it is
 * refused, or every element of every tensor is inside the bytes. Nothing may be leaked, and little memory
 * may be used. */
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/mem.h"
#include "ckpt/tensor_file.h"
#include "ckpt/torch/torch.h"
#include "ckpt/torch/unpickle.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

/* Checks that the lowest and the highest element of V are inside the bytes. */
static void check(const struct view *v, const char *begin, const char *end)
{
    size_t last = 0;

    if (view_elements(v) == 0)
        return;
    for (int d = 0; d < v->n_dims; d++)
        last += (v->shape[d] - 1) * v->stride[d];
    ASSERT((const char *)v->data >= begin && (const char *)v->data < end);
    ASSERT((size_t)(end - (const char *)v->data) / dtype_bytes(v->dtype) > last);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *begin = (const char *)data;
    struct unpickle u;
    struct arena a;
    struct tensor_file f;
    struct err e;

    if (tensor_file_open_bytes(&f, begin, size, "fuzz", &e) != 0)
        return 0;
    if (torch_read(&f, &e) == 0)
        for (size_t i = 0; i < f.n; i++)
            check(&f.tensor[i], begin, begin + size);
    ASSERT(mem_live_bytes() <= 32768 + 400 * size, "%zu bytes for %zu", mem_live_bytes(), size);
    tensor_file_close(&f);

    arena_init(&a, MEM_CKPT);
    if (unpickle_run(&u, begin, size, &a, "fuzz", "pickle", &e) == 0)
        ASSERT(u.object && u.bytes <= size);
    ASSERT(mem_live_bytes() <= 32768 + 400 * size, "%zu bytes for %zu", mem_live_bytes(), size);
    arena_fini(&a);
    ASSERT(mem_live_blocks() == 0);
    return 0;
}
