/* test_opconf.c - what the operator configuration takes, refuses and replaces. */
#include "engine/opconf.h"

static void an_unknown_kind_or_backend_is_refused_by_name(void **state)
{
    struct opconf c = {0};
    struct err e = {0};

    assert_int_not_equal(opconf_read(&c, "{\"norms\": \"native\"}", NULL, &e), 0);
    assert_non_null(strstr(e.msg, "norms"));
    opconf_fini(&c);
    c = (struct opconf){0};
    assert_int_not_equal(opconf_read(&c, NULL, "flash", &e), 0);
    assert_non_null(strstr(e.msg, "flash"));
    opconf_fini(&c);
    c = (struct opconf){0};
    assert_int_not_equal(opconf_read(&c, "{\"norm\": \"slab\"}", NULL, &e), 0); /* a name of attention only */
    assert_non_null(strstr(e.msg, "slab"));
    opconf_fini(&c);
}

static void attention_that_does_not_serve_the_cache_is_kept(void **state)
{
    static const struct {
        const char *wish, *type, *used;
    } table[] = {
        {"jit", "dynamic", "jit"},        {"jit", "bmc", "jit"},           {"jit", "slab_pool", "gallop"},
        {"jit", "paged", "gallop"},       {"slab", "slab_pool", "slab"},   {"slab", "paged", "gallop"},
        {"slab", "dynamic", "gallop"},    {"paged", "paged", "paged"},     {"paged", "slab_pool", "gallop"},
        {"paged", "bmc", "gallop"},       {"native", "dynamic", "native"}, {"native", "paged", "native"},
        {"gallop", "slab_pool", "gallop"}};

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct opconf c = {0};
        struct err e = {0};

        assert_int_equal(opconf_read(&c, NULL, table[i].wish, &e), 0);
        opconf_fit_attention(&c, table[i].type);
        assert_string_equal(c.backend[OP_ATTENTION], table[i].used);
        opconf_fini(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_kind_or_backend_is_refused_by_name),
        cmocka_unit_test(attention_that_does_not_serve_the_cache_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
