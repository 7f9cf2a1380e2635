/* paged.c - and the inner room asks back. */
int kv_rows(void);
int paged_rows(void);
int paged_rows(void)
{
    return kv_rows();
}
