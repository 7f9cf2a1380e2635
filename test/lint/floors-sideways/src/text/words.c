/* words.c - reads its neighbour's header. */
#include "tensor/shape.h"
