/* one.c - a fixture. */
int graph_one(void);
int graph_one(void)
{
    return 1;
}
