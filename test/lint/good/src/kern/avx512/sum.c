/* sum.c - a kernel of its instruction set, in the folder of that set. */
#include <immintrin.h>

void sum_add(float *a, const float *b);

void sum_add(float *a, const float *b)
{
    _mm512_storeu_ps(a, _mm512_add_ps(_mm512_loadu_ps(a), _mm512_loadu_ps(b)));
}
