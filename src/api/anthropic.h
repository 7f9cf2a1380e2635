/* anthropic.h - Anthropic's Messages API. */
#ifndef GALLOP_API_ANTHROPIC_H
#define GALLOP_API_ANTHROPIC_H

#include "api/dialect.h"

extern const struct dialect anthropic_form;

#endif
