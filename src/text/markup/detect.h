/* detect.h - finds the rows of markup that a model writes, from its chat template.
 *
 * A template writes earlier answers in the model's markup. Test conversations with two known tool calls and with known
 * reasoning are rendered, and each row is tried as a parser of the result. The row that returns the calls or the
 * reasoning and leaves the least markup in the content is chosen, the first one if several do. If no row can parse the
 * renderings, the row whose marks occur in the template's source is chosen, unless the template writes something else
 * between these marks.
 */
#ifndef GALLOP_TEXT_MARKUP_DETECT_H
#define GALLOP_TEXT_MARKUP_DETECT_H

#include "text/markup/markup.h"

struct chat;
struct err;
struct jinja;
struct tools_style;

/* Sets *OUT to the markup of TEMPLATE (NULL: CHAT's own). SOURCE is its text, and STYLE says how it expects tools.
 * SOURCE NULL: there is no template, and no markup. ERR_NOMEM. */
int markup_detect(const struct chat *chat, const struct jinja *template, const char *source,
                  const struct tools_style *style, struct markup *out, struct err *e);

#endif
