/* tokjsonpost.h - the "post_processor" of a tokenizer.json. */
#ifndef GALLOP_TEXT_TOKJSONPOST_H
#define GALLOP_TEXT_TOKJSONPOST_H

#include "base/json_pull.h"
#include "text/tokcore.h"

/* Reads the post_processor at J (null: none): the ids it puts around one text go to T->prefix and T->suffix.
 * What it does to offsets and to pairs of texts is not needed here. Errors are J's. */
void tokjsonpost_read(struct json_pull *j, struct tok *t);

#endif
