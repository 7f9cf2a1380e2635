/* options.c - checks struct gallop_options by the rows of options.def. */
#include "engine/open/options.h"

#include <stddef.h>

#include "base/param/param.h"
#include "gallop.h"
#include "kv/kv.h"

struct row {
    struct param param;
    bool is_for_engines; /* struct gallop_executor does not have the option */
};

/* clang-format off */
#define BOTH   false
#define ENGINE true
#define ENGINE_MEMBER(member, type, values, place) \
    {{#member, type, values, PARAM_MEMBER(struct gallop_options, member)}, place},
#define ENGINE_OPTION(member, type, values, place, help, flag)     ENGINE_MEMBER(member, type, values, place)
#define SOURCE_OPTION(member, type, values, place, help, flag)     ENGINE_MEMBER(member, type, values, place)
#define SCHEDULING_OPTION(member, type, values, place, help, flag) ENGINE_MEMBER(member, type, values, place)
static const struct row rows[] = {
#include "engine/options.def"
};
/* clang-format on */

int engine_options_check(const struct gallop_options *o, bool is_executor, struct err *e)
{
    bool is_extern = o->kv_cache_type && kv_type_extern(o->kv_cache_type);
    int rc = 0;

    if (is_extern && !is_executor)
        return err_about(e, ERR_INPUT, "kv_cache_type", "%s is supported by gallop_executor_open() only",
                         o->kv_cache_type);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && rc == 0; i++) {
        const struct param *p = &rows[i].param;
        const struct param_value v = param_load(p, o);

        if ((!v.text && v.f == 0) || /* not given */
            (is_extern && p->into.at == offsetof(struct gallop_options, kv_cache_type)))
            continue;
        if (is_executor && rows[i].is_for_engines)
            return err_about(e, ERR_INPUT, p->name,
                             "must not be given: an executor has no queue, scheduler and prefix cache");
        rc = param_check(p, o, e);
    }
    return rc;
}
