/* step.c - takes a name that belongs to the interface. */
int gallop_step(void);

int gallop_step(void)
{
    return 1;
}
