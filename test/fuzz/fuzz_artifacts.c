/* fuzz_artifacts.c - any bytes as a file of a compiled program: it is taken only if it is what was written for this
 * key. If the first byte of an input is 0, its magic, length and checksum are corrected, so that the program is found.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/xxh3.h"
#include "engine/pjrt/artifacts.h"

enum { HEADER = 40 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *file = malloc(size ? size : 1);
    uint64_t key[2] = {0, 0}, n_bytes = size - HEADER, sum, other[2];
    size_t n = 0;
    const char *program;
    bool is_whole;

    ASSERT(file != NULL);
    memcpy(file, data, size);
    is_whole = size > HEADER && file[0] == 0;
    if (size > HEADER)
        memcpy(key, file + 8, sizeof(key));
    if (is_whole) {
        memcpy(file, "galpjrt1", 8);
        memcpy(file + 24, &n_bytes, sizeof(n_bytes));
        sum = XXH3_64bits(file + HEADER, size - HEADER);
        memcpy(file + 32, &sum, sizeof(sum));
    }
    program = artifacts_find(file, size, key, &n);
    if (is_whole)
        ASSERT(program != NULL);
    if (program) {
        ASSERT(program == file + HEADER && n == size - HEADER);
        other[0] = key[0];
        other[1] = key[1] ^ 1;
        ASSERT(artifacts_find(file, size, other, &n) == NULL);
        ASSERT(artifacts_find(file, size - 1, key, &n) == NULL);
        file[size - 1] ^= 4;
        ASSERT(artifacts_find(file, size, key, &n) == NULL);
    }
    free(file);
    return 0;
}
