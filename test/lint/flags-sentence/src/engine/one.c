/* one.c - a fixture. */
const char *one(void)
{
    return "too small: --kv-cache-memory 2 or more";
}
