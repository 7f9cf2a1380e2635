/* responses.h - OpenAI's Responses API. */
#ifndef GALLOP_API_RESPONSES_H
#define GALLOP_API_RESPONSES_H

#include "api/dialect.h"

extern const struct dialect responses_form;

#endif
