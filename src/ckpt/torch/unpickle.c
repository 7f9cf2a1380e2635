/* unpickle.c - the stack machine for pickles, protocols 2 to 5.
 *
 * The stack, the marks, the memo and the number of values are limited. Every operand is checked against the
 * remaining bytes. No size in the pickle leads to an allocation; memory grows with the opcodes that are read.
 * No function recurses, so cyclic or deeply nested values are harmless. Format: Python's Lib/pickletools.py,
 * which describes every opcode; torch/serialization.py for the persistent ids.
 */
#include "ckpt/torch/unpickle.h"

#include <string.h>

#include "ckpt/little_endian.h"
#include "ckpt/torch/torch.h"

enum { MAX_BYTES = 256 << 20, MAX_STACK = 1 << 16, MAX_MARKS = 1 << 10, MAX_VALUES = 1 << 22 };

/* The opcodes that are executed. Other opcodes are errors. */
/* clang-format off */
enum pickleop {
    OP_MARK = 0x28, OP_EMPTY_TUPLE = 0x29, OP_STOP = 0x2e, OP_BINFLOAT = 0x47, OP_BININT = 0x4a,
    OP_BININT1 = 0x4b, OP_BININT2 = 0x4d, OP_NONE = 0x4e, OP_BINPERSID = 0x51, OP_REDUCE = 0x52,
    OP_BINSTRING = 0x54, OP_SHORT_BINSTRING = 0x55, OP_BINUNICODE = 0x58, OP_EMPTY_LIST = 0x5d,
    OP_APPEND = 0x61, OP_BUILD = 0x62, OP_GLOBAL = 0x63, OP_APPENDS = 0x65, OP_BINGET = 0x68,
    OP_LONG_BINGET = 0x6a, OP_BINPUT = 0x71, OP_LONG_BINPUT = 0x72, OP_SETITEM = 0x73, OP_TUPLE = 0x74,
    OP_SETITEMS = 0x75, OP_EMPTY_DICT = 0x7d, OP_PROTO = 0x80, OP_TUPLE1 = 0x85, OP_TUPLE2 = 0x86,
    OP_TUPLE3 = 0x87, OP_NEWTRUE = 0x88, OP_NEWFALSE = 0x89, OP_LONG1 = 0x8a, OP_SHORT_BINUNICODE = 0x8c,
    OP_BINUNICODE8 = 0x8d, OP_STACK_GLOBAL = 0x93, OP_MEMOIZE = 0x94, OP_FRAME = 0x95,
};
/* clang-format on */

/* clang-format off */
static const char *const opcodes[256] = {
    [0x28] = "MARK", [0x29] = "EMPTY_TUPLE", [0x2e] = "STOP", [0x30] = "POP", [0x31] = "POP_MARK",
    [0x32] = "DUP", [0x42] = "BINBYTES", [0x43] = "SHORT_BINBYTES", [0x46] = "FLOAT", [0x47] = "BINFLOAT",
    [0x49] = "INT", [0x4a] = "BININT", [0x4b] = "BININT1", [0x4c] = "LONG", [0x4d] = "BININT2",
    [0x4e] = "NONE", [0x50] = "PERSID", [0x51] = "BINPERSID", [0x52] = "REDUCE", [0x53] = "STRING",
    [0x54] = "BINSTRING", [0x55] = "SHORT_BINSTRING", [0x56] = "UNICODE", [0x58] = "BINUNICODE",
    [0x5d] = "EMPTY_LIST", [0x61] = "APPEND", [0x62] = "BUILD", [0x63] = "GLOBAL", [0x64] = "DICT",
    [0x65] = "APPENDS", [0x67] = "GET", [0x68] = "BINGET", [0x69] = "INST", [0x6a] = "LONG_BINGET",
    [0x6c] = "LIST", [0x6f] = "OBJ", [0x70] = "PUT", [0x71] = "BINPUT", [0x72] = "LONG_BINPUT",
    [0x73] = "SETITEM", [0x74] = "TUPLE", [0x75] = "SETITEMS", [0x7d] = "EMPTY_DICT", [0x80] = "PROTO",
    [0x81] = "NEWOBJ", [0x82] = "EXT1", [0x83] = "EXT2", [0x84] = "EXT4", [0x85] = "TUPLE1",
    [0x86] = "TUPLE2", [0x87] = "TUPLE3", [0x88] = "NEWTRUE", [0x89] = "NEWFALSE", [0x8a] = "LONG1",
    [0x8b] = "LONG4", [0x8c] = "SHORT_BINUNICODE", [0x8d] = "BINUNICODE8", [0x8e] = "BINBYTES8",
    [0x8f] = "EMPTY_SET", [0x90] = "ADDITEMS", [0x91] = "FROZENSET", [0x92] = "NEWOBJ_EX",
    [0x93] = "STACK_GLOBAL", [0x94] = "MEMOIZE", [0x95] = "FRAME", [0x96] = "BYTEARRAY8",
    [0x97] = "NEXT_BUFFER", [0x98] = "READONLY_BUFFER",
};
/* clang-format on */

static const char *opcode_name(unsigned char op)
{
    return opcodes[op] ? opcodes[op] : "unknown to Python";
}

/* Values that all runs of pickles share. They are never changed, because only lists and dicts are filled. */
static struct unpickle_value none = {.kind = UNPICKLE_NONE};
static struct unpickle_value yes = {.kind = UNPICKLE_BOOL, .u.i = 1};
static struct unpickle_value no = {.kind = UNPICKLE_BOOL};
static struct unpickle_value empty_tuple = {.kind = UNPICKLE_TUPLE};

struct unpickler {
    const char *begin, *p, *end;
    const char *op; /* the current opcode */
    struct arena *arena;
    struct unpickle_value **stack, **memo;
    size_t *mark;
    size_t n_stack, cap_stack, n_memo, cap_memo, n_marks, cap_marks, n_values;
    struct unpickle_storage *newest;
    struct unpickle_value *result; /* set by STOP */
    const char *path, *what;
    struct err *e;
    int rc; /* code of the first error */
};

/* Records an error unless an earlier one is recorded. Returns NULL. */
static void *fail_at(struct unpickler *m, const char *why)
{
    if (m->rc == 0)
        m->rc = err_set(m->e, ERR_INPUT, "%s: %s: at byte %zu, opcode %s: %s", m->path, m->what,
                        (size_t)(m->op - m->begin), opcode_name((unsigned char)*m->op), why);
    return NULL;
}

static void no_memory(struct unpickler *m)
{
    m->rc = err_nomem(m->e, m->path);
}

/* Returns the next N bytes of the pickle. NULL: fewer are left, which is an error. */
static const char *take_bytes(struct unpickler *m, size_t n)
{
    const char *p = m->p;

    if (m->rc || (size_t)(m->end - p) < n)
        return fail_at(m, "the pickle ends within this opcode");
    m->p += n;
    return p;
}

static uint64_t number(struct unpickler *m, size_t bytes)
{
    const char *p = take_bytes(m, bytes);
    uint64_t v = 0;

    for (size_t i = 0; p && i < bytes; i++)
        v |= (uint64_t)(unsigned char)p[i] << (8 * i);
    return v;
}

static void push(struct unpickler *m, struct unpickle_value *v)
{
    if (m->rc || !v)
        return;
    if (m->n_stack == MAX_STACK)
        fail_at(m, "the stack is too deep");
    else if (!mem_grow((void **)&m->stack, &m->cap_stack, m->n_stack + 1, sizeof(*m->stack), MEM_CKPT))
        no_memory(m);
    else
        m->stack[m->n_stack++] = v;
}

/* Returns the stack index down to which values may be popped: the index of the topmost mark, or 0. */
static size_t floor_of(const struct unpickler *m)
{
    return m->n_marks ? m->mark[m->n_marks - 1] : 0;
}

static struct unpickle_value *pop(struct unpickler *m)
{
    if (m->rc || m->n_stack == floor_of(m))
        return fail_at(m, "the stack is empty");
    return m->stack[--m->n_stack];
}

static struct unpickle_value *top(struct unpickler *m)
{
    if (m->rc || m->n_stack == floor_of(m))
        return fail_at(m, "the stack is empty");
    return m->stack[m->n_stack - 1];
}

static void push_mark(struct unpickler *m)
{
    if (m->n_marks == MAX_MARKS)
        fail_at(m, "marks are nested too deeply");
    else if (!mem_grow((void **)&m->mark, &m->cap_marks, m->n_marks + 1, sizeof(*m->mark), MEM_CKPT))
        no_memory(m);
    else
        m->mark[m->n_marks++] = m->n_stack;
}

/* Values that were popped from the stack. They are valid until the next push. N is 0 after an error. */
struct items {
    struct unpickle_value **v;
    size_t n;
};

/* Pops the topmost mark and the values above it. */
static struct items pop_mark(struct unpickler *m)
{
    struct items x = {.v = NULL};

    if (m->rc || m->n_marks == 0) {
        fail_at(m, "there is no mark on the stack");
        return x;
    }
    x.n = m->n_stack - m->mark[--m->n_marks];
    m->n_stack -= x.n;
    x.v = m->stack ? m->stack + m->n_stack : NULL;
    return x;
}

static struct items pop_n(struct unpickler *m, size_t n)
{
    if (m->n_stack - floor_of(m) < n) {
        fail_at(m, "the stack is empty");
        return (struct items){.v = NULL};
    }
    m->n_stack -= n;
    return (struct items){m->stack + m->n_stack, n};
}

static struct unpickle_value *new_value(struct unpickler *m, enum unpickle_kind kind)
{
    struct unpickle_value *v;

    if (m->rc)
        return NULL;
    if (m->n_values++ >= MAX_VALUES)
        return fail_at(m, "the pickle builds too many values");
    v = arena_zalloc(m->arena, 1, sizeof(*v));
    if (!v)
        no_memory(m);
    else
        v->kind = kind;
    return v;
}

static void push_int(struct unpickler *m, int64_t i)
{
    struct unpickle_value *v = new_value(m, UNPICKLE_INT);

    if (v)
        v->u.i = i;
    push(m, v);
}

static void push_bytes(struct unpickler *m, enum unpickle_kind kind, uint64_t n)
{
    const char *s = n <= SIZE_MAX ? take_bytes(m, (size_t)n) : NULL;
    struct unpickle_value *v = s ? new_value(m, kind) : NULL;

    if (v) {
        v->u.s = s;
        v->n = (size_t)n;
    }
    push(m, v);
}

/* Pushes the operand of LONG1: an INT of up to 8 bytes, or a BIG (the magic number of a stream). */
static void push_long(struct unpickler *m)
{
    size_t n = (size_t)number(m, 1);
    int64_t v;

    if (n > 8) {
        push_bytes(m, UNPICKLE_BIG, n);
        return;
    }
    v = (int64_t)number(m, n);
    if (n > 0 && n < 8 && (v >> (8 * n - 1) & 1))
        v -= (int64_t)1 << (8 * n);
    push_int(m, v);
}

static void push_float(struct unpickler *m)
{
    const char *p = take_bytes(m, 8);
    struct unpickle_value *v = p ? new_value(m, UNPICKLE_FLOAT) : NULL;
    uint64_t bits;

    if (v) {
        bits = __builtin_bswap64(little_u64(p)); /* BINFLOAT is big-endian */
        memcpy(&v->u.f, &bits, 8);
    }
    push(m, v);
}

/* Appends ITEM [n] to the list, tuple or dict C. */
static void extend(struct unpickler *m, struct unpickle_value *c, struct unpickle_value *const *item,
                   size_t n)
{
    if (m->rc || n == 0)
        return;
    if (c->n + n > c->cap) {
        /* doubles the capacity, because the arena does not free the old array */
        size_t cap = c->cap * 2 > c->n + n ? c->cap * 2 : c->n + n;
        struct unpickle_value **grown = arena_zalloc(m->arena, cap, sizeof(*grown));

        if (!grown) {
            no_memory(m);
            return;
        }
        if (c->n)
            memcpy(grown, c->u.item, c->n * sizeof(*grown));
        c->u.item = grown;
        c->cap = cap;
    }
    memcpy(c->u.item + c->n, item, n * sizeof(*item));
    c->n += n;
}

static void push_tuple(struct unpickler *m, struct items x)
{
    struct unpickle_value *v = x.n ? new_value(m, UNPICKLE_TUPLE) : &empty_tuple;

    if (v && x.n)
        extend(m, v, x.v, x.n);
    push(m, v);
}

/* Appends X to the list, or the pairs X to the dict, on top of the stack. */
static void fill(struct unpickler *m, enum unpickle_kind kind, struct items x)
{
    struct unpickle_value *c = top(m);

    if (!c)
        return;
    if (c->kind != kind)
        fail_at(m, kind == UNPICKLE_LIST ? "the value to append to is not a list"
                                         : "the value to fill is not a dict");
    else if (kind == UNPICKLE_DICT && x.n % 2)
        fail_at(m, "a key has no value");
    else
        extend(m, c, x.v, x.n);
}

static void memo_put(struct unpickler *m, uint64_t at)
{
    struct unpickle_value *v = top(m);
    size_t cap = m->cap_memo;

    if (!v)
        return;
    if (at > m->n_values) { /* picklers number values from 0 or 1 */
        fail_at(m, "the memo index is higher than the number of values");
        return;
    }
    if (!mem_grow((void **)&m->memo, &m->cap_memo, (size_t)at + 1, sizeof(*m->memo), MEM_CKPT)) {
        no_memory(m);
        return;
    }
    if (m->cap_memo > cap)
        memset(m->memo + cap, 0, (m->cap_memo - cap) * sizeof(*m->memo));
    m->memo[at] = v;
    if (at >= m->n_memo)
        m->n_memo = (size_t)at + 1;
}

static void memo_get(struct unpickler *m, uint64_t at)
{
    if (at >= m->n_memo || !m->memo[at])
        fail_at(m, "the memo has no value at this index");
    else
        push(m, m->memo[at]);
}

/* Returns the number of bytes of a name that a message shows. */
static int shown_bytes(size_t n)
{
    return n < 100 ? (int)n : 100;
}

static void push_global(struct unpickler *m, const char *module, size_t n_module, const char *name,
                        size_t n_name)
{
    int64_t row = torch_object_find(module, n_module, name, n_name);
    struct unpickle_value *v;

    if (m->rc)
        return;
    if (row < 0) {
        m->rc = err_set(
            m->e, ERR_INPUT,
            "%s: %s: at byte %zu the pickle names %.*s.%.*s; only objects that build tensors are allowed",
            m->path, m->what, (size_t)(m->op - m->begin), shown_bytes(n_module), module, shown_bytes(n_name),
            name);
        return;
    }
    if ((v = new_value(m, UNPICKLE_GLOBAL)))
        v->u.i = row;
    push(m, v);
}

static const char *take_line(struct unpickler *m, size_t *n)
{
    const char *line = m->p, *feed = memchr(line, '\n', (size_t)(m->end - line));

    if (!feed)
        return fail_at(m, "the pickle ends within this opcode");
    *n = (size_t)(feed - line);
    m->p = feed + 1;
    return line;
}

static void op_global(struct unpickler *m)
{
    size_t n_module, n_name;
    const char *module = take_line(m, &n_module);
    const char *name = module ? take_line(m, &n_name) : NULL;

    if (name)
        push_global(m, module, n_module, name, n_name);
}

static void op_stack_global(struct unpickler *m)
{
    struct unpickle_value *name = pop(m), *module = pop(m);

    if (!name || !module)
        return;
    if (name->kind != UNPICKLE_STR || module->kind != UNPICKLE_STR)
        fail_at(m, "the module or the name is not a string");
    else
        push_global(m, module->u.s, module->n, name->u.s, name->n);
}

/* Pushes V, the result of torch_object_call() or torch_object_storage(). V NULL: records the error WHY or, if
 * WHY is NULL, lack of memory. */
static void push_made(struct unpickler *m, struct unpickle_value *v, const char *why)
{
    if (!v && why)
        fail_at(m, why);
    else if (!v)
        no_memory(m);
    push(m, v);
}

static void op_persistent_id(struct unpickler *m)
{
    struct unpickle_value *id = pop(m), *v;
    const char *why = NULL;

    if (!id)
        return;
    if ((v = torch_object_storage(id, m->arena, &why))) {
        v->u.storage->older = m->newest;
        m->newest = v->u.storage;
    }
    push_made(m, v, why);
}

static void op_reduce(struct unpickler *m)
{
    struct unpickle_value *args = pop(m), *f = pop(m), *v;
    const char *why = NULL;

    if (!args || !f)
        return;
    if (f->kind != UNPICKLE_GLOBAL || args->kind != UNPICKLE_TUPLE)
        fail_at(m, "the call does not have an allowed object and a tuple of arguments");
    else if ((m->n_values += torch_object_cost(f->u.i, args)) > MAX_VALUES)
        fail_at(m, "the pickle builds too many values");
    if (m->rc)
        return;
    v = torch_object_call(f->u.i, args, m->arena, &why);
    push_made(m, v, why);
}

/* Pops and ignores the state of an OrderedDict (_metadata of a state dict). Other objects have no state. */
static void op_build(struct unpickler *m)
{
    struct unpickle_value *state = pop(m), *object = state ? top(m) : NULL;

    if (object && object->kind != UNPICKLE_DICT)
        fail_at(m, "only an OrderedDict may have attributes");
}

static void op_stop(struct unpickler *m)
{
    struct unpickle_value *v = pop(m);

    if (v && (m->n_stack || m->n_marks))
        fail_at(m, "values are left on the stack");
    m->result = v;
}

static void run_value(struct unpickler *m, unsigned char op)
{
    switch (op) {
    case OP_NONE: push(m, &none); break;
    case OP_NEWTRUE: push(m, &yes); break;
    case OP_NEWFALSE: push(m, &no); break;
    case OP_BININT: push_int(m, (int32_t)number(m, 4)); break;
    case OP_BININT1: push_int(m, (int64_t)number(m, 1)); break;
    case OP_BININT2: push_int(m, (int64_t)number(m, 2)); break;
    case OP_LONG1: push_long(m); break;
    case OP_BINFLOAT: push_float(m); break;
    case OP_BINUNICODE:
    case OP_BINSTRING: push_bytes(m, UNPICKLE_STR, number(m, 4)); break;
    case OP_SHORT_BINUNICODE:
    case OP_SHORT_BINSTRING: push_bytes(m, UNPICKLE_STR, number(m, 1)); break;
    case OP_BINUNICODE8: push_bytes(m, UNPICKLE_STR, number(m, 8)); break;
    case OP_EMPTY_DICT: push(m, new_value(m, UNPICKLE_DICT)); break;
    case OP_EMPTY_LIST: push(m, new_value(m, UNPICKLE_LIST)); break;
    case OP_EMPTY_TUPLE: push(m, &empty_tuple); break;
    case OP_GLOBAL: op_global(m); break;
    case OP_STACK_GLOBAL: op_stack_global(m); break;
    default: fail_at(m, "no checkpoint needs this opcode; it is not allowed");
    }
}

static void run_op(struct unpickler *m, unsigned char op)
{
    switch (op) {
    case OP_PROTO:
        if (number(m, 1) > 5)
            fail_at(m, "the pickle protocol is newer than 5");
        break;
    case OP_FRAME: number(m, 8); break;
    case OP_MARK: push_mark(m); break;
    case OP_STOP: op_stop(m); break;
    case OP_TUPLE: push_tuple(m, pop_mark(m)); break;
    case OP_TUPLE1: push_tuple(m, pop_n(m, 1)); break;
    case OP_TUPLE2: push_tuple(m, pop_n(m, 2)); break;
    case OP_TUPLE3: push_tuple(m, pop_n(m, 3)); break;
    case OP_APPEND: fill(m, UNPICKLE_LIST, pop_n(m, 1)); break;
    case OP_APPENDS: fill(m, UNPICKLE_LIST, pop_mark(m)); break;
    case OP_SETITEM: fill(m, UNPICKLE_DICT, pop_n(m, 2)); break;
    case OP_SETITEMS: fill(m, UNPICKLE_DICT, pop_mark(m)); break;
    case OP_BINPUT: memo_put(m, number(m, 1)); break;
    case OP_LONG_BINPUT: memo_put(m, number(m, 4)); break;
    case OP_MEMOIZE: memo_put(m, m->n_memo); break;
    case OP_BINGET: memo_get(m, number(m, 1)); break;
    case OP_LONG_BINGET: memo_get(m, number(m, 4)); break;
    case OP_BINPERSID: op_persistent_id(m); break;
    case OP_REDUCE: op_reduce(m); break;
    case OP_BUILD: op_build(m); break;
    default: run_value(m, op);
    }
}

int unpickle_run(struct unpickle *u, const char *bytes, size_t len, struct arena *a, const char *path,
                 const char *what, struct err *e)
{
    const char *text = bytes ? bytes : ""; /* BYTES is NULL for an empty file */
    struct unpickler m = {
        .begin = text,
        .p = text,
        .op = text,
        .end = text + (len < MAX_BYTES ? len : MAX_BYTES),
        .arena = a,
        .path = path,
        .what = what,
        .e = e,
    };

    *u = (struct unpickle){0};
    while (!m.rc && !m.result) {
        m.op = m.p;
        if (m.p == m.end)
            m.rc = err_set(e, ERR_INPUT, "%s: %s: the pickle ends after %zu bytes without STOP", path, what,
                           (size_t)(m.p - m.begin));
        else
            run_op(&m, (unsigned char)*m.p++);
    }
    mem_free(m.stack);
    mem_free(m.memo);
    mem_free(m.mark);
    if (m.rc)
        return m.rc;
    *u = (struct unpickle){.object = m.result, .newest = m.newest, .bytes = (size_t)(m.p - m.begin)};
    return 0;
}
