/* test_openapi.c - /openapi.json says what the tables say: every path, every field with its range, and
 * nothing that is not there. */
#include <math.h>

#include "api/api_priv.h"
#include "api/http/keys.h"
#include "api/http/openapi.h"
#include "api/http/routes.h"
#include "base/buf.h"
#include "chat/fields.h"
#include "chat/schema.h"

static const char *const names[] = {"small", "a \"b\""};
static struct keys keys;
static struct api api = {
    .opt = {.service.name = names, .service.n_names = 2, .keys = &keys, .tokenizer_info = "{}"}};

static json_t *document(void)
{
    struct buf text = {.tag = MEM_API};
    json_error_t e;
    json_t *o;
    size_t n;
    const struct route *r = routes_all(&n);

    openapi_write(&api, r, n, &text);
    o = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, &e);
    if (!o)
        fail_msg("%s at %d: %.60s", e.text, e.position, text.data + (e.position > 30 ? e.position - 30 : 0));
    buf_fini(&text);
    return o;
}

static const json_t *at(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);

    if (!v)
        fail_msg("no member %s", key);
    return v;
}

static const json_t *operation(const json_t *all, const struct route *r)
{
    char path[80];
    size_t n = strlen(r->path);
    bool named = r->path[n - 1] == '*';

    snprintf(path, sizeof(path), "%.*s%s", (int)(n - named), r->path, named ? "{name}" : "");
    return at(at(at(all, "paths"), path), strcmp(r->method, "GET") == 0 ? "get" : "post");
}

static const json_t *schema_of(const json_t *part)
{
    return at(at(at(part, "content"), "application/json"), "schema");
}

static void every_path_has_its_answers(void **state)
{
    json_t *all = document();
    size_t n;
    const struct route *r = routes_all(&n);

    assert_int_equal(json_object_size(at(all, "paths")), n);
    for (size_t i = 0; i < n; i++) {
        const json_t *answers = at(operation(all, &r[i]), "responses"), *ok = at(answers, "200");

        at(answers, "400");
        at(answers, "503");
        assert_int_equal(json_object_get(answers, "415") != NULL, r[i].endpoint != 0);
        if (r[i].schema->text) {
            const char *ref = json_string_value(at(schema_of(ok), "$ref"));

            assert_memory_equal(ref, "#/components/schemas/", 21);
            at(at(at(all, "components"), "schemas"), ref + 21);
        }
    }
    json_decref(all);
}

static void what_is_not_offered_is_not_told(void **state)
{
    json_t *all = document(), *without;

    at(at(all, "paths"), "/tokenizer_info");
    api.opt.tokenizer_info = NULL;
    without = document();
    api.opt.tokenizer_info = "{}";
    assert_null(json_object_get(at(without, "paths"), "/tokenizer_info"));
    assert_int_equal(json_object_size(at(without, "paths")) + 1, json_object_size(at(all, "paths")));
    json_decref(without);
    json_decref(all);
}

static void every_field_has_its_range(void **state)
{
    json_t *all = document();
    size_t n;
    const struct route *r = routes_all(&n);
    struct fields_row row;

    for (size_t i = 0; i < n; i++) {
        const json_t *members;
        size_t count = 0;

        if (!r[i].endpoint)
            continue;
        members = at(schema_of(at(operation(all, &r[i]), "requestBody")), "properties");
        for (size_t k = 0; fields_row(k, &row); k++) {
            const json_t *field;

            if (!(row.endpoints & r[i].endpoint))
                continue;
            field = at(members, row.name);
            count++;
            if (row.range) {
                const char *low = row.range[0] == '(' ? "exclusiveMinimum" : "minimum";

                assert_true(json_number_value(at(field, low)) == strtod(row.range + 1, NULL));
                if (strstr(row.range, "inf"))
                    assert_null(json_object_get(field, "maximum"));
                else
                    assert_true(json_number_value(at(field, "maximum")) ==
                                strtod(strchr(row.range, ',') + 1, NULL));
            }
        }
        assert_int_equal(json_object_size(members), count);
        if (fields_needed(r[i].endpoint))
            at(members, fields_needed(r[i].endpoint));
    }
    json_decref(all);
}

static void names_and_keys_are_those_of_the_server(void **state)
{
    json_t *all = document();
    size_t n;
    const json_t *chat = operation(all, &routes_all(&n)[1]),
                 *model = at(at(schema_of(at(chat, "requestBody")), "properties"), "model");

    assert_string_equal(json_string_value(json_array_get(at(model, "enum"), 1)), names[1]);
    assert_null(json_object_get(chat, "security"));
    assert_null(json_object_get(at(chat, "responses"), "401"));
    json_decref(all);
    assert_int_equal(keys_add(&keys, "k", "K", NULL), 0);
    all = document();
    chat = operation(all, &routes_all(&n)[1]);
    at(chat, "security");
    at(at(chat, "responses"), "401");
    json_decref(all);
    keys_fini(&keys);
}

static void headers_of_limits_are_told_where_there_are_some(void **state)
{
    static const char *const limits[] = {"limit-requests",   "limit-tokens",   "remaining-requests",
                                         "remaining-tokens", "reset-requests", "reset-tokens"};

    for (int limited = 0; limited < 2; limited++) {
        const char *line = limited ? "k requests_per_minute=5\n" : "k\n";
        json_t *all, *headers;
        size_t n;

        assert_int_equal(keys_add_lines(&keys, line, strlen(line), "f", NULL), 0);
        all = document();
        headers = (json_t *)(uintptr_t)at(at(at(operation(all, &routes_all(&n)[1]), "responses"), "429"),
                                          "headers");
        at(headers, "Retry-After");
        for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
            char name[40];

            snprintf(name, sizeof(name), "x-ratelimit-%s", limits[i]);
            assert_int_equal(json_object_get(headers, name) != NULL, limited);
        }
        json_decref(all);
        keys_fini(&keys);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_path_has_its_answers),
                                       cmocka_unit_test(every_field_has_its_range),
                                       cmocka_unit_test(names_and_keys_are_those_of_the_server),
                                       cmocka_unit_test(what_is_not_offered_is_not_told),
                                       cmocka_unit_test(headers_of_limits_are_told_where_there_are_some)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
