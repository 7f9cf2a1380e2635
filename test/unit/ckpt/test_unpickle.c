/* test_unpickle.c - the restricted pickle reader: the values that it builds, the pickles that it refuses, and
 * its use of memory. */
#include "ckpthelp.h"

#include <sys/resource.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/files/map.h"
#include "base/mem.h"
#include "ckpt/torch/torch.h"
#include "ckpt/torch/unpickle.h"

/* Wraps a literal with its length, because pickles contain zero bytes. */
#define PICKLE(text) text, sizeof(text) - 1

static int run(struct unpickle *u, const char *bytes, size_t len, struct arena *a, struct err *e)
{
    return unpickle_run(u, bytes, len, a, "some.bin", "data.pkl", e);
}

/* Runs a pickle that must be refused with ERR_INPUT and a message that contains all the words. */
static void refuse(const char *bytes, size_t len, const char *word, const char *word2)
{
    struct unpickle u;
    struct arena a;
    struct err e;

    arena_init(&a, MEM_CKPT);
    help_refused(run(&u, bytes, len, &a, &e), ERR_INPUT, &e, "some.bin: data.pkl", word, word2, NULL);
    assert_null(u.object);
    arena_fini(&a);
}

static void numbers_are_read_with_their_signs(void **state)
{
    static const struct {
        const char *pickle;
        size_t len;
        int64_t value;
    } c[] = {
        {PICKLE("\x80\x02K\xff."), 255},
        {PICKLE("\x80\x02M\xff\xff."), 65535},
        {PICKLE("\x80\x02J\xfe\xff\xff\xff."), -2},
        {PICKLE("\x80\x02\x8a\x00."), 0},
        {PICKLE("\x80\x02\x8a\x01\xff."), -1},
        {PICKLE("\x80\x02\x8a\x02\x00\x80."), -32768},
        {PICKLE("\x80\x02\x8a\x05\x00\x00\x00\x00\x01."), 4294967296},
        {PICKLE("\x80\x02\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80."), INT64_MIN},
        {PICKLE("\x80\x02\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f."), INT64_MAX},
    };
    struct unpickle u;
    struct arena a;
    struct err e;

    arena_init(&a, MEM_CKPT);
    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        assert_int_equal(run(&u, c[i].pickle, c[i].len, &a, &e), 0);
        assert_int_equal(u.object->kind, UNPICKLE_INT);
        assert_true(u.object->u.i == c[i].value);
        assert_int_equal(u.bytes, c[i].len);
    }
    assert_int_equal(run(&u, PICKLE("\x80\x02G\xc0\x04\x00\x00\x00\x00\x00\x00."), &a, &e), 0);
    assert_true(u.object->kind == UNPICKLE_FLOAT && u.object->u.f == -2.5);
    assert_int_equal(run(&u, PICKLE("\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."), &a, &e), 0);
    assert_true(u.object->kind == UNPICKLE_BIG && u.object->n == 9);
    arena_fini(&a);
}

static void containers_and_the_memo_work(void **state)
{
    struct unpickle u;
    struct arena a;
    struct err e;

    arena_init(&a, MEM_CKPT);
    /* The value is {"a": [1, 2, None], "b": the same list, "c": (True, False)}, filled by SETITEMS and
     * SETITEM. */
    assert_int_equal(run(&u,
                         PICKLE("\x80\x02}q\x00(X\x01\x00\x00\x00"
                                "a]q\x01(K\x01K\x02Ne\x8c\x01"
                                "bh\x01uX\x01\x00\x00\x00"
                                "c\x88\x89\x86s.after"),
                         &a, &e),
                     0);
    assert_int_equal(u.object->kind, UNPICKLE_DICT);
    assert_int_equal(u.object->n, 6);
    assert_int_equal(torch_dict_get(u.object, "a")->n, 3);
    assert_ptr_equal(torch_dict_get(u.object, "a"), torch_dict_get(u.object, "b"));
    assert_int_equal(torch_dict_get(u.object, "c")->u.item[0]->u.i, 1);
    assert_null(torch_dict_get(u.object, "d"));
    /* The value is OrderedDict(), with FRAME, SHORT_BINUNICODE, MEMOIZE and STACK_GLOBAL of protocol 4. */
    assert_int_equal(run(&u,
                         PICKLE("\x80\x04\x95\x20\x00\x00\x00\x00\x00\x00\x00\x8c\x0b"
                                "collections\x94\x8c\x0bOrderedDict"
                                "\x94\x93\x94)R\x94."),
                         &a, &e),
                     0);
    assert_true(u.object->kind == UNPICKLE_DICT && u.object->n == 0);
    arena_fini(&a);
}

static void a_list_that_holds_itself_is_harmless(void **state)
{
    struct unpickle u;
    struct arena a;
    struct err e;

    arena_init(&a, MEM_CKPT);
    assert_int_equal(run(&u,
                         PICKLE("\x80\x02]q\x00h\x00"
                                "a."),
                         &a, &e),
                     0);
    assert_ptr_equal(u.object->u.item[0], u.object);
    arena_fini(&a);
}

static void any_other_global_is_refused_by_name(void **state)
{
    refuse(PICKLE("\x80\x02"
                  "cos\nsystem\nX\x04\x00\x00\x00true\x85R."),
           "os.system", "at byte 2");
    refuse(PICKLE("\x80\x02"
                  "cbuiltins\neval\n."),
           "builtins.eval", "at byte 2");
    refuse(PICKLE("\x80\x04\x8c\x08"
                  "builtins\x8c\x04"
                  "exec\x93."),
           "builtins.exec", "allowed");
    refuse(PICKLE("\x80\x02"
                  "ctorch._utils\n_rebuild_tensor_v3\n."),
           "_rebuild_tensor_v3", "allowed");
    refuse(PICKLE("\x80\x02"
                  "ctorch\nFloatStorag\n."),
           "torch.FloatStorag;", "allowed");
    refuse(PICKLE("\x80\x02"
                  "ctorch\nFloatStorage2\n."),
           "torch.FloatStorage2", "allowed");
    refuse(PICKLE("\x80\x02"
                  "c\x1b[2J\ns\n."),
           "?[2J.s", "allowed"); /* Terminals must not get escape sequences. */
}

static void any_other_opcode_is_refused_by_name(void **state)
{
    refuse(PICKLE("\x80\x02(I1\n."), "INT", "at byte 3");
    refuse(PICKLE("\x80\x02(ios\nsystem\n."), "INST", "not allowed");
    refuse(PICKLE("\x80\x02(cos\nsystem\no."), "os.system", "allowed");
    refuse(PICKLE("\x80\x02]\x81."), "NEWOBJ", "not allowed");
    refuse(PICKLE("\x80\x02\x82\x01."), "EXT1", "not allowed");
    refuse(PICKLE("\x80\x02]2."), "DUP", "not allowed");
    refuse(PICKLE("\x80\x02\x8b\x01\x00\x00\x00\x01."), "LONG4", "not allowed");
    refuse(PICKLE("\x80\x02\xee."), "unknown to Python", "at byte 2");
    refuse(PICKLE("\x80\x06N."), "PROTO", "newer");
}

static void misuse_of_the_stack_is_refused(void **state)
{
    refuse(PICKLE("\x80\x02."), "STOP", "stack is empty");
    refuse(PICKLE("\x80\x02NN."), "STOP", "left on the stack");
    refuse(PICKLE("\x80\x02(N."), "STOP", "left on the stack");
    refuse(PICKLE("\x80\x02N\x86."), "TUPLE2", "stack is empty");
    refuse(PICKLE("\x80\x02N(N\x86."), "TUPLE2", "stack is empty");
    refuse(PICKLE("\x80\x02Nt."), "TUPLE", "no mark");
    refuse(PICKLE("\x80\x02](s."), "SETITEM", "stack is empty");
    refuse(PICKLE("\x80\x02]NNs."), "SETITEM", "not a dict");
    refuse(PICKLE("\x80\x02}Na."), "APPEND", "not a list");
    refuse(PICKLE("\x80\x02)Na."), "APPEND", "not a list");
    refuse(PICKLE("\x80\x02}(Nu."), "SETITEMS", "no value");
    refuse(PICKLE("\x80\x02h\x00."), "BINGET", "no value at this index");
    refuse(PICKLE("\x80\x02q\x00."), "BINPUT", "stack is empty");
    refuse(PICKLE("\x80\x02)NR."), "REDUCE", "the call does not have");
    refuse(PICKLE("\x80\x02]Nb."), "BUILD", "only an OrderedDict");
    refuse(PICKLE("\x80\x02K\x01K\x02\x93."), "STACK_GLOBAL", "is not a string");
}

static void a_pickle_that_ends_early_is_refused_wherever_it_is_cut(void **state)
{
    static const char whole[] = "\x80\x02}q\x00(X\x01\x00\x00\x00"
                                "a\x8a\x02\x01\x02X\x01\x00\x00\x00"
                                "bG\x00\x00\x00\x00\x00\x00"
                                "\x00\x00\x8c\x01"
                                "ccollections\nOrderedDict\n)RU\x01"
                                "dM\x01\x01J\x01\x00\x00\x00K\x01u.";
    struct unpickle u;
    struct arena a;
    struct err e;

    arena_init(&a, MEM_CKPT);
    assert_int_equal(run(&u, PICKLE(whole), &a, &e),
                     ERR_INPUT); /* The number of values is odd, and the cuts end before that. */
    for (size_t n = 0; n < sizeof(whole) - 1; n++) {
        char *cut = malloc(n ? n : 1);

        assert_non_null(cut);
        memcpy(cut, whole, n);
        assert_int_equal(run(&u, cut, n, &a, &e), ERR_INPUT);
        free(cut);
    }
    arena_fini(&a);
}

static void sizes_beyond_the_pickle_cost_no_memory(void **state)
{
    mem_fail_at(40); /* A refusal needs a few small blocks. */
    refuse(PICKLE("\x80\x02X\xff\xff\xff\xff"
                  "abc."),
           "BINUNICODE", "ends within this opcode");
    refuse(PICKLE("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
                  "abc."),
           "BINUNICODE8", "ends within this opcode");
    refuse(PICKLE("\x80\x02T\x00\x00\x00\x80"
                  "abc."),
           "BINSTRING", "ends within this opcode");
    refuse(PICKLE("\x80\x02Nr\xff\xff\xff\x7f."), "LONG_BINPUT", "higher than the number of values");
    refuse(PICKLE("\x80\x02Nj\xff\xff\xff\x7f."), "LONG_BINGET", "no value at this index");
    assert_false(mem_failed());
    mem_fail_at(0);
}

/* The file has one opcode and a large hole. The pickle has built nothing that the memo could keep. */
static void a_place_in_the_memo_that_was_not_counted_to_costs_no_memory(void **state)
{
    /* None is stored at position 67108863 of the memo. */
    static const char start[] = "\x80\x02Nr\xff\xff\xff\x03";
    const size_t len = 256 << 20;
    char *hole = map_region_new(len);

    assert_non_null(hole);
    memcpy(hole, start, sizeof(start) - 1);
    mem_fail_at(2); /* The first allocation is the stack's. */
    refuse(hole, len, "LONG_BINPUT", "higher than the number of values");
    assert_false(mem_failed());
    mem_fail_at(0);
    map_region_free(hole, len);
}

static void the_memo_counts_the_values_that_were_built(void **state)
{
    static const struct {
        const char *pickle;
        size_t len;
        const char *refused; /* NULL: the pickle is valid */
    } c[] = {
        {PICKLE("\x80\x02]q\x00."), NULL}, /* Python 3 counts from 0. */
        {PICKLE("\x80\x02]q\x01."), NULL}, /* cPickle of Python 2 counts from 1. */
        {PICKLE("\x80\x02]q\x01]q\x02\x86."), NULL},
        {PICKLE("\x80\x02]r\x00\x00\x00\x00]r\x01\x00\x00\x00\x86."), NULL},
        {PICKLE("\x80\x04]\x94]\x94\x86\x94."), NULL},
        {PICKLE("\x80\x02]q\x02."), "BINPUT"},
        {PICKLE("\x80\x02]]q\x03\x86."), "BINPUT"},
        {PICKLE("\x80\x02]r\x02\x00\x00\x00."), "LONG_BINPUT"},
        {PICKLE("\x80\x04N\x94\x94."), "MEMOIZE"},
    };

    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        struct unpickle u;
        struct arena a;
        struct err e = {0};

        if (c[i].refused) {
            refuse(c[i].pickle, c[i].len, c[i].refused, "higher than the number of values");
            continue;
        }
        arena_init(&a, MEM_CKPT);
        if (run(&u, c[i].pickle, c[i].len, &a, &e) != 0)
            fail_msg("pickle %zu: %s", i, e.msg);
        arena_fini(&a);
    }
}

/* The pickle is the head, N times the body, and the tail. */
static void refuse_repeated(const char *head, const char *body, size_t n, const char *word)
{
    struct buf b;

    buf_init(&b, MEM_TEXT);
    buf_str(&b, head);
    for (size_t i = 0; i < n; i++)
        buf_str(&b, body);
    assert_false(b.oom);
    refuse(b.data, b.len, word, "data.pkl");
    buf_fini(&b);
}

static void bombs_hit_the_limits(void **state)
{
    size_t bytes = mem_live_bytes();

    refuse_repeated("\x80\x02", "(", 5000, "marks are nested too deeply");
    refuse_repeated("\x80\x02", "N", 100000, "stack is too deep");
    refuse_repeated("\x80\x02", "]", 100000, "stack is too deep");
    refuse_repeated("\x80\x02](", "NNNNNNNNNNe(", 1000000, "ends after"); /* harmless: it only appends */
    refuse_repeated("\x80\x02]", "]a", 4500000, "too many values");
    assert_int_equal(mem_live_bytes(), bytes);
}

/* OrderedDict() copies a short list again and again, and each copy counts. */
static void copies_of_a_shared_list_hit_the_limit(void **state)
{
    struct buf b;

    buf_init(&b, MEM_TEXT);
    buf_add(&b, PICKLE("\x80\x02"
                       "ccollections\nOrderedDict\nq\x01]q\x02("));
    for (int i = 0; i < 10000; i++)
        buf_str(&b, "NN\x86");
    buf_str(&b, "e");
    for (int i = 0; i < 1000; i++)
        buf_str(&b, "h\x01h\x02\x85R");
    refuse(b.data, b.len, "too many values", "data.pkl");
    buf_fini(&b);
}

#define STORAGE                                                       \
    "(X\x07\x00\x00\x00storagectorch\nHalfStorage\nX\x01\x00\x00\x00" \
    "0X\x03\x00\x00\x00"                                              \
    "cpuK\x0atQ"

static void a_tensor_is_built_from_its_arguments(void **state)
{
    const struct unpickle_tensor *t;
    struct unpickle u;
    struct arena a;
    struct err e;

    arena_init(&a, MEM_CKPT);
    assert_int_equal(
        run(&u,
            PICKLE("\x80\x02"
                   "ctorch._utils\n_rebuild_tensor_v2\n(" STORAGE "K\x02K\x03K\x02\x86K\x01K\x04\x86\x89"
                   "ccollections\nOrderedDict\n)RtR."),
            &a, &e),
        0);
    assert_int_equal(u.object->kind, UNPICKLE_TENSOR);
    t = u.object->u.tensor;
    assert_true(t->n_dims == 2 && t->offset == 2 && t->shape[0] == 3 && t->shape[1] == 2);
    assert_true(t->stride[0] == 1 && t->stride[1] == 4);
    assert_true(t->storage->dtype == DT_F16 && t->storage->n == 10 && t->storage->view_n == 10);
    assert_true(t->storage->key_len == 1 && t->storage->key[0] == '0');
    assert_ptr_equal(u.newest, t->storage);
    arena_fini(&a);
}

static void arguments_that_are_no_tensor_are_refused(void **state)
{
    refuse(PICKLE("\x80\x02"
                  "ctorch._utils\n_rebuild_tensor_v2\n)R."),
           "REDUCE", "arguments of a tensor are invalid");
    refuse(PICKLE("\x80\x02"
                  "ctorch._utils\n_rebuild_tensor_v2\n(NK\x00))tR."),
           "REDUCE", "arguments of a tensor are invalid");
    refuse(PICKLE("\x80\x02"
                  "ctorch._utils\n_rebuild_tensor_v2\n(" STORAGE "J\xff\xff\xff\xff))tR."),
           "REDUCE", "arguments of a tensor are invalid"); /* an offset of -1 */
    refuse(PICKLE("\x80\x02"
                  "ctorch._utils\n_rebuild_tensor_v2\n(" STORAGE "K\x00K\x01\x85)tR."),
           "REDUCE", "arguments of a tensor are invalid"); /* a shape without strides */
    refuse(PICKLE("\x80\x02"
                  "ctorch._utils\n_rebuild_tensor_v2\n(" STORAGE "K\x00J\xff\xff\xff\xff\x85K\x01\x85tR."),
           "REDUCE", "arguments of a tensor are invalid"); /* a negative size */
    refuse(PICKLE("\x80\x02"
                  "ctorch._utils\n_rebuild_tensor_v2\n(" STORAGE
                  "K\x00(K\x01K\x01K\x01K\x01K\x01K\x01K\x01K\x01K\x01t"
                  "(K\x01K\x01K\x01K\x01K\x01K\x01K\x01K\x01K\x01ttR."),
           "REDUCE", "more dimensions");
    refuse(PICKLE("\x80\x02"
                  "ctorch._utils\n_rebuild_parameter\nN\x85R."),
           "REDUCE", "argument of a parameter is not a tensor");
    refuse(PICKLE("\x80\x02"
                  "ctorch\nSize\n)R."),
           "REDUCE", "Size");
    refuse(PICKLE("\x80\x02"
                  "ctorch\nFloatStorage\n)R."),
           "REDUCE", "cannot be called");
    refuse(PICKLE("\x80\x02"
                  "ccollections\nOrderedDict\n](Ne\x85R."),
           "REDUCE", "list of pairs");
    refuse(PICKLE("\x80\x02"
                  "ccollections\nOrderedDict\nNN\x86R."),
           "REDUCE", "list of pairs");
}

static void persistent_ids_of_other_things_are_refused(void **state)
{
    refuse(PICKLE("\x80\x02NQ."), "BINPERSID", "does not name a torch storage");
    refuse(PICKLE("\x80\x02(X\x06\x00\x00\x00moduleNNNNtQ."), "BINPERSID", "does not name a torch storage");
    refuse(PICKLE("\x80\x02(X\x07\x00\x00\x00storageccollections\nOrderedDict\nX\x01\x00\x00\x00"
                  "0X\x03\x00\x00\x00"
                  "cpuK\x01tQ."),
           "BINPERSID", "does not name a torch storage");
    refuse(PICKLE("\x80\x02(X\x07\x00\x00\x00storagectorch\nHalfStorage\nX\x01\x00\x00\x00"
                  "0X\x03\x00\x00\x00"
                  "cpuJ\xff\xff\xff\xfftQ."),
           "BINPERSID", "does not name a torch storage");
}

static int run_dict(void *arg, struct err *e)
{
    struct unpickle u;
    struct arena a;
    int rc;

    (void)arg;
    arena_init(&a, MEM_CKPT);
    rc = run(&u,
             PICKLE("\x80\x02}q\x00(X\x01\x00\x00\x00"
                    "a](K\x01K\x02"
                    "eX\x01\x00\x00\x00"
                    "bctorch._utils\n_rebuild_tensor\n(" STORAGE "K\x02)(ttRu."),
             &a, e);
    arena_fini(&a);
    return rc;
}

static void lack_of_memory_is_reported_without_a_leak(void **state)
{
    help_every_allocation(run_dict, NULL);
}

/* A faulty reader that allocates more fails here instead of using all memory of the machine. */
static void limit_memory(void)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    const struct rlimit most = {.rlim_cur = (rlim_t)2 << 30, .rlim_max = (rlim_t)2 << 30};

    assert_int_equal(setrlimit(RLIMIT_AS, &most), 0);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_read_with_their_signs),
        cmocka_unit_test(containers_and_the_memo_work),
        cmocka_unit_test(a_list_that_holds_itself_is_harmless),
        cmocka_unit_test(any_other_global_is_refused_by_name),
        cmocka_unit_test(any_other_opcode_is_refused_by_name),
        cmocka_unit_test(misuse_of_the_stack_is_refused),
        cmocka_unit_test(a_pickle_that_ends_early_is_refused_wherever_it_is_cut),
        cmocka_unit_test(sizes_beyond_the_pickle_cost_no_memory),
        cmocka_unit_test(a_place_in_the_memo_that_was_not_counted_to_costs_no_memory),
        cmocka_unit_test(the_memo_counts_the_values_that_were_built),
        cmocka_unit_test(bombs_hit_the_limits),
        cmocka_unit_test(copies_of_a_shared_list_hit_the_limit),
        cmocka_unit_test(a_tensor_is_built_from_its_arguments),
        cmocka_unit_test(arguments_that_are_no_tensor_are_refused),
        cmocka_unit_test(persistent_ids_of_other_things_are_refused),
        cmocka_unit_test(lack_of_memory_is_reported_without_a_leak),
    };

    /* The memory of a sanitizer would count as well, so only the failing allocator is used there. */
    limit_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
