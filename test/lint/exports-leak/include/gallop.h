/* gallop.h - promises one function. */
int gallop_promised(void);
