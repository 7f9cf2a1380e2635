/* match.c - builds and searches the index of match.h. */
#include "engine/guess/match.h"

#include "base/err.h"

struct match_node {
    uint32_t parent, next; /* NEXT: the next node of its chain, 0: none */
    int32_t token;         /* the first token of the edge from the parent */
    uint32_t end;          /* end of the most recent occurrence of the path */
    uint32_t depth;        /* tokens of the path */
};

static size_t n_heads(size_t capacity)
{
    size_t n = 16;

    while (n < capacity)
        n *= 2;
    return n;
}

size_t match_bytes(size_t capacity)
{
    ASSERT(capacity <= MATCH_MAX_TOKENS, "%zu tokens", capacity);
    return (2 * capacity + 1) * sizeof(struct match_node) + n_heads(capacity) * sizeof(uint32_t) +
           (capacity + 1) * (sizeof(uint32_t) + sizeof(uint16_t));
}

void match_init(struct match *m, void *memory, size_t capacity, size_t max_length, uint64_t seed)
{
    ASSERT(capacity <= MATCH_MAX_TOKENS && max_length > 0 && max_length <= MATCH_MAX_LENGTH,
           "%zu tokens, matches of %zu", capacity, max_length);
    *m = (struct match){.node = memory,
                        .capacity = capacity,
                        .max_length = max_length,
                        .n_nodes = 1,
                        .shift = 64,
                        .seed = seed};
    m->head = (uint32_t *)(m->node + 2 * capacity + 1);
    m->older = m->head + n_heads(capacity);
    m->longest = (uint16_t *)(m->older + capacity + 1);
    for (size_t n = n_heads(capacity); n > 1; n /= 2)
        m->shift--;
}

/* Returns the chain that holds the child of node PARENT whose edge begins with TOKEN. */
static uint32_t *chain(const struct match *m, uint32_t parent, int32_t token)
{
    uint64_t x = ((uint64_t)parent << 32 | (uint32_t)token) ^ m->seed;

    x *= 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 32 ^ m->seed) * 0xd6e8feb86659fd93u;
    return &m->head[(x ^ x >> 32) * 0x9e3779b97f4a7c15u >> m->shift];
}

/* Returns the address of the link to the child of PARENT whose edge begins with TOKEN; the link is 0 if there is
 * none. */
static uint32_t *child_find(const struct match *m, uint32_t parent, int32_t token)
{
    uint32_t *at = chain(m, parent, token);

    while (*at && (m->node[*at].parent != parent || m->node[*at].token != token))
        at = &m->node[*at].next;
    return at;
}

static void set_parent(struct match *m, uint32_t i, uint32_t parent, int32_t token)
{
    uint32_t *first = chain(m, parent, token);

    m->node[i].parent = parent;
    m->node[i].token = token;
    m->node[i].next = *first;
    *first = i;
}

static uint32_t add_child(struct match *m, uint32_t parent, int32_t token, size_t end, size_t depth)
{
    uint32_t i = m->n_nodes++;

    m->node[i].end = (uint32_t)end;
    m->node[i].depth = (uint32_t)depth;
    set_parent(m, i, parent, token);
    return i;
}

/* Splits the edge to the node that *AT refers to by a new node with DEPTH and END, and returns the new node. */
static uint32_t split_edge(struct match *m, uint32_t *at, const int32_t *token, size_t depth, size_t end)
{
    uint32_t below = *at, above = m->n_nodes++;
    struct match_node *b = &m->node[below];

    m->node[above] = *b;
    m->node[above].end = (uint32_t)end;
    m->node[above].depth = (uint32_t)depth;
    *at = above;
    set_parent(m, below, above, token[b->end - 1 - depth]);
    return above;
}

void match_follow(struct match *m, const struct match *base)
{
    m->base = base;
    m->n_base = m->n_tokens = base->capacity;
}

bool match_has(const struct match *m, size_t n)
{
    return m->n_tokens == n && (!m->base || m->base->n_tokens == m->n_base);
}

/* Returns the end of the most recent earlier occurrence of the longest match that ends at END. */
static size_t older_at(const struct match *m, size_t end)
{
    return m->base && end <= m->n_base ? m->base->older[end] : m->older[end - m->n_base];
}

static size_t longest_at(const struct match *m, size_t end)
{
    return m->base && end <= m->n_base ? m->base->longest[end] : m->longest[end - m->n_base];
}

/* Finds the longest match in the index M of at most MOST tokens that end with *LAST, and sets *OLDER to the end of its
 * most recent occurrence. Returns its length. */
static size_t search(const struct match *m, const int32_t *token, const int32_t *last, size_t most,
                     uint32_t *older)
{
    uint32_t at = 0;
    size_t depth = 0;

    while (depth < most && (at = *child_find(m, at, last[-(ptrdiff_t)depth])) != 0) {
        const struct match_node *child = &m->node[at];
        const int32_t *then = token + child->end - 1;

        *older = child->end;
        do
            depth++;
        while (depth < most && depth < child->depth && then[-(ptrdiff_t)depth] == last[-(ptrdiff_t)depth]);
        if (depth < child->depth)
            break;
    }
    return depth;
}

/* Adds token END - 1 of TOKEN, in the context of the tokens before it, to the tree, and records the longest match that
 * ends there. */
static void ending_add(struct match *m, const int32_t *token, size_t end)
{
    size_t most = end < m->max_length ? end : m->max_length, depth = 0;
    const int32_t *last = token + end - 1;
    uint32_t parent = 0, older = 0;

    while (depth < most) {
        uint32_t *at = child_find(m, parent, last[-(ptrdiff_t)depth]);
        struct match_node *child = &m->node[*at];
        const int32_t *then;

        if (*at == 0) {
            add_child(m, parent, last[-(ptrdiff_t)depth], end, most);
            break;
        }
        older = child->end;
        then = token + older - 1;
        do
            depth++;
        while (depth < most && depth < child->depth && then[-(ptrdiff_t)depth] == last[-(ptrdiff_t)depth]);
        if (depth < child->depth) {
            parent = split_edge(m, at, token, depth, end);
            if (depth < most)
                add_child(m, parent, last[-(ptrdiff_t)depth], end, most);
            break;
        }
        child->end = (uint32_t)end;
        parent = *at;
    }
    if (m->base) {
        uint32_t in_base = 0;
        size_t length = search(m->base, token, last, most, &in_base);

        older = length > depth ? in_base : older;
        depth = length > depth ? length : depth;
    }
    m->older[end - m->n_base] = older;
    m->longest[end - m->n_base] = (uint16_t)depth;
}

void match_add(struct match *m, const int32_t *token, size_t n)
{
    size_t all = m->n_base + m->capacity, most = n < all ? n : all;

    while (m->n_tokens < most)
        ending_add(m, token, ++m->n_tokens);
}

size_t match_longest(const struct match *m, size_t *end)
{
    *end = older_at(m, m->n_tokens);
    return longest_at(m, m->n_tokens);
}

size_t match_depth(const struct match_rule *rule, size_t length)
{
    double n = rule->factor * (double)length;

    if (length == 0 || length < rule->min_length || !(n >= 1))
        return 0;
    return n < (double)rule->n_most ? (size_t)n : rule->n_most;
}

size_t match_guess(const struct match *m, const int32_t *token, size_t n, const struct match_rule *rule,
                   int32_t *guess, size_t *length)
{
    size_t end, found = match_has(m, n) ? match_longest(m, &end) : 0, depth = match_depth(rule, found);

    if (length)
        *length = found;
    if (depth && !rule->repeats && depth > n - end)
        depth = n - end;
    for (size_t i = 0; i < depth; i++)
        guess[i] = end + i < n ? token[end + i] : guess[end + i - n];
    return depth;
}

size_t match_interrupted(const struct match *m, size_t *end)
{
    for (size_t gap = 1; gap <= MATCH_MAX_GAP && gap < m->n_tokens; gap++) {
        size_t at = m->n_tokens - gap;

        if (longest_at(m, at) >= MATCH_MIN_INTERRUPTED) {
            *end = older_at(m, at) + gap;
            return longest_at(m, at);
        }
    }
    return 0;
}

size_t match_occurrences(const struct match *m, size_t *end)
{
    size_t n = 0, at = m->n_tokens, length = longest_at(m, at);

    while (length && n < MATCH_MAX_OCCURRENCES && longest_at(m, at) >= length)
        end[n++] = at = older_at(m, at);
    return n;
}
