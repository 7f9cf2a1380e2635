/* sneak.c - raises the instruction set of one function. */
__attribute__((target("avx2"))) void sneak_add(float *a);

void sneak_add(float *a)
{
    *a += 1;
}
