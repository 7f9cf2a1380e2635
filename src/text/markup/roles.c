/* roles.c - detects which system and developer messages a chat template renders, and moves the texts of the
 * others. */
#include "text/markup/roles.h"

#include <string.h>

#include "base/buf.h"
#include "text/markup/probe.h"

static const char one[] = "probe_first_instruction", other[] = "probe_other_instruction";

/* ---- the roles that a template supports ---- */

/* Returns a new conversation with the roles ROLES, a string of letters: s(ystem), d(eveloper), u(ser),
 * a(ssistant). The first s or d has the text `one`, later ones have `other`. NULL: out of memory. */
static json_t *conversation(const char *roles)
{
    json_t *list = json_array();
    bool first = true;

    for (const char *r = roles; *r && list; r++) {
        const char *role = *r == 's' ? "system" : *r == 'd' ? "developer" : *r == 'u' ? "user" : "assistant";
        bool instructs = *r == 's' || *r == 'd';

        if (json_array_append_new(list, json_pack("{s:s,s:s}", "role", role, "content",
                                                  !instructs ? "probe_text"
                                                  : first    ? one
                                                             : other)) != 0) {
            json_decref(list);
            return NULL;
        }
        first = first && !instructs;
    }
    return list;
}

/* Returns whether the texts of all system and developer messages of the conversation ROLES are in the
 * rendered prompt. */
static bool reach(struct probe *p, const char *roles, bool with_tools)
{
    size_t n = 0;
    json_t *given;

    for (const char *r = roles; *r; r++)
        n += *r == 's' || *r == 'd';
    if (!probe_render(p, conversation(roles)) || !probe_shows(p, one) || (n > 1 && !probe_shows(p, other)))
        return false;
    if (!with_tools)
        return true;
    given = json_pack("{s:o,s:[o]}", "messages", conversation(roles), "tools", probe_tool());
    return probe_render(p, given) && probe_shows(p, one) && (n == 1 || probe_shows(p, other));
}

/* Returns whether the template renders the conversation ROLES but drops its system message. */
static bool loses(struct probe *p, const char *roles)
{
    return probe_render(p, conversation(roles)) && !probe_shows(p, one);
}

int roles_probe(const struct chat *chat, const struct jinja *template, const char *source, bool with_tools,
                struct roles_style *out, struct err *e)
{
    struct probe p = {.chat = chat, .template = template, .out = {.tag = MEM_TEXT}, .e = e};
    bool d = source && (strstr(source, "'developer'") || strstr(source, "\"developer\"")) &&
             reach(&p, "du", with_tools);

    *out = (struct roles_style){.system = ROLES_NO_SYSTEM, .developer = d};
    if (reach(&p, "su", with_tools))
        out->system = ROLES_ONE_SYSTEM;
    if (out->system == ROLES_ONE_SYSTEM && reach(&p, "ssu", with_tools) &&
        (!d ||
         (reach(&p, "sdu", with_tools) && reach(&p, "dsu", with_tools) && reach(&p, "ddu", with_tools))))
        out->system = ROLES_LEADING;
    if (out->system == ROLES_LEADING && reach(&p, "suasu", with_tools) && reach(&p, "uasu", with_tools) &&
        (!d || (reach(&p, "suadu", with_tools) && reach(&p, "uadu", with_tools))))
        out->system = ROLES_EVERYWHERE;
    out->user_last = out->system != ROLES_NO_SYSTEM && (loses(&p, "sua") || loses(&p, "s"));
    buf_fini(&p.out);
    return p.rc;
}

/* ---- messages ---- */

static bool has_role(const json_t *message, const char *role)
{
    const char *found = json_string_value(json_object_get(message, "role"));

    return found && strcmp(found, role) == 0;
}

static bool is_instruction(const json_t *message)
{
    return has_role(message, "system") || has_role(message, "developer");
}

/* Appends the content of MESSAGE to TEXT, after an empty line unless TEXT is empty. */
static void add_text(struct buf *text, const json_t *message)
{
    const json_t *content = json_object_get(message, "content");

    if (json_string_length(content) == 0)
        return;
    if (text->len)
        buf_str(text, "\n\n");
    buf_add(text, json_string_value(content), json_string_length(content));
}

/* Returns a copy of MESSAGE (NULL: a new message) with the given ROLE and TEXT; NULL: out of memory. */
static json_t *with_text(const json_t *message, const char *role, const struct buf *text)
{
    json_t *copy = message ? json_copy((json_t *)(uintptr_t)message) : json_object();
    json_t *content = text->oom ? NULL : json_stringn(text->data ? text->data : "", text->len);

    if (!copy || !content || json_object_set(copy, "content", content) != 0 ||
        (role && json_object_set_new(copy, "role", json_string(role)) != 0)) {
        json_decref(copy);
        copy = NULL;
    }
    json_decref(content);
    return copy;
}

/* Changes the role of the developer messages in LIST to system. */
static int rename_developers(json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *copy;

        if (!has_role(json_array_get(list, i), "developer"))
            continue;
        copy = json_copy(json_array_get(list, i));
        if (!copy || json_object_set_new(copy, "role", json_string("system")) != 0) {
            json_decref(copy);
            return -1;
        }
        if (json_array_set_new(list, i, copy) != 0)
            return -1;
    }
    return 0;
}

/* Removes the system and developer messages from index FROM on from LIST, and appends their texts to TEXT. */
static int take_instructions(json_t *list, size_t from, struct buf *text)
{
    json_t *kept = json_array();
    int rc = kept ? 0 : -1;

    for (size_t i = 0; i < json_array_size(list) && rc == 0; i++) {
        json_t *message = json_array_get(list, i);

        if (i >= from && is_instruction(message))
            add_text(text, message);
        else
            rc = json_array_append(kept, message);
    }
    if (rc == 0 && (rc = json_array_clear(list)) == 0)
        rc = json_array_extend(list, kept);
    json_decref(kept);
    return text->oom ? -1 : rc;
}

/* Puts TEXT before the text of the first user message. If there is none, TEXT becomes a user message. */
static int prepend_to_user(json_t *list, struct buf *text)
{
    size_t i = 0;
    json_t *copy;

    while (i < json_array_size(list) && !has_role(json_array_get(list, i), "user"))
        i++;
    if (i == json_array_size(list)) {
        copy = with_text(NULL, "user", text);
        return copy ? json_array_insert_new(list, 0, copy) : -1;
    }
    add_text(text, json_array_get(list, i));
    copy = with_text(json_array_get(list, i), NULL, text);
    return copy ? json_array_set_new(list, i, copy) : -1;
}

/* Appends the texts of the system messages from index KEEP on to message KEEP - 1. If KEEP is 0, they
 * become a new first message. */
static int join(json_t *list, size_t keep, const char *role)
{
    struct buf text = {.tag = MEM_TEXT};
    json_t *copy = NULL;
    int rc = 0;

    if (keep)
        add_text(&text, json_array_get(list, keep - 1));
    if (take_instructions(list, keep, &text) != 0)
        rc = -1;
    if (rc == 0)
        copy = with_text(keep ? json_array_get(list, keep - 1) : NULL, keep ? NULL : role, &text);
    if (rc == 0 && copy)
        rc = keep ? json_array_set_new(list, keep - 1, copy) : json_array_insert_new(list, 0, copy);
    else
        rc = -1;
    buf_fini(&text);
    return rc;
}

static int prepend(json_t *list)
{
    struct buf text = {.tag = MEM_TEXT};
    int rc = take_instructions(list, 0, &text);

    if (rc == 0 && text.len)
        rc = prepend_to_user(list, &text);
    buf_fini(&text);
    return rc;
}

int roles_fit(const struct roles_style *s, json_t *list, struct err *e)
{
    size_t n = json_array_size(list), n_leading = 0, n_instructions = 0, keep;
    const char *role = NULL;
    int rc = 0;

    for (size_t i = 0; i < n; i++) {
        const json_t *message = json_array_get(list, i);

        n_leading += i == n_leading && is_instruction(message);
        n_instructions += is_instruction(message);
        if (!role && is_instruction(message))
            role = s->developer && has_role(message, "developer") ? "developer" : "system";
    }
    if (n_instructions == 0)
        return 0;
    if (!s->developer)
        rc = rename_developers(list);
    keep = s->system == ROLES_LEADING ? n_leading : n_leading > 1 ? 1 : n_leading;
    if (rc == 0 &&
        (s->system == ROLES_NO_SYSTEM || (s->user_last && !has_role(json_array_get(list, n - 1), "user"))))
        rc = prepend(list);
    else if (rc == 0 && s->system != ROLES_EVERYWHERE && n_instructions > keep)
        rc = join(list, keep, role);
    return rc ? err_nomem(e, "messages") : 0;
}
