/* test_schema_random.c - random schemas of small arrays, objects and integers, against a validator that reads the
 * keywords one by one. Every instance of a small world is accepted by a compiled schema or not as the validator says.
 */
#include <math.h>

#include "base/buf.h"
#include "base/mem.h"
#include "schematexts.h"
#include "shorttexts.h"

enum { N_VALUES = 3, MOST_LENGTH = 4, MOST_INSTANCES = 800, ABSENT = -1 };

/* The names that `properties` lists, in this order, and others. */
static const char *const names[] = {"a", "ab", "b", "abc", "x", "y"};
enum { N_LISTED = 4, N_NAMES = 6 };

/* An instance: an array of N numbers, or an object with a number or nothing for each name. */
struct instance {
    bool is_object;
    int n, value[N_NAMES];
    char text[64];
};

/* A set of the numbers 0, 1 and 2, as bits. ALL: the schema `true`. */
enum { ALL = (1 << N_VALUES) - 1, NOT_GIVEN = -1 };

/* The keywords of a schema; NOT_GIVEN where one is missing. */
struct keywords {
    bool is_object;
    int n_prefix, prefix[2], items, contains, min_contains, max_contains; /* sets, and counts */
    bool is_unique;
    int property[N_LISTED], additional, pattern, names_longest; /* PATTERN: of names with an a */
    unsigned required, dependent;                               /* bits of names; those that "b" needs */
    int least, most;
};

/* A schema: keywords, or a combination of two schemas. */
enum kind { KEYWORDS, NOT, ALL_OF, ANY_OF, ONE_OF, IF_THEN, N_KINDS };

struct schema {
    enum kind kind;
    struct keywords own;
    const struct schema *of[2];
};

/* ---- validation ---- */

static bool is_in(int set, int value)
{
    return set >> value & 1;
}

static bool is_valid_array(const struct keywords *k, const struct instance *x)
{
    int n_contained = 0;

    for (int i = 0; i < x->n; i++) {
        int set = i < k->n_prefix ? k->prefix[i] : k->items == NOT_GIVEN ? ALL : k->items;

        if (!is_in(set, x->value[i]))
            return false;
        n_contained += k->contains != NOT_GIVEN && is_in(k->contains, x->value[i]);
        for (int j = 0; j < i && k->is_unique; j++)
            if (x->value[j] == x->value[i])
                return false;
    }
    if (k->contains != NOT_GIVEN && (n_contained < (k->min_contains == NOT_GIVEN ? 1 : k->min_contains) ||
                                     (k->max_contains != NOT_GIVEN && n_contained > k->max_contains)))
        return false;
    return x->n >= k->least && (k->most == NOT_GIVEN || x->n <= k->most);
}

static bool is_valid_object(const struct keywords *k, const struct instance *x)
{
    int n = 0;

    for (int i = 0; i < N_NAMES; i++) {
        bool has_pattern = k->pattern != NOT_GIVEN && strchr(names[i], 'a');
        int set = i < N_LISTED                                ? k->property[i]
                  : k->additional == NOT_GIVEN || has_pattern ? ALL
                                                              : k->additional;

        if (x->value[i] == ABSENT) {
            if (k->required >> i & 1 || (k->dependent >> i & 1 && x->value[2] != ABSENT))
                return false;
            continue;
        }
        n++;
        if (!is_in(set, x->value[i]) || (has_pattern && !is_in(k->pattern, x->value[i])) ||
            (k->names_longest != NOT_GIVEN && (int)strlen(names[i]) > k->names_longest))
            return false;
    }
    return n >= k->least && (k->most == NOT_GIVEN || n <= k->most);
}

static bool is_valid(const struct schema *s, const struct instance *x)
{
    bool a = s->of[0] && is_valid(s->of[0], x), b = s->of[1] && is_valid(s->of[1], x);

    switch (s->kind) {
    case NOT: return !a;
    case ALL_OF: return a && b;
    case ANY_OF: return a || b;
    case ONE_OF: return a != b;
    case IF_THEN: return !a || b;
    case KEYWORDS:
    case N_KINDS: break;
    }
    return s->own.is_object ? is_valid_object(&s->own, x) : is_valid_array(&s->own, x);
}

/* ---- random schemas ---- */

static int some_set(void)
{
    return (int)short_dice(1 << N_VALUES);
}

/* Returns a number below N, or NOT_GIVEN in half of the calls. */
static int maybe(uint32_t n)
{
    return short_dice(2) ? NOT_GIVEN : (int)short_dice(n);
}

static struct keywords random_keywords(bool is_object, bool may_be_unique)
{
    struct keywords k = {.is_object = is_object, .least = short_dice(2) ? 0 : (int)short_dice(4)};

    k.most = short_dice(2) ? NOT_GIVEN : k.least + (int)short_dice(3);
    k.n_prefix = (int)short_dice(3);
    for (int i = 0; i < 2; i++)
        k.prefix[i] = some_set() | (short_dice(2) ? ALL : 0);
    k.items = maybe(1 << N_VALUES);
    k.is_unique = may_be_unique && short_dice(4) == 0;
    k.contains = k.is_unique ? NOT_GIVEN : maybe(1 << N_VALUES);
    k.min_contains = maybe(3);
    k.max_contains = maybe(4);
    for (int i = 0; i < N_LISTED; i++)
        k.property[i] = short_dice(2) ? ALL : some_set();
    k.additional = maybe(1 << N_VALUES);
    k.pattern = short_dice(3) ? NOT_GIVEN : some_set();
    k.names_longest = short_dice(3) ? NOT_GIVEN : (int)short_dice(4);
    k.required = short_dice(2) ? 0 : short_dice(1 << (N_LISTED + 1));
    k.dependent = short_dice(3) ? 0 : short_dice(1 << 2);
    return k;
}

static void write_count(struct buf *b, const char *keyword, int n)
{
    if (n != NOT_GIVEN)
        buf_fmt(b, ",\"%s\":%d", keyword, n);
}

/* IS_FINITE: an `enum` is written for ALL, too. */
static void write_set(struct buf *b, int set, bool is_finite)
{
    const char *comma = "";

    if (set == ALL && !is_finite) {
        buf_str(b, short_dice(2) ? "true" : "{}");
        return;
    }
    buf_str(b, "{\"enum\":[");
    for (int i = 0; i < N_VALUES; i++)
        if (is_in(set, i)) {
            buf_fmt(b, "%s%d", comma, i);
            comma = ",";
        }
    buf_str(b, "]}");
}

static void write_member(struct buf *b, const char *keyword, int set, bool is_finite)
{
    if (set == NOT_GIVEN)
        return;
    buf_fmt(b, ",\"%s\":", keyword);
    write_set(b, set, is_finite);
}

static void write_array(struct buf *b, const struct keywords *k)
{
    buf_fmt(b, "\"type\":\"array\",\"prefixItems\":[");
    for (int i = 0; i < k->n_prefix; i++) {
        buf_str(b, i ? "," : "");
        write_set(b, k->prefix[i], k->is_unique);
    }
    buf_str(b, "]");
    write_member(b, "items", k->is_unique && k->items == NOT_GIVEN ? ALL : k->items, k->is_unique);
    write_member(b, "contains", k->contains, false);
    write_count(b, "minContains", k->min_contains);
    write_count(b, "maxContains", k->max_contains);
    buf_str(b, k->is_unique ? ",\"uniqueItems\":true" : "");
    write_count(b, "minItems", k->least);
    write_count(b, "maxItems", k->most);
}

static void write_names(struct buf *b, unsigned set)
{
    const char *comma = "";

    buf_char(b, '[');
    for (int i = 0; i < N_NAMES; i++)
        if (set >> i & 1) {
            buf_fmt(b, "%s\"%s\"", comma, names[i]);
            comma = ",";
        }
    buf_char(b, ']');
}

static void write_object(struct buf *b, const struct keywords *k)
{
    buf_str(b, "\"type\":\"object\",\"properties\":{");
    for (int i = 0; i < N_LISTED; i++) {
        buf_fmt(b, "%s\"%s\":", i ? "," : "", names[i]);
        write_set(b, k->property[i], false);
    }
    buf_str(b, "},\"required\":");
    write_names(b, k->required);
    write_member(b, "additionalProperties", k->additional, false);
    if (k->pattern != NOT_GIVEN) {
        buf_str(b, ",\"patternProperties\":{\"a\":");
        write_set(b, k->pattern, false);
        buf_char(b, '}');
    }
    if (k->names_longest != NOT_GIVEN)
        buf_fmt(b, ",\"propertyNames\":{\"maxLength\":%d}", k->names_longest);
    if (k->dependent) {
        buf_str(b, ",\"dependentRequired\":{\"b\":");
        write_names(b, k->dependent);
        buf_char(b, '}');
    }
    write_count(b, "minProperties", k->least);
    write_count(b, "maxProperties", k->most);
}

static void write_schema(struct buf *b, const struct schema *s, bool is_object)
{
    static const char *const between[N_KINDS][3] = {[NOT] = {"\"not\":", "", ""},
                                                    [ALL_OF] = {"\"allOf\":[", ",", "]"},
                                                    [ANY_OF] = {"\"anyOf\":[", ",", "]"},
                                                    [ONE_OF] = {"\"oneOf\":[", ",", "]"},
                                                    [IF_THEN] = {"\"if\":", ",\"then\":", ""}};

    buf_char(b, '{');
    if (s->kind == KEYWORDS) {
        (is_object ? write_object : write_array)(b, &s->own);
    } else {
        /* the order of names is that of `properties` here */
        buf_str(b,
                is_object
                    ? "\"type\":\"object\",\"properties\":{\"a\":true,\"ab\":true,\"b\":true,\"abc\":true},"
                    : "\"type\":\"array\",");
        buf_str(b, between[s->kind][0]);
        write_schema(b, s->of[0], is_object);
        buf_str(b, between[s->kind][1]);
        if (s->of[1])
            write_schema(b, s->of[1], is_object);
        buf_str(b, between[s->kind][2]);
    }
    buf_char(b, '}');
}

/* ---- instances ---- */

static void write_instance(struct instance *x)
{
    char *at = x->text;
    const char *comma = "";

    *at++ = x->is_object ? '{' : '[';
    for (int i = 0; i < x->n; i++) {
        if (x->value[i] == ABSENT)
            continue;
        at += x->is_object ? sprintf(at, "%s\"%s\":%d", comma, names[i], x->value[i])
                           : sprintf(at, "%s%d", comma, x->value[i]);
        comma = ",";
    }
    *at++ = x->is_object ? '}' : ']';
    *at = 0;
}

/* Writes all arrays of at most MOST_LENGTH numbers, or all objects with the numbers 0 and 1. Returns how many. */
static size_t make_instances(bool is_object, struct instance *x)
{
    size_t n = 0;

    for (int length = is_object ? N_NAMES : 0; length <= (is_object ? N_NAMES : MOST_LENGTH); length++) {
        int count = 1;

        for (int i = 0; i < length; i++)
            count *= N_VALUES;
        for (int number = 0; number < count; number++, n++) {
            assert_in_range(n, 0, MOST_INSTANCES - 1);
            x[n] = (struct instance){.is_object = is_object, .n = length};
            for (int i = 0, rest = number; i < length; i++, rest /= N_VALUES)
                x[n].value[i] = rest % N_VALUES - is_object; /* of an object, the first one is ABSENT */
            write_instance(&x[n]);
        }
    }
    return n;
}

/* ---- numbers ---- */

/* Thousandths. */
enum { UNIT = 1000, NO_BOUND = INT32_MIN };

/* The keywords of a schema of numbers. */
struct number_keywords {
    bool is_integer;
    int32_t at_least, above, at_most, below, divisor; /* NO_BOUND: the keyword is missing */
    int32_t other_than;                               /* `not` with this `const` */
};

static int32_t random_bound(void)
{
    static const int32_t unit[] = {1, 10, 100, UNIT, 10 * UNIT, 50 * UNIT};

    return short_dice(2) ? NO_BOUND : ((int32_t)short_dice(41) - 20) * unit[short_dice(6)];
}

static void write_bound(struct buf *b, const char *begin, int32_t x, const char *end)
{
    if (x != NO_BOUND)
        buf_fmt(b, ",%s%s%d.%03d%s", begin, x < 0 ? "-" : "", abs(x) / UNIT, abs(x) % UNIT, end);
}

static void write_numbers(struct buf *b, const struct number_keywords *k)
{
    buf_fmt(b, "{\"type\":\"%s\"", k->is_integer ? "integer" : "number");
    write_bound(b, "\"minimum\":", k->at_least, "");
    write_bound(b, "\"exclusiveMinimum\":", k->above, "");
    write_bound(b, "\"maximum\":", k->at_most, "");
    write_bound(b, "\"exclusiveMaximum\":", k->below, "");
    write_bound(b, "\"multipleOf\":", k->divisor, "");
    write_bound(b, "\"not\":{\"const\":", k->other_than, "}");
    buf_str(b, "}");
}

/* TEXT is a number of X thousandths. */
static bool is_valid_number(const struct number_keywords *k, const char *text, int64_t x)
{
    return !(k->is_integer && strpbrk(text, ".eE")) && !(k->divisor != NO_BOUND && strpbrk(text, "eE")) &&
           (k->at_least == NO_BOUND || x >= k->at_least) && (k->above == NO_BOUND || x > k->above) &&
           (k->at_most == NO_BOUND || x <= k->at_most) && (k->below == NO_BOUND || x < k->below) &&
           (k->divisor == NO_BOUND || x % k->divisor == 0) &&
           (k->other_than == NO_BOUND || x != k->other_than);
}

/* Compares the schema X of K, which is SCHEMA, with numbers in all spellings. */
static void check_numbers(struct compiled *x, const struct number_keywords *k, const char *schema)
{
    static const char *const whole[] = {"0",  "1",  "2",   "9",   "10",  "19",
                                        "20", "99", "100", "149", "200", "1000"},
                             *const fraction[] = {"", ".0", ".5", ".50", ".01", ".1", ".999", ".010"},
                             *const exponent[] = {"", "e0", "e1", "E+02", "e-1", "e-02"};
    char text[64];

    for (int sign = 0; sign < 2; sign++)
        for (size_t i = 0; i < sizeof(whole) / sizeof(*whole); i++)
            for (size_t j = 0; j < sizeof(fraction) / sizeof(*fraction); j++)
                for (size_t e = 0; e < sizeof(exponent) / sizeof(*exponent); e++) {
                    double value;
                    bool expected;

                    /* with an exponent: one digit other than 0, and a fraction without zeros at its end */
                    if (e > 0 && (strlen(whole[i]) > 1 || i == 0 || strcmp(fraction[j], ".50") == 0 ||
                                  strcmp(fraction[j], ".010") == 0))
                        continue;
                    snprintf(text, sizeof(text), "%s%s%s%s", sign ? "-" : "", whole[i], fraction[j],
                             exponent[e]);
                    value = strtod(text, NULL) * UNIT;
                    if (fabs(value - round(value)) > 1e-6)
                        continue;
                    expected = is_valid_number(k, text, llround(value));
                    if (schematexts_accepts(x, text) != expected)
                        fail_msg("%s: %s is %s", schema, text, expected ? "refused" : "accepted");
                }
}

static void random_numbers_agree_with_the_validator(void **state)
{
    static const int32_t divisor[] = {1 * UNIT, 2 * UNIT, 3 * UNIT, 7 * UNIT, 10 * UNIT,
                                      500,      250,      100,      50,       1500};
    int n_compiled = 0;

    (void)state;
    for (int round = 0; round < 250; round++) {
        struct number_keywords k = {.is_integer = short_dice(3) == 0,
                                    .at_least = random_bound(),
                                    .above = NO_BOUND,
                                    .at_most = NO_BOUND,
                                    .below = random_bound(),
                                    .divisor = NO_BOUND,
                                    .other_than = short_dice(2) ? NO_BOUND : random_bound()};
        struct buf b = {.tag = MEM_TEXT};
        struct compiled x;

        if (short_dice(2)) {
            k.above = k.at_least;
            k.at_least = NO_BOUND;
        }
        if (short_dice(2)) {
            k.at_most = k.below;
            k.below = NO_BOUND;
        }
        if (short_dice(4) == 0)
            k.divisor = divisor[short_dice(sizeof(divisor) / sizeof(*divisor))];
        write_numbers(&b, &k);
        buf_char(&b, 0);
        schematexts_compile(&x, b.data, &schematexts_valid);
        if (x.rc == 0)
            check_numbers(&x, &k, b.data);
        else if (!strstr(x.e.msg, "no text matches"))
            fail_msg("%s: %s", b.data, x.e.msg);
        n_compiled += x.rc == 0;
        schematexts_drop(&x);
        buf_fini(&b);
    }
    assert_in_range(n_compiled, 180, 250);
}

/* ---- tests ---- */

/* What answers have under S, which is SCHEMA, is valid, and there is something if there are valid values. */
static void check_answers(const struct schema *s, const char *schema, const struct instance *x, size_t n)
{
    struct compiled c;

    schematexts_compile(&c, schema, NULL);
    if (c.rc)
        fail_msg("%s: %s", schema, c.e.msg);
    for (size_t i = 0; i < n; i++)
        if (schematexts_accepts(&c, x[i].text) && !is_valid(s, &x[i]))
            fail_msg("%s: an answer may be %s", schema, x[i].text);
    schematexts_drop(&c);
}

/* Compiles S and compares it with all instances. Returns whether it compiled. Counts values that are valid under
 * `oneOf` and refused. */
static bool agrees(const struct schema *s, bool is_object, const struct instance *x, size_t n,
                   size_t *n_refused)
{
    struct buf b = {.tag = MEM_TEXT};
    struct compiled c;
    size_t n_valid = 0;
    bool is_compiled;

    write_schema(&b, s, is_object);
    buf_char(&b, 0);
    schematexts_compile(&c, b.data, &schematexts_valid);
    is_compiled = c.rc == 0;
    for (size_t i = 0; i < n; i++) {
        bool expected = is_valid(s, &x[i]);

        n_valid += expected;
        if (!is_compiled || schematexts_accepts(&c, x[i].text) == expected)
            continue;
        if (!expected || s->kind != ONE_OF)
            fail_msg("%s: %s is %s", b.data, x[i].text, expected ? "refused" : "accepted");
        ++*n_refused; /* where many clauses overlap, `oneOf` leaves some objects out */
    }
    if (is_compiled && short_dice(3) == 0)
        check_answers(s, b.data, x, n);
    if (!is_compiled && n_valid > 0 && strstr(c.e.msg, "no text matches"))
        fail_msg("%s: %s, but %zu values are valid", b.data, c.e.msg, n_valid);
    if (!is_compiled && !strstr(c.e.msg, "no text matches") && !strstr(c.e.msg, "not supported") &&
        !strstr(c.e.msg, "too "))
        fail_msg("%s: %s", b.data, c.e.msg);
    schematexts_drop(&c);
    buf_fini(&b);
    return is_compiled;
}

static void schemas_agree_with_the_validator(bool is_object)
{
    static struct instance instance[MOST_INSTANCES];
    size_t n = make_instances(is_object, instance), n_refused = 0;
    int n_compiled = 0;

    for (int round = 0; round < (is_object ? 300 : 600); round++) {
        struct schema leaf[2] = {0}, whole = {.kind = round % 3 ? short_dice(N_KINDS) : KEYWORDS}, inner, *s;

        for (int i = 0; i < 2; i++)
            leaf[i].own = random_keywords(is_object, whole.kind == KEYWORDS);
        whole.own = leaf[0].own;
        s = &whole;
        if (whole.kind != KEYWORDS) {
            whole.of[0] = &leaf[0];
            whole.of[1] = whole.kind == NOT ? NULL : &leaf[1];
            if (short_dice(4) == 0) { /* nested */
                inner = (struct schema){.kind = NOT, .of = {&leaf[0]}};
                whole.of[0] = &inner;
            }
        }
        n_compiled += agrees(s, is_object, instance, n, &n_refused);
    }
    assert_in_range(n_compiled, is_object ? 200 : 420, 600);
    assert_in_range(n_refused, 0, is_object ? 100 : 0);
}

static void random_arrays_agree_with_the_validator(void **state)
{
    (void)state;
    schemas_agree_with_the_validator(false);
}

static void random_objects_agree_with_the_validator(void **state)
{
    (void)state;
    schemas_agree_with_the_validator(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_arrays_agree_with_the_validator),
        cmocka_unit_test(random_objects_agree_with_the_validator),
        cmocka_unit_test(random_numbers_agree_with_the_validator),
    };

    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
