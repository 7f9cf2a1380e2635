/* gallop.h - a door with one function, gallop_knock(). */
#ifndef GALLOP_H
#define GALLOP_H

__attribute__((visibility("default"))) int gallop_knock(void);

#endif
