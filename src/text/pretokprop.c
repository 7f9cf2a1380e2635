/* pretokprop.c - general categories by both their names, and scripts. A script name alone means the Script
 * property in Oniguruma; in PCRE2 10.40 and later it would mean Script_Extensions, hence "sc:".
 */
#include "text/pretokprop.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *shown, *longer;
} category[] = {
    {"L", "letter"},
    {"Lu", "uppercaseletter"},
    {"Ll", "lowercaseletter"},
    {"Lt", "titlecaseletter"},
    {"Lm", "modifierletter"},
    {"Lo", "otherletter"},
    {"M", "mark"},
    {"Mn", "nonspacingmark"},
    {"Mc", "spacingmark"},
    {"Me", "enclosingmark"},
    {"N", "number"},
    {"Nd", "decimalnumber"},
    {"Nl", "letternumber"},
    {"No", "othernumber"},
    {"P", "punctuation"},
    {"Pc", "connectorpunctuation"},
    {"Pd", "dashpunctuation"},
    {"Ps", "openpunctuation"},
    {"Pe", "closepunctuation"},
    {"Pi", "initialpunctuation"},
    {"Pf", "finalpunctuation"},
    {"Po", "otherpunctuation"},
    {"S", "symbol"},
    {"Sm", "mathsymbol"},
    {"Sc", "currencysymbol"},
    {"Sk", "modifiersymbol"},
    {"So", "othersymbol"},
    {"Z", "separator"},
    {"Zs", "spaceseparator"},
    {"Zl", "lineseparator"},
    {"Zp", "paragraphseparator"},
    {"Cc", "control"},
    {"Cf", "format"},
    {"Co", "privateuse"},
};

static const char *const script[] = {
    "Arabic",    "Armenian", "Bengali",  "Bopomofo", "Common", "Cyrillic", "Devanagari", "Ethiopic",
    "Georgian",  "Greek",    "Gujarati", "Gurmukhi", "Han",    "Hangul",   "Hebrew",     "Hiragana",
    "Inherited", "Kannada",  "Katakana", "Khmer",    "Lao",    "Latin",    "Malayalam",  "Mongolian",
    "Myanmar",   "Oriya",    "Sinhala",  "Tamil",    "Telugu", "Thai",     "Tibetan",
};

/* Lower case, without what does not count. false: too long or not ASCII. */
static bool fold(const char *name, size_t n, char *out, size_t size)
{
    size_t m = 0;

    for (size_t i = 0; i < n; i++) {
        char c = name[i];
        if (c == ' ' || c == '_' || c == '-')
            continue;
        if (c <= 0 || m + 1 == size)
            return false;
        out[m++] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
    }
    out[m] = 0;
    return m > 0;
}

bool pretokprop_find(const char *name, size_t n, char *out, size_t size)
{
    char want[40], have[40];

    if (!fold(name, n, want, sizeof(want)))
        return false;
    for (size_t i = 0; i < sizeof(category) / sizeof(*category); i++) {
        fold(category[i].shown, strlen(category[i].shown), have, sizeof(have));
        if (strcmp(want, have) == 0 || strcmp(want, category[i].longer) == 0) {
            snprintf(out, size, "\\p{%s}", category[i].shown);
            return true;
        }
    }
    for (size_t i = 0; i < sizeof(script) / sizeof(*script); i++) {
        fold(script[i], strlen(script[i]), have, sizeof(have));
        if (strcmp(want, have) == 0) {
            snprintf(out, size, "\\p{sc:%s}", script[i]);
            return true;
        }
    }
    return false;
}
