/* probe.h - conversations that a chat template renders when the server starts, to find out what it supports,
 * because templates do not say so.
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
    struct buf out;               /* the latest rendering */
    struct err *e;
    int rc; /* ERR_NOMEM or 0: a conversation that the template refuses is no error */
};

/* Renders GIVEN, a list of messages or an object of variables, and releases it. False: the template refuses
 * it. */
bool probe_render(struct probe *p, json_t *given);

/* The latest rendering contains WHAT. */
bool probe_shows(const struct probe *p, const char *what);

/* Returns a tool with the function PROBE_NAME and its parameter PROBE_KEY: a new reference; NULL: out of
 * memory. */
json_t *probe_tool(void);

#endif
