/* fuzz_safetensors.c - any bytes as a .safetensors file: it is refused, or every tensor is inside the
 * bytes. */
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "ckpt/safetensors.h"
#include "ckpt/tensor_file.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *end = (const char *)data + size;
    struct tensor_file f;
    struct err e;

    if (tensor_file_open_bytes(&f, (const char *)data, size, "fuzz", &e) != 0)
        return 0;
    if (safetensors_read(&f, &e) == 0)
        for (size_t i = 0; i < f.n; i++) {
            const struct view *v = &f.tensor[i];
            size_t bytes = view_elements(v) * dtype_bytes(v->dtype);

            ASSERT((const char *)v->data >= (const char *)data && (const char *)v->data + bytes <= end);
            ASSERT(view_is_contiguous(v) && tensor_file_get(&f, v->name, __builtin_strlen(v->name)) == v);
            ASSERT(i == 0 || (const char *)v->data >= (const char *)f.tensor[i - 1].data);
        }
    tensor_file_close(&f);
    ASSERT(mem_live_blocks() == 0);
    return 0;
}
