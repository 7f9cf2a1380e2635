/* leak.c - shows another than the one promised. */
__attribute__((visibility("default"))) int gallop_secret(void)
{
    return 1;
}
