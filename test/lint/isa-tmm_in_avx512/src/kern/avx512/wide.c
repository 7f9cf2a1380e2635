/* wide.c - uses a tile in the folder of 64-byte registers. */
void wide_clear(void);

void wide_clear(void)
{
    __asm__ volatile("tilezero %tmm0");
}
