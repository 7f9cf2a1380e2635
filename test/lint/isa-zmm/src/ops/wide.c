/* wide.c - uses a 64-byte register outside the folders that may. */
void wide_clear(void);

void wide_clear(void)
{
    __asm__ volatile("vpxord %zmm0, %zmm0, %zmm0");
}
