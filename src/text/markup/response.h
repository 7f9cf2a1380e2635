/* response.h - finds the rows of markup that a response_template describes, by which transformers reads answers.
 *
 * A response_template, a member of tokenizer_config.json, has a field for tool calls and one for reasoning, with the
 * marks around them and the form of what is between them. It is not interpreted: the row with these marks and this
 * form reads the answers. A form that no row has is left to the chat template, with a line in the log.
 */
#ifndef GALLOP_TEXT_MARKUP_RESPONSE_H
#define GALLOP_TEXT_MARKUP_RESPONSE_H

#include "text/markup/markup.h"

struct err;

/* Replaces the rows of M by the rows that TEXT, a response_template as JSON, describes. ERR_NOMEM. */
int response_read(const char *text, struct markup *m, struct err *e);

#endif
