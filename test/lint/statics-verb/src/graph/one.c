/* one.c - a fixture. */
static int add(int a)
{
    return a;
}
