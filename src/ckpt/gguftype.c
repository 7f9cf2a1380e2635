/* gguftype.c - the table of ggml_type, with the numbers that ggml has given up. */
#include "ckpt/gguftype.h"

#include <stddef.h>

/* clang-format off */
static const struct {
    const char *name;
    int dtype; /* -1: not read here */
} table[] = {
    {"F32", DT_F32}, {"F16", DT_F16}, {"Q4_0", DT_Q4_0}, {"Q4_1", DT_Q4_1}, {"Q4_2", -1}, {"Q4_3", -1},
    {"Q5_0", DT_Q5_0}, {"Q5_1", DT_Q5_1}, {"Q8_0", DT_Q8_0}, {"Q8_1", -1}, {"Q2_K", DT_Q2_K},
    {"Q3_K", DT_Q3_K}, {"Q4_K", DT_Q4_K}, {"Q5_K", DT_Q5_K}, {"Q6_K", DT_Q6_K}, {"Q8_K", -1},
    {"IQ2_XXS", -1}, {"IQ2_XS", -1}, {"IQ3_XXS", -1}, {"IQ1_S", -1}, {"IQ4_NL", -1}, {"IQ3_S", -1},
    {"IQ2_S", -1}, {"IQ4_XS", -1}, {"I8", DT_I8}, {"I16", DT_I16}, {"I32", DT_I32}, {"I64", DT_I64},
    {"F64", DT_F64}, {"IQ1_M", -1}, {"BF16", DT_BF16}, {"Q4_0_4_4", -1}, {"Q4_0_4_8", -1},
    {"Q4_0_8_8", -1}, {"TQ1_0", -1}, {"TQ2_0", -1}, {"IQ4_NL_4_4", -1}, {"IQ4_NL_4_8", -1},
    {"IQ4_NL_8_8", -1}, {"MXFP4", DT_MXFP4}, {"NVFP4", -1}, {"Q1_0", -1},
};
/* clang-format on */

enum { N_TYPES = sizeof(table) / sizeof(*table) };

bool gguftype_dtype(uint32_t type, enum dtype *t)
{
    if (type >= N_TYPES || table[type].dtype < 0)
        return false;
    *t = (enum dtype)table[type].dtype;
    return true;
}

const char *gguftype_name(uint32_t type)
{
    return type < N_TYPES ? table[type].name : "a type that is not known";
}
