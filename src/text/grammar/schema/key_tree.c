/* key_tree.c - builds a tree of names. Many children of a node form a balanced binary tree, so that the way from a name
 * to the root is short. */
#include "text/grammar/schema/key_tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

enum { NO_NODE = 0, MOST_NESTED = 1000 /* nested common prefixes */ };

/* A node matches the characters LABEL, followed by one of its children or, at a leaf, by the end of a
 * name. */
struct key_tree_node {
    uint32_t label;       /* regular expression for the characters in the compiler's spelling */
    uint32_t parent;      /* the root's is unused */
    uint32_t left, right; /* NO_NODE: none */
};

/* A name and its index in the caller's list. */
struct name {
    const char *text; /* [n] */
    size_t n, index;
};

struct builder {
    struct schema_compiler *c;
    struct key_tree *t;
    const struct name *name; /* sorted names */
    bool is_too_deep;
};

static int compare_names(const void *a, const void *b)
{
    const struct name *x = a, *y = b;
    size_t n = x->n < y->n ? x->n : y->n;
    int order = n ? memcmp(x->text, y->text, n) : 0;

    return order ? order : (x->n > y->n) - (x->n < y->n);
}

/* Returns the number of bytes of the character of X at byte AT; 0: X ends there. */
static size_t character_size(const struct name *x, size_t at)
{
    size_t size = 0;

    if (at < x->n)
        utf8_decode(x->text + at, &size);
    return size;
}

static bool has_same_character(const struct name *x, const struct name *y, size_t at)
{
    size_t size = character_size(x, at);

    return size == character_size(y, at) && (size == 0 || memcmp(x->text + at, y->text + at, size) == 0);
}

/* Returns the index of the first name in [first, end) that has another character at byte AT than name FIRST. */
static size_t end_of_group(const struct builder *b, size_t first, size_t end, size_t at)
{
    size_t i = first + 1;

    while (i < end && has_same_character(&b->name[first], &b->name[i], at))
        i++;
    return i;
}

static uint32_t add_node(struct builder *b, uint32_t parent, uint32_t label)
{
    struct key_tree *t = b->t;

    t->node[t->n] = (struct key_tree_node){.label = label, .parent = parent};
    return (uint32_t)t->n++;
}

static uint32_t add_names(struct builder *b, uint32_t parent, size_t first, size_t end, size_t skip,
                          int depth);

/* Adds a node with the groups of names that the indices START [n + 1] divide. DEPTH counts common prefixes. */
static uint32_t add_groups(struct builder *b, uint32_t parent, const size_t *start, size_t n, size_t skip,
                           int depth)
{
    uint32_t x, child;

    if (n == 1)
        return add_names(b, parent, start[0], start[1], skip, depth + 1);
    x = add_node(b, parent, REGEX_EMPTY);
    child = add_groups(b, x, start, n / 2, skip, depth);
    b->t->node[x].left = child;
    child = add_groups(b, x, start + n / 2, n - n / 2, skip, depth);
    b->t->node[x].right = child;
    return x;
}

/* Adds the node of the sorted names [first, end), which are equal up to byte SKIP. Returns its index. */
static uint32_t add_names(struct builder *b, uint32_t parent, size_t first, size_t end, size_t skip,
                          int depth)
{
    const struct name *x = &b->name[first], *last = &b->name[end - 1];
    size_t same = skip, n = 0, *start;
    uint32_t node, child;

    while (same < x->n && has_same_character(x, last, same))
        same += character_size(x, same);
    node = add_node(b, parent, json_text_literal(&b->c->text, x->text + skip, same - skip, b->c->spelling));
    if (end - first == 1) {
        b->t->leaf[x->index] = node;
        return node;
    }
    b->is_too_deep = b->is_too_deep || depth > MOST_NESTED;
    start = b->is_too_deep ? NULL : schema_alloc(b->c, end - first + 1, sizeof(*start));
    if (!start)
        return node;
    for (size_t i = first; i < end; i = end_of_group(b, i, end, same))
        start[n++] = i;
    start[n] = end;
    child = add_groups(b, node, start, n / 2, same, depth);
    b->t->node[node].left = child;
    child = add_groups(b, node, start + n / 2, n - n / 2, same, depth);
    b->t->node[node].right = child;
    return node;
}

bool key_tree_build(struct schema_compiler *c, struct key_tree *t, const uint32_t *key, size_t n_keys)
{
    struct name *name = schema_alloc(c, n_keys, sizeof(*name));
    struct builder b = {.c = c, .t = t, .name = name};

    *t = (struct key_tree){.n = 0};
    /* Each name adds at most a leaf, a node for its common prefix with another name and a binary node. */
    t->node = schema_alloc(c, 3 * n_keys, sizeof(*t->node));
    t->leaf = schema_alloc(c, n_keys, sizeof(*t->leaf));
    if (!name || !t->node || !t->leaf || n_keys == 0)
        return false;
    for (size_t i = 0; i < n_keys; i++)
        name[i] = (struct name){c->key[key[i]].text, c->key[key[i]].n, i};
    qsort(name, n_keys, sizeof(*name), compare_names);
    add_names(&b, 0, 0, n_keys, 0, 0);
    if (b.is_too_deep || !schema_work(c, n_keys / 8))
        return false;
    for (size_t i = 0; i < n_keys; i++)
        for (uint32_t x = t->leaf[i];; x = t->node[x].parent) {
            t->n_steps++;
            if (x == 0)
                break;
        }
    return true;
}

bool key_tree_names_init(struct schema_compiler *c, const struct key_tree *t, struct key_tree_names *x)
{
    *x = (struct key_tree_names){.now = 1};
    x->at = schema_alloc(c, t->n, sizeof(*x->at));
    x->round = schema_alloc(c, t->n, sizeof(*x->round));
    return x->at && x->round;
}

static uint32_t expression_of(const struct key_tree_names *x, uint32_t node)
{
    return node != NO_NODE && x->round[node] == x->now ? x->at[node] : GRAMMAR_NEVER;
}

uint32_t key_tree_names_add(struct schema_compiler *c, const struct key_tree *t, struct key_tree_names *x,
                            size_t i, uint32_t after)
{
    for (uint32_t node = t->leaf[i];; node = t->node[node].parent) {
        const struct key_tree_node *y = &t->node[node];

        if (node != t->leaf[i])
            after = grammar_either(c->g, expression_of(x, y->left), expression_of(x, y->right));
        x->at[node] = grammar_sequence(c->g, grammar_term(c->g, y->label), after);
        x->round[node] = x->now;
        if (node == 0)
            return x->at[0];
    }
}
