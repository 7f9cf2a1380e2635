/* one.c - a fixture. */
static int open(int a)
{
    return a;
}
