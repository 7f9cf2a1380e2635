/* pattern_set.c - adds, sorts, negates and folds ranges of characters. Categories come from utf8proc. */
#include "text/grammar/automata/pattern_set.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/mem.h"

void pattern_set_fini(struct pattern_set *set)
{
    mem_free(set->range);
    *set = (struct pattern_set){0};
}

void pattern_set_add(struct pattern_set *set, uint32_t low, uint32_t high)
{
    if (low > high || set->no_memory)
        return;
    if (!mem_grow((void **)&set->range, &set->cap, set->n + 1, sizeof(*set->range), MEM_TEXT)) {
        set->no_memory = true;
        return;
    }
    set->range[set->n++] = (struct pattern_range){low, high};
}

void pattern_set_add_all(struct pattern_set *set, const struct pattern_range *of, size_t n)
{
    for (size_t i = 0; i < n; i++)
        pattern_set_add(set, of[i].low, of[i].high);
}

#define ADD_ALL(set, ranges) pattern_set_add_all(set, ranges, sizeof(ranges) / sizeof(*(ranges)))

void pattern_set_join(struct pattern_set *set, const struct pattern_set *other)
{
    pattern_set_add_all(set, other->range, other->n);
    set->no_memory = set->no_memory || other->no_memory;
}

static int compare_ranges(const void *a, const void *b)
{
    uint32_t x = ((const struct pattern_range *)a)->low, y = ((const struct pattern_range *)b)->low;

    return (x > y) - (x < y);
}

void pattern_set_sort(struct pattern_set *set)
{
    size_t n = 0;

    if (set->n > 1)
        qsort(set->range, set->n, sizeof(*set->range), compare_ranges);
    for (size_t i = 0; i < set->n; i++) {
        struct pattern_range x = set->range[i];

        if (n > 0 && x.low <= set->range[n - 1].high + 1)
            set->range[n - 1].high = x.high > set->range[n - 1].high ? x.high : set->range[n - 1].high;
        else
            set->range[n++] = x;
    }
    set->n = n;
}

void pattern_set_negate(struct pattern_set *set)
{
    struct pattern_set gaps = {.no_memory = set->no_memory};
    uint32_t next = 0;

    pattern_set_sort(set);
    for (size_t i = 0; i < set->n; i++) {
        if (set->range[i].low > next)
            pattern_set_add(&gaps, next, set->range[i].low - 1);
        next = set->range[i].high + 1;
    }
    pattern_set_add(&gaps, next, PATTERN_LAST_CHARACTER);
    pattern_set_fini(set);
    *set = gaps;
}

bool pattern_set_has(const struct pattern_set *set, uint32_t c)
{
    size_t low = 0, high = set->n;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (c > set->range[mid].high)
            low = mid + 1;
        else
            high = mid;
    }
    return low < set->n && c >= set->range[low].low;
}

/* LAST_CASED: the last character that has another case. MOST_PASSES: maximum number of passes of one fold.
 * MOST_FOLDED: maximum number of folds in one pattern. */
enum { LAST_CASED = 0x1e943, MOST_PASSES = 3, MOST_FOLDED = 5000 };

struct pattern_case {
    uint32_t c, lower, upper;
};

void pattern_cases_fini(struct pattern_cases *cases)
{
    mem_free(cases->of);
    *cases = (struct pattern_cases){0};
}

static bool find_cases(struct pattern_cases *cases)
{
    for (uint32_t c = 0; c <= LAST_CASED && cases->n_folded == 0; c++) {
        uint32_t lower = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c),
                 upper = (uint32_t)utf8proc_toupper((utf8proc_int32_t)c);

        if (lower == c && upper == c)
            continue;
        if (!mem_grow((void **)&cases->of, &cases->cap, cases->n + 1, sizeof(*cases->of), MEM_TEXT))
            return false;
        cases->of[cases->n++] = (struct pattern_case){c, lower, upper};
    }
    return true;
}

/* Adds the other case of the ASCII character C, and non-ASCII characters that fold to C. False: C >= 0x80. */
static bool fold_ascii(struct pattern_set *set, uint32_t c)
{
    if (c >= 0x80)
        return false;
    if ((c | 32) < 'a' || (c | 32) > 'z')
        return true;
    pattern_set_add(set, c ^ 32, c ^ 32);
    if ((c | 32) == 'k')
        pattern_set_add(set, 0x212a, 0x212a); /* the Kelvin sign */
    if ((c | 32) == 's')
        pattern_set_add(set, 0x17f, 0x17f); /* the long s */
    return true;
}

bool pattern_set_fold(struct pattern_set *set, struct pattern_cases *cases)
{
    if (set->n == 1 && set->range[0].low == set->range[0].high && fold_ascii(set, set->range[0].low))
        return true;
    set->no_memory = set->no_memory || !find_cases(cases);
    if (++cases->n_folded > MOST_FOLDED)
        return false;
    /* A second pass finds characters that share a case with a character added by the first pass: the small
     * sigma and the final sigma have the same capital. */
    for (int pass = 0; pass < MOST_PASSES; pass++) {
        struct pattern_set more = {0};

        pattern_set_sort(set);
        for (size_t k = 0; k < cases->n; k++) {
            uint32_t of[3] = {cases->of[k].c, cases->of[k].lower, cases->of[k].upper};
            int n_has = 0;

            for (int i = 0; i < 3; i++)
                n_has += pattern_set_has(set, of[i]);
            for (int i = 0; i < 3 && n_has > 0 && n_has < 3; i++)
                pattern_set_add(&more, of[i], of[i]);
        }
        pattern_set_join(set, &more);
        pass = more.n ? pass : MOST_PASSES;
        pattern_set_fini(&more);
    }
    pattern_set_sort(set);
    return true;
}

/* If C begins a large range of characters of one category, returns the last character of the range, else C. */
static uint32_t end_of_category(uint32_t c)
{
    static const struct pattern_range uniform[] = {
        {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xac00, 0xd7a3},   {0xd800, 0xdfff},   {0xe000, 0xf8ff},
        {0x17000, 0x187f7}, {0x20000, 0x2a6df}, {0x2b820, 0x2cea1}, {0x2ceb0, 0x2ebe0}, {0x30000, 0x3134a},
        {0x31350, 0x323af}, {0x323b0, 0xe0000}, {0xe01f0, 0xeffff}, {0xf0000, 0xffffd}, {0x100000, 0x10fffd}};

    for (size_t i = 0; i < sizeof(uniform) / sizeof(*uniform); i++)
        if (c == uniform[i].low)
            return uniform[i].high;
    return c;
}

void pattern_set_add_categories(struct pattern_set *set, uint32_t categories)
{
    uint32_t from = UINT32_MAX;

    for (uint32_t c = 0, end; c <= PATTERN_LAST_CHARACTER; c = end + 1) {
        bool in = (categories >> utf8proc_category((utf8proc_int32_t)c) & 1) != 0;

        end = (c & 0xf) == 0 ? end_of_category(c) : c;
        if (in && from == UINT32_MAX)
            from = c;
        if (!in && from != UINT32_MAX) {
            pattern_set_add(set, from, c - 1);
            from = UINT32_MAX;
        }
    }
    if (from != UINT32_MAX)
        pattern_set_add(set, from, PATTERN_LAST_CHARACTER);
}

void pattern_set_add_kind(struct pattern_set *set, char kind, bool wide)
{
    static const struct pattern_range digits[] = {{'0', '9'}},
                                      letters[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                                      ascii_spaces[] = {{9, 13}, {' ', ' '}},
                                      spaces[] = {{9, 13},          {0x1c, 0x20},     {0x85, 0x85},
                                                  {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
                                                  {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f},
                                                  {0x3000, 0x3000}, {0xfeff, 0xfeff}};
    const uint32_t all_digits = UINT32_C(1) << UTF8PROC_CATEGORY_ND,
                   /* Letters, marks, numbers, connecting punctuation, and unassigned characters. */
        all_letters = ((UINT32_C(2) << UTF8PROC_CATEGORY_NO) - 1) | UINT32_C(1) << UTF8PROC_CATEGORY_PC;

    if (kind == 'd')
        ADD_ALL(set, digits);
    else if (kind == 'w')
        ADD_ALL(set, letters);
    else if (wide)
        ADD_ALL(set, spaces);
    else
        ADD_ALL(set, ascii_spaces);
    if (wide && kind != 's')
        pattern_set_add_categories(set, kind == 'd' ? all_digits : all_letters);
}

#define BIT(category) (UINT32_C(1) << UTF8PROC_CATEGORY_##category)

/* The names of general categories, from Unicode's PropertyValueAliases. */
static const struct {
    const char *brief, *full, *other;
    uint32_t bits;
} property[] = {
    {"C", "Other", NULL, BIT(CC) | BIT(CF) | BIT(CS) | BIT(CO) | BIT(CN)},
    {"Cc", "Control", "cntrl", BIT(CC)},
    {"Cf", "Format", NULL, BIT(CF)},
    {"Cn", "Unassigned", NULL, BIT(CN)},
    {"Co", "Private_Use", NULL, BIT(CO)},
    {"Cs", "Surrogate", NULL, BIT(CS)},
    {"L", "Letter", NULL, BIT(LU) | BIT(LL) | BIT(LT) | BIT(LM) | BIT(LO)},
    {"LC", "Cased_Letter", NULL, BIT(LU) | BIT(LL) | BIT(LT)},
    {"Ll", "Lowercase_Letter", NULL, BIT(LL)},
    {"Lm", "Modifier_Letter", NULL, BIT(LM)},
    {"Lo", "Other_Letter", NULL, BIT(LO)},
    {"Lt", "Titlecase_Letter", NULL, BIT(LT)},
    {"Lu", "Uppercase_Letter", NULL, BIT(LU)},
    {"M", "Mark", "Combining_Mark", BIT(MN) | BIT(MC) | BIT(ME)},
    {"Mc", "Spacing_Mark", NULL, BIT(MC)},
    {"Me", "Enclosing_Mark", NULL, BIT(ME)},
    {"Mn", "Nonspacing_Mark", NULL, BIT(MN)},
    {"N", "Number", NULL, BIT(ND) | BIT(NL) | BIT(NO)},
    {"Nd", "Decimal_Number", "digit", BIT(ND)},
    {"Nl", "Letter_Number", NULL, BIT(NL)},
    {"No", "Other_Number", NULL, BIT(NO)},
    {"P", "Punctuation", "punct", BIT(PC) | BIT(PD) | BIT(PS) | BIT(PE) | BIT(PI) | BIT(PF) | BIT(PO)},
    {"Pc", "Connector_Punctuation", NULL, BIT(PC)},
    {"Pd", "Dash_Punctuation", NULL, BIT(PD)},
    {"Pe", "Close_Punctuation", NULL, BIT(PE)},
    {"Pf", "Final_Punctuation", NULL, BIT(PF)},
    {"Pi", "Initial_Punctuation", NULL, BIT(PI)},
    {"Po", "Other_Punctuation", NULL, BIT(PO)},
    {"Ps", "Open_Punctuation", NULL, BIT(PS)},
    {"S", "Symbol", NULL, BIT(SM) | BIT(SC) | BIT(SK) | BIT(SO)},
    {"Sc", "Currency_Symbol", NULL, BIT(SC)},
    {"Sk", "Modifier_Symbol", NULL, BIT(SK)},
    {"Sm", "Math_Symbol", NULL, BIT(SM)},
    {"So", "Other_Symbol", NULL, BIT(SO)},
    {"Z", "Separator", NULL, BIT(ZS) | BIT(ZL) | BIT(ZP)},
    {"Zl", "Line_Separator", NULL, BIT(ZL)},
    {"Zp", "Paragraph_Separator", NULL, BIT(ZP)},
    {"Zs", "Space_Separator", NULL, BIT(ZS)},
    {"Assigned", NULL, NULL, ~BIT(CN)},
};

static bool is_text(const char *name, size_t n, const char *text)
{
    return text && strlen(text) == n && memcmp(name, text, n) == 0;
}

bool pattern_set_add_property(struct pattern_set *set, const char *name, size_t n)
{
    const char *equals = memchr(name, '=', n);

    if (equals) {
        size_t key = (size_t)(equals - name);

        if (!is_text(name, key, "gc") && !is_text(name, key, "General_Category"))
            return false;
        n -= key + 1;
        name = equals + 1;
    }
    for (size_t i = 0; i < sizeof(property) / sizeof(*property); i++)
        if (is_text(name, n, property[i].brief) || is_text(name, n, property[i].full) ||
            is_text(name, n, property[i].other)) {
            pattern_set_add_categories(set, property[i].bits);
            return true;
        }
    if (!is_text(name, n, "Any") && !is_text(name, n, "ASCII"))
        return false;
    pattern_set_add(set, 0, n == strlen("Any") ? PATTERN_LAST_CHARACTER : 0x7f);
    return true;
}

uint32_t pattern_set_regex(struct pattern_set *set, struct regex_store *s, pattern_alphabet *alphabet)
{
    uint32_t *of, r;

    pattern_set_sort(set);
    if (set->n == 1 && !set->no_memory)
        return alphabet(s, set->range[0].low, set->range[0].high);
    of = set->no_memory ? NULL : mem_alloc(set->n * sizeof(*of), MEM_TEXT);
    if (!of) {
        s->fault = s->fault ? s->fault : REGEX_NO_MEMORY;
        return REGEX_NOTHING;
    }
    for (size_t i = 0; i < set->n; i++)
        of[i] = alphabet(s, set->range[i].low, set->range[i].high);
    r = regex_union(s, of, set->n);
    mem_free(of);
    return r;
}
