/* tokjsonpre.h - the "pre_tokenizer" of a tokenizer.json. */
#ifndef GALLOP_TEXT_TOKJSONPRE_H
#define GALLOP_TEXT_TOKJSONPRE_H

#include "base/json_pull.h"
#include "text/tokcore.h"

/* Reads the pre_tokenizer at J (null: none) into T. Errors are J's. */
void tokjsonpre_read(struct json_pull *j, struct tok *t);

#endif
