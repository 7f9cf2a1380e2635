/* clock.h - monotonic time. */
#ifndef GALLOP_BASE_CLOCK_H
#define GALLOP_BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_ns(void); /* since an arbitrary point; never goes back */
double clock_seconds(void);

#endif
