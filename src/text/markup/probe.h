/* probe.h - renders test conversations with a chat template when the server starts, to detect which roles
 * and tool formats the template supports; templates do not declare this.
 */
#ifndef GALLOP_TEXT_MARKUP_PROBE_H
#define GALLOP_TEXT_MARKUP_PROBE_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

#define PROBE_NAME "probe_tool"
#define PROBE_KEY  "probe_key"

struct probe {
    const struct chat *chat;
    const struct jinja *template; /* replaces CHAT's own template; NULL: use CHAT's */
    struct buf out;               /* text of the latest rendering */
    struct err *e;
    int rc; /* 0 or ERR_NOMEM; a conversation that the template refuses is not an error */
};

/* Renders GIVEN, a list of messages or an object of template variables, and releases it. Returns false if
 * the template refuses it. */
bool probe_render(struct probe *p, json_t *given);

/* Returns whether the latest rendering contains the string WHAT. */
bool probe_shows(const struct probe *p, const char *what);

/* Returns a new tool with the function PROBE_NAME and its parameter PROBE_KEY; NULL: out of memory. */
json_t *probe_tool(void);

#endif
