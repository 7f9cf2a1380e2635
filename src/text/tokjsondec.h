/* tokjsondec.h - the "decoder" of a tokenizer.json. */
#ifndef GALLOP_TEXT_TOKJSONDEC_H
#define GALLOP_TEXT_TOKJSONDEC_H

#include "base/json_pull.h"
#include "text/tokcore.h"

/* Reads the decoder at J (null: tokens are joined by spaces) into T. Errors are J's. */
void tokjsondec_read(struct json_pull *j, struct tok *t);

#endif
