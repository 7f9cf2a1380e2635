/* test_queue.c - keys come out in order, whatever the order they went in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "base/mem.h"
#include "text/tok/model.h"

static uint64_t seed = 521288629u;

static uint32_t dice(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 33) % n;
}

/* The plain way: a list, searched for its least key. */
struct list {
    uint64_t key[8192];
    size_t n;
};

static uint64_t take_least(struct list *l)
{
    size_t at = 0;
    uint64_t key;

    for (size_t i = 1; i < l->n; i++)
        if (l->key[i] < l->key[at])
            at = i;
    key = l->key[at];
    l->key[at] = l->key[--l->n];
    return key;
}

static uint64_t random_key(uint32_t ranks, uint32_t position)
{
    return (uint64_t)dice(ranks) << 32 | position;
}

static void keys_come_out_in_order(void **state)
{
    static struct list l;
    struct queue q = {0};
    uint64_t key;

    (void)state;
    for (int round = 0; round < 60; round++) {
        uint32_t ranks = round % 3 == 0 ? 3 : round % 3 == 1 ? 5000 : 4000000;
        size_t n = round % 2 ? dice(100) : dice(3000);

        l.n = 0;
        queue_clear(&q);
        assert_true(queue_reserve(&q, n));
        for (size_t i = 0; i < n; i++) {
            l.key[l.n++] = random_key(ranks, (uint32_t)i);
            queue_fill(&q, l.key[i]);
        }
        queue_sort(&q);
        for (int k = 0; k < 2000; k++) {
            if (dice(3) == 0) {
                l.key[l.n++] = random_key(ranks, dice(10) ? (uint32_t)k : dice(5000));
                assert_true(queue_push(&q, l.key[l.n - 1]));
            } else if (l.n) {
                assert_true(queue_pop(&q, &key));
                assert_true(key == take_least(&l));
            }
        }
        while (l.n) {
            assert_true(queue_pop(&q, &key));
            assert_true(key == take_least(&l));
        }
        assert_false(queue_pop(&q, &key));
    }
    queue_fini(&q);
    assert_int_equal(mem_live_blocks(), 0);
}

static void the_plain_way_finds_the_least(void **state)
{
    struct list *l = calloc(1, sizeof(*l));

    (void)state;
    l->key[0] = 7;
    l->key[1] = 3;
    l->key[2] = 5;
    l->n = 3;
    assert_true(take_least(l) == 3 && take_least(l) == 5 && take_least(l) == 7 && l->n == 0);
    free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_come_out_in_order),
        cmocka_unit_test(the_plain_way_finds_the_least),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
