/* frame.c - looks up and sets variables in frames. */
#include "text/jinja/frame.h"

#include "text/jinja/value/rendering.h"

struct frame *jinja_frame_open(struct rendering *r, struct frame *outer)
{
    struct frame *f = jinja_allocate_array(r, 1, sizeof(*f));

    if (f)
        f->outer = outer;
    return f;
}

struct value jinja_variable(struct rendering *r, uint32_t name)
{
    for (const struct frame *f = r->frame; f; f = f->outer) {
        for (size_t i = 0; i < f->count; i++)
            if (f->variables[i].name == name)
                return i < 16 || jinja_step(r, i / 16) ? f->variables[i].value : value_none;
        if (f->count >= 16 && !jinja_step(r, f->count / 16))
            break;
    }
    return r->outside[name];
}

void jinja_set_variable(struct rendering *r, struct frame *f, uint32_t name, struct value v)
{
    struct frame_variable *variables = f->variables;
    size_t i = 0;

    if (r->rc)
        return;
    while (i < f->count && f->variables[i].name != name)
        i++;
    if (i == f->count)
        variables = jinja_room(r, variables, i, &f->room, sizeof(*variables));
    if (!variables || !jinja_step(r, i / 16))
        return;
    f->variables = variables;
    f->variables[i] = (struct frame_variable){name, v};
    f->count += i == f->count;
}
