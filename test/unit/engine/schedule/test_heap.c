/* test_heap.c - the priority queue against a sorted array, with members that are removed from any
 * position. */
#include "engine/schedule/heap.h"

#include "base/rng.h"

struct member {
    struct heap_node node;
    uint32_t key;
};

static const struct member *member(const struct heap_node *node)
{
    return (const struct member *)(const void *)node;
}

static bool before(const struct heap_node *a, const struct heap_node *b)
{
    return member(a)->key < member(b)->key;
}

enum { N = 300 };

/* Returns the smallest key in the heap. UINT32_MAX: the heap is empty. */
static uint32_t smallest(const struct member *m)
{
    uint32_t least = UINT32_MAX;

    for (size_t i = 0; i < N; i++)
        if (heap_holds(&m[i].node) && m[i].key < least)
            least = m[i].key;
    return least;
}

static void the_first_is_the_smallest_after_any_addition_and_removal(void **state)
{
    static struct member m[N];
    struct heap h = {.before = before};
    uint32_t r[4];

    memset(m, 0, sizeof(m));
    for (uint64_t i = 0; i < 20000; i++) {
        struct member *x;

        rng_block(1, i, 0, r);
        x = &m[r[0] % N];
        if (r[1] % 3 == 0 && h.first)
            heap_remove(&h, h.first);
        else if (heap_holds(&x->node))
            heap_remove(&h, &x->node);
        else {
            x->key = r[2] % 1000; /* Equal keys are common. */
            heap_add(&h, &x->node);
        }
        assert_int_equal(h.first ? member(h.first)->key : UINT32_MAX, smallest(m));
    }
}

static void all_leave_in_order_and_each_once(void **state)
{
    static struct member m[N];
    struct heap h = {.before = before};
    uint32_t last = 0;

    memset(m, 0, sizeof(m));
    for (uint32_t i = 0; i < N; i++) {
        m[i].key = i * 7919 % N;
        heap_add(&h, &m[i].node);
    }
    for (size_t left = N; left; left--) {
        struct heap_node *node = h.first;

        assert_int_equal(h.n, left);
        assert_true(member(node)->key >= last);
        last = member(node)->key;
        heap_remove(&h, node);
        assert_false(heap_holds(node));
    }
    assert_null(h.first);
    assert_int_equal(last, N - 1);
}

static void one_member_comes_and_goes(void **state)
{
    struct member m = {.key = 5};
    struct heap h = {.before = before};

    for (int i = 0; i < 3; i++) {
        assert_false(heap_holds(&m.node));
        heap_add(&h, &m.node);
        assert_true(heap_holds(&m.node));
        assert_ptr_equal(h.first, &m.node);
        heap_remove(&h, &m.node);
        assert_null(h.first);
        assert_int_equal(h.n, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_is_the_smallest_after_any_addition_and_removal),
        cmocka_unit_test(all_leave_in_order_and_each_once),
        cmocka_unit_test(one_member_comes_and_goes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
