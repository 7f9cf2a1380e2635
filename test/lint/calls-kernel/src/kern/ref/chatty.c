/* chatty.c - a kernel that keeps a log. */
void log_info(const char *fmt, ...);
void chatty_add(float *a);

void chatty_add(float *a)
{
    log_info("%f", (double)*a);
}
