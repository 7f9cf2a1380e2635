/* wide.c - uses a 64-byte register in the folder of 32-byte ones. */
void wide_clear(void);

void wide_clear(void)
{
    __asm__ volatile("vpxord %zmm0, %zmm0, %zmm0");
}
