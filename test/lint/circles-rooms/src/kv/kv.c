/* kv.c - asks the inner room. */
int kv_rows(void);
int paged_rows(void);
int kv_rows(void)
{
    return paged_rows();
}
