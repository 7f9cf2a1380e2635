/* jinja_act.h - activations: the variables of one run of a function. See jinja_ast.h. */
#ifndef GALLOP_TEXT_JINJA_ACT_H
#define GALLOP_TEXT_JINJA_ACT_H

#include "text/jinja_ast.h"

struct jact {
    struct jact *up;    /* the activation the function was defined in */
    struct jact *spare; /* the next unused one */
    uint32_t cap;
    struct jv slot[];
};

/* A fresh activation of FN with every slot unset, or NULL after an error. */
struct jact *jinja_act_new(struct jrun *r, const struct jfn *fn, struct jact *up);

/* The run is over. Memory is used again unless something may still refer to it. */
void jinja_act_done(struct jrun *r, const struct jfn *fn, struct jact *a);

/* Does what entering SCOPE does to the slots of A. */
void jinja_act_enter(struct jrun *r, struct jact *a, const struct jscope *scope);

/* The slot at REF. */
static inline struct jv *jinja_act_slot(struct jact *a, struct jref ref)
{
    for (uint32_t i = 0; i < ref.hops; i++)
        a = a->up;
    return &a->slot[ref.slot];
}

/* A variable of the context by name: what the template set, what it was given, or a global function. */
struct jv jinja_act_resolve(struct jrun *r, struct jv name);

/* Gives VALUE to the TARGET: a name, a tuple of targets, or an attribute of a namespace. */
void jinja_act_assign(struct jrun *r, struct jact *a, const struct jn *target, struct jv value);

#endif
