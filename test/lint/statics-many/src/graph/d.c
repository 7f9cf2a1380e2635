/* d.c - a fixture. */
static int step_on(int a)
{
    return a;
}
