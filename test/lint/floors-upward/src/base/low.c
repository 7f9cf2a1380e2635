/* low.c - the ground floor asks the seventh. */
#include "engine/high.h"
