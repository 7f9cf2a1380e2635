/* probe.h - conversations that a chat template is asked to render when the server starts, to find out what it
 * supports: templates differ and do not say so.
 */
#ifndef GALLOP_API_MARKUP_PROBE_H
#define GALLOP_API_MARKUP_PROBE_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "text/chat.h"
#include "text/jinja/jinja.h"

#define PROBE_NAME "probe_tool"
#define PROBE_KEY  "probe_key"

struct probe {
    const struct chat *chat;
    const struct jinja *template; /* NULL: CHAT's own */
    struct buf out;               /* text of the last rendering */
    struct err *e;
    int rc; /* ERR_NOMEM, else 0: a template that refuses a conversation has answered the question */
};

/* Renders GIVEN, a list of messages or an object of variables, which is released. False: the template refuses
 * it. */
bool probe_render(struct probe *p, json_t *given);

/* The last rendering contains WHAT. */
bool probe_shows(const struct probe *p, const char *what);

/* A tool of the function PROBE_NAME with a parameter PROBE_KEY; new reference, NULL: no memory. */
json_t *probe_tool(void);

#endif
