/* nan_model.c - see nan_model.h. */
#include "nan_model.h"

#include <jansson.h>

#include "engines.h"
#include "files.h"

enum { DIM = 7, LAYERS = 5 };

/* Writes VALUE, as bf16, to COUNT elements of the tensor NAME, STRIDE elements apart, from element FIRST on. */
static void set(json_t *header, char *data, const char *name, size_t first, size_t count, size_t stride,
                float value)
{
    const json_t *t = json_object_get(header, name);
    uint32_t bits;

    assert_string_equal(json_string_value(json_object_get(t, "dtype")), "BF16");
    data += json_integer_value(json_array_get(json_object_get(t, "data_offsets"), 0));
    memcpy(&bits, &value, sizeof(bits));
    for (size_t i = 0; i < count; i++)
        memcpy(data + (first + i * stride) * 2, (const char *)&bits + 2, 2);
}

static size_t length_of(json_t *header, const char *name, size_t axis)
{
    const json_t *shape = json_object_get(json_object_get(header, name), "shape");

    return (size_t)json_integer_value(json_array_get(shape, axis));
}

const char *nan_model_make(void)
{
    const char *model = files_folder();
    static const char embed[] = "model.embed_tokens.weight";
    char name[128], path[512];
    uint64_t n_header;
    size_t n, hidden, width;
    json_t *header;
    char *file, *data;

    files_copy_all(engines_path("demo"), model);
    snprintf(path, sizeof(path), "%s/model.safetensors", model);
    file = files_read(path, &n);
    memcpy(&n_header, file, sizeof(n_header));
    header = json_loadb(file + sizeof(n_header), n_header, 0, NULL);
    data = file + sizeof(n_header) + n_header;
    hidden = length_of(header, embed, 1);
    set(header, data, embed, DIM, length_of(header, embed, 0), hidden, 0);
    set(header, data, embed, NAN_MODEL_SPOILS * hidden, hidden, 1, 0);
    set(header, data, embed, NAN_MODEL_SPOILS * hidden + DIM, 1, 1, 1);
    for (int l = 0; l < LAYERS; l++) { /* nothing is added to the dim */
        snprintf(name, sizeof(name), "model.layers.%d.self_attn.o_proj.weight", l);
        width = length_of(header, name, 1);
        set(header, data, name, DIM * width, width, 1, 0);
        snprintf(name, sizeof(name), "model.layers.%d.mlp.down_proj.weight", l);
        width = length_of(header, name, 1);
        set(header, data, name, DIM * width, width, 1, 0);
    }
    for (int up = 0; up < 2; up++) {
        snprintf(name, sizeof(name), "model.layers.0.mlp.%s_proj.weight", up ? "up" : "gate");
        set(header, data, name, 0, hidden, 1, 0);
        set(header, data, name, DIM, 1, 1, 1e20f);
    }
    files_write(path, file, n);
    json_decref(header);
    free(file);
    return model;
}
