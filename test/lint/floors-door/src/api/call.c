/* call.c - a fixture. */
#include "engine/step.h"
