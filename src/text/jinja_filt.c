/* jinja_filt.c - which filters there are: Jinja 3.1's, with tojson as chat templates know it. */
#include "text/jinja_filt.h"

#include <string.h>

#include "text/jinja_fgen.h"
#include "text/jinja_fnum.h"
#include "text/jinja_fseq.h"
#include "text/jinja_fstr.h"
#include "text/jinja_html.h"
#include "text/jinja_json.h"
#include "text/jinja_link.h"
#include "text/jinja_wrap.h"

static const struct jfilter table[] = {
    {"abs", jinja_fnum_abs},
    {"attr", jinja_fseq_attr},
    {"batch", jinja_fgen_batch},
    {"capitalize", jinja_fstr_capitalize},
    {"center", jinja_fstr_center},
    {"count", jinja_fseq_length},
    {"d", jinja_fseq_default},
    {"default", jinja_fseq_default},
    {"dictsort", jinja_fseq_dictsort},
    {"e", jinja_html_filter_escape},
    {"escape", jinja_html_filter_escape},
    {"filesizeformat", jinja_fnum_filesizeformat},
    {"first", jinja_fseq_first},
    {"float", jinja_fnum_float},
    {"forceescape", jinja_html_filter_forceescape},
    {"format", jinja_fstr_format},
    {"groupby", jinja_fseq_groupby},
    {"indent", jinja_fstr_indent},
    {"int", jinja_fnum_int},
    {"items", jinja_fgen_items},
    {"join", jinja_fseq_join},
    {"last", jinja_fseq_last},
    {"length", jinja_fseq_length},
    {"list", jinja_fseq_list},
    {"lower", jinja_fstr_lower},
    {"map", jinja_fgen_map},
    {"max", jinja_fseq_max},
    {"min", jinja_fseq_min},
    {"pprint", jinja_fstr_pprint},
    {"random", jinja_fseq_random},
    {"reject", jinja_fgen_reject},
    {"rejectattr", jinja_fgen_rejectattr},
    {"replace", jinja_fstr_replace},
    {"reverse", jinja_fseq_reverse},
    {"round", jinja_fnum_round},
    {"safe", jinja_html_filter_safe},
    {"select", jinja_fgen_select},
    {"selectattr", jinja_fgen_selectattr},
    {"slice", jinja_fgen_slice},
    {"sort", jinja_fseq_sort},
    {"string", jinja_fstr_string},
    {"striptags", jinja_html_filter_striptags},
    {"sum", jinja_fseq_sum},
    {"title", jinja_fstr_title},
    {"tojson", jinja_json_filter},
    {"trim", jinja_fstr_trim},
    {"truncate", jinja_fstr_truncate},
    {"unique", jinja_fgen_unique},
    {"upper", jinja_fstr_upper},
    {"urlencode", jinja_html_filter_urlencode},
    {"urlize", jinja_link_filter},
    {"wordcount", jinja_fstr_wordcount},
    {"wordwrap", jinja_wrap_filter},
    {"xmlattr", jinja_html_filter_xmlattr},
};

const struct jfilter *jinja_filt_find(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (strlen(table[i].name) == n && memcmp(table[i].name, name, n) == 0)
            return &table[i];
    return NULL;
}
