/* fuzz_calibration.c - any bytes as a file of gallop calibrate, and as a map of --quant.
 *
 * What is accepted are sizes that a row can have; a refusal names the file; a map of --quant reads back as it
 * was written; and nothing is leaked.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "model/calibration.h"
#include "model/quant.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_quant(const char *text)
{
    struct quant_map q, again;
    char out[QUANT_TEXT_MAX];
    struct err e = {0};

    if (quant_read(&q, text, &e) != 0) {
        ASSERT(strcmp(e.subject, "quant") == 0, "%s", e.msg);
        return;
    }
    quant_text(&q, "{}", out);
    ASSERT(quant_read(&again, out, &e) == 0, "%s", e.msg);
    for (enum op_kind k = 0; k < OP_N_KINDS; k++)
        if (k == OP_QKV || k == OP_OUT || k == OP_MLP || k == OP_LM_HEAD)
            ASSERT(q.of[k] == again.of[k], "%s", out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct calibration s;
    struct err e = {0};
    float x = -1;
    char *text;
    int rc;

    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    text = mem_zalloc(size + 1, 1, MEM_APP);
    memcpy(text, data, size);
    if (strlen(text) == size)
        read_quant(text);
    rc = calibration_read(&s, text, size, "F", &e);
    if (rc == 0)
        rc = calibration_get(&s, "up", 4, &x, &e);
    if (rc == 0)
        ASSERT(x >= 0 && x <= 1e30f, "%g", (double)x);
    else
        ASSERT(strncmp(e.msg, "F", 1) == 0, "%s", e.msg);
    calibration_close(&s);
    mem_free(text);
    ASSERT(mem_live_blocks() == 0, "%zu blocks are left", mem_live_blocks());
    return 0;
}
