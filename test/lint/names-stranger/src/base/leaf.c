/* leaf.c - exports a name that could come from anywhere. */
int helper(void);

int helper(void)
{
    return 1;
}
