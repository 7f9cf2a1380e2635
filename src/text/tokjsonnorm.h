/* tokjsonnorm.h - the "normalizer" of a tokenizer.json. */
#ifndef GALLOP_TEXT_TOKJSONNORM_H
#define GALLOP_TEXT_TOKJSONNORM_H

#include "base/json_pull.h"
#include "text/tokcore.h"

/* Reads the normalizer at J (null: none) into T. Errors are J's. */
void tokjsonnorm_read(struct json_pull *j, struct tok *t);

#endif
