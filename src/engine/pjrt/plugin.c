/* plugin.c - loads a PJRT plugin and calls its functions. */
#include "engine/pjrt/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "engine/pjrt/api.h"
#include "engine/pjrt/channel.h"
#include "engine/pjrt/plugin_file.h"
#include "engine/pjrt/plugin_source.h"
#include "engine/pjrt/remote.h"

/* Serialized CompileOptionsProto: executable_build_options { num_replicas: 1, num_partitions: 1 },
 * compile_portable_executable: true, so that a program runs on the device of plugin_run(). */
static const char compile_options[] = {0x1a, 0x04, 0x20, 0x01, 0x28, 0x01, 0x20, 0x01};

const char *plugin_compile_options(size_t *n)
{
    *n = sizeof(compile_options);
    return compile_options;
}

static struct pjrt_error *call(const struct plugin *p, enum pjrt_number which, void *args)
{
    return p->api->function[which](args);
}

/* Writes the plugin's ERROR to E as the sentence "pjrt: WHAT: message", and frees it. Returns ERR_OS, or 0 if ERROR is
 * NULL. */
static int check(const struct plugin *p, struct pjrt_error *error, const char *what, struct err *e)
{
    struct pjrt_error_message m = {.struct_size = PJRT_SIZE(struct pjrt_error_message, message_size),
                                   .error = error};
    struct pjrt_error_destroy d = {.struct_size = PJRT_SIZE(struct pjrt_error_destroy, error),
                                   .error = error};
    char text[400];
    int n;

    if (!error)
        return 0;
    call(p, PJRT_ERROR_MESSAGE, &m);
    n = m.message && m.message_size < sizeof(text) ? (int)m.message_size : (int)sizeof(text) - 1;
    snprintf(text, sizeof(text), "%.*s", n, m.message ? m.message : "no message");
    utf8_one_line(text); /* errors are one line */
    call(p, PJRT_ERROR_DESTROY, &d);
    return err_set(e, ERR_OS, "pjrt: %s: %s", what, text);
}

/* Waits for EVENT, which is freed, and returns its error. */
static int await(const struct plugin *p, struct pjrt_event *event, const char *what, struct err *e)
{
    struct pjrt_event_call c = {.struct_size = PJRT_SIZE(struct pjrt_event_call, event), .event = event};
    int rc;

    if (!event)
        return 0;
    rc = check(p, call(p, PJRT_EVENT_AWAIT, &c), what, e);
    check(p, call(p, PJRT_EVENT_DESTROY, &c), what, NULL);
    return rc;
}

/* ---- the plugin ---- */

static int load_library(struct plugin *p, const char *path, struct err *e)
{
    const struct pjrt_api *(*get)(void);
    void *symbol;
    int rc = plugin_file_check(path, e);

    if (rc)
        return rc;
    if (!(p->library = dlopen(path, RTLD_NOW | RTLD_LOCAL)))
        return err_set(e, ERR_INPUT, "pjrt: %s cannot be loaded: %s", path, dlerror());
    if (!(symbol = dlsym(p->library, "GetPjrtApi")))
        return err_set(e, ERR_INPUT, "pjrt: %s is no PJRT plugin: it lacks the function GetPjrtApi", path);
    memcpy(&get, &symbol, sizeof(get));
    if (!(p->api = get()))
        return err_set(e, ERR_INPUT, "pjrt: %s: GetPjrtApi returned no table", path);
    if (p->api->version.major != PJRT_MAJOR)
        return err_set(e, ERR_UNSUPPORTED, "pjrt: %s has version %d.%d of the interface, expected %d.*", path,
                       p->api->version.major, p->api->version.minor, PJRT_MAJOR);
    if (p->api->struct_size < sizeof(*p->api))
        return err_set(
            e, ERR_UNSUPPORTED,
            "pjrt: %s has a table of %zu bytes (version %d.%d of the interface), expected at least %zu", path,
            p->api->struct_size, p->api->version.major, p->api->version.minor, sizeof(*p->api));
    return 0;
}

static int open_client(struct plugin *p, const struct plugin_source *s, struct err *e)
{
    struct pjrt_plugin_initialize init = {.struct_size =
                                              PJRT_SIZE(struct pjrt_plugin_initialize, extensions)};
    struct pjrt_client_create create = {.struct_size = PJRT_SIZE(struct pjrt_client_create, try_get_arg),
                                        .options = s->option,
                                        .n_options = s->n_options};
    int rc = check(p, call(p, PJRT_PLUGIN_INITIALIZE, &init), p->path, e);

    if (rc == 0)
        rc = check(p, call(p, PJRT_CLIENT_CREATE, &create), p->path, e);
    p->client = create.client;
    return rc;
}

static int client_text(struct plugin *p, enum pjrt_number which, char *out, size_t size, struct err *e)
{
    struct pjrt_client_text t = {.struct_size = PJRT_SIZE(struct pjrt_client_text, size),
                                 .client = p->client};
    int rc = check(p, call(p, which, &t), p->path, e);

    if (rc == 0)
        snprintf(out, size, "%.*s", (int)(t.size < size ? t.size : size - 1), t.text ? t.text : "");
    utf8_printable(out);
    return rc;
}

static int take_device(struct plugin *p, size_t number, struct err *e)
{
    struct pjrt_client_devices list = {.struct_size = PJRT_SIZE(struct pjrt_client_devices, n_devices),
                                       .client = p->client};
    struct pjrt_device_description d = {.struct_size =
                                            PJRT_SIZE(struct pjrt_device_description, description)};
    struct pjrt_description_text kind = {.struct_size = PJRT_SIZE(struct pjrt_description_text, size)};
    int rc = check(p, call(p, PJRT_CLIENT_ADDRESSABLE_DEVICES, &list), p->path, e);

    if (rc)
        return rc;
    p->n_devices = list.n_devices;
    p->device_number = number;
    if (number >= list.n_devices)
        return err_set(e, ERR_INPUT, "pjrt: %s has %zu devices, and no device %zu", p->path, list.n_devices,
                       number);
    d.device = p->device = list.devices[number];
    if ((rc = check(p, call(p, PJRT_DEVICE_DESCRIPTION, &d), p->path, e)) != 0)
        return rc;
    kind.description = d.description;
    if ((rc = check(p, call(p, PJRT_DESCRIPTION_KIND, &kind), p->path, e)) != 0)
        return rc;
    snprintf(p->kind, sizeof(p->kind), "%.*s",
             (int)(kind.size < sizeof(p->kind) ? kind.size : sizeof(p->kind) - 1),
             kind.text ? kind.text : "");
    utf8_printable(p->kind);
    return 0;
}

static void read_memory(struct plugin *p)
{
    struct pjrt_device_memory m = {.struct_size = PJRT_SIZE(struct pjrt_device_memory, peak_pool_is_set),
                                   .device = p->device};

    if (check(p, call(p, PJRT_DEVICE_MEMORY_STATS, &m), "memory", NULL) != 0 || !m.limit_is_set ||
        m.limit <= 0)
        return;
    p->memory_bytes = p->free_bytes = (size_t)m.limit;
    if (m.bytes_in_use > 0)
        p->free_bytes -= m.bytes_in_use < m.limit ? (size_t)m.bytes_in_use : (size_t)m.limit;
}

static int open_remote(struct plugin *p, const struct plugin_source *s, struct err *e)
{
    struct channel_facts facts;
    int rc = remote_open(&p->remote, s, &facts, e);

    if (rc)
        return rc;
    p->device_number = s->device;
    p->n_devices = facts.n_devices;
    p->memory_bytes = facts.memory_bytes;
    p->free_bytes = facts.free_bytes;
    snprintf(p->platform, sizeof(p->platform), "%s", facts.platform);
    snprintf(p->version, sizeof(p->version), "%s", facts.version);
    snprintf(p->kind, sizeof(p->kind), "%s", facts.kind);
    return 0;
}

int plugin_open(struct plugin *p, const struct plugin_source *s, struct err *e)
{
    int rc;

    *p = (struct plugin){.path = s->path, .options = s->n_options ? s->json : ""};
    if (s->has_process)
        return open_remote(p, s, e);
    if ((rc = load_library(p, s->path, e)) == 0 && (rc = open_client(p, s, e)) == 0 &&
        (rc = client_text(p, PJRT_CLIENT_PLATFORM_NAME, p->platform, sizeof(p->platform), e)) == 0 &&
        (rc = client_text(p, PJRT_CLIENT_PLATFORM_VERSION, p->version, sizeof(p->version), e)) == 0)
        rc = take_device(p, s->device, e);
    if (rc)
        plugin_close(p);
    else
        read_memory(p);
    return rc;
}

void plugin_close(struct plugin *p)
{
    struct pjrt_client_call c = {.struct_size = PJRT_SIZE(struct pjrt_client_call, client),
                                 .client = p->client};

    if (p->client)
        check(p, call(p, PJRT_CLIENT_DESTROY, &c), "client", NULL);
    remote_close(p->remote);
    *p = (struct plugin){0};
}

bool plugin_is_dead(const struct plugin *p)
{
    return p->remote && remote_is_dead(p->remote);
}

size_t plugin_memory(const struct plugin *p)
{
    return p->memory_bytes;
}

size_t plugin_free_memory(const struct plugin *p)
{
    return p->free_bytes;
}

/* ---- programs ---- */

int plugin_compile(struct plugin *p, const char *text, size_t n, const char *what, struct pjrt_loaded **out,
                   struct err *e)
{
    struct pjrt_program_text program = {.struct_size = PJRT_SIZE(struct pjrt_program_text, format_size),
                                        .code = text,
                                        .code_size = n,
                                        .format = "mlir",
                                        .format_size = 4};
    struct pjrt_client_compile c = {.struct_size = PJRT_SIZE(struct pjrt_client_compile, executable),
                                    .client = p->client,
                                    .program = &program,
                                    .options = compile_options,
                                    .options_size = sizeof(compile_options)};
    int rc;

    if (p->remote)
        return remote_compile(p->remote, text, n, what, out, e);
    rc = check(p, call(p, PJRT_CLIENT_COMPILE, &c), what, e);
    *out = rc ? NULL : c.executable;
    return rc;
}

int plugin_serialize(struct plugin *p, struct pjrt_loaded *program, struct buf *out, struct err *e)
{
    struct pjrt_loaded_executable get = {.struct_size = PJRT_SIZE(struct pjrt_loaded_executable, executable),
                                         .loaded = program};
    struct pjrt_serialize s = {.struct_size = PJRT_SIZE(struct pjrt_serialize, free_it)};
    struct pjrt_executable_call done = {.struct_size = PJRT_SIZE(struct pjrt_executable_call, executable)};
    int rc;

    if (p->remote)
        return remote_serialize(p->remote, program, out, e);
    if ((rc = check(p, call(p, PJRT_LOADED_EXECUTABLE, &get), "artifact", e)) != 0)
        return rc;
    s.executable = done.executable = get.executable;
    if ((rc = check(p, call(p, PJRT_EXECUTABLE_SERIALIZE, &s), "artifact", e)) == 0) {
        buf_add(out, s.bytes, s.size);
        if (s.free_it)
            s.free_it(s.serialized);
        rc = out->oom ? err_nomem(e, "a compiled program") : 0;
    }
    check(p, call(p, PJRT_EXECUTABLE_DESTROY, &done), "artifact", NULL);
    return rc;
}

int plugin_load(struct plugin *p, const void *bytes, size_t n, struct pjrt_loaded **out, struct err *e)
{
    struct pjrt_deserialize d = {.struct_size = PJRT_SIZE(struct pjrt_deserialize, options_size),
                                 .client = p->client,
                                 .bytes = bytes,
                                 .size = n};
    int rc;

    if (p->remote)
        return remote_load(p->remote, bytes, n, out, e);
    rc = check(p, call(p, PJRT_DESERIALIZE_AND_LOAD, &d), "artifact", e);
    *out = rc ? NULL : d.executable;
    return rc;
}

void plugin_free_program(struct plugin *p, struct pjrt_loaded *program)
{
    struct pjrt_loaded_call c = {.struct_size = PJRT_SIZE(struct pjrt_loaded_call, executable),
                                 .executable = program};

    if (program && p->remote)
        remote_free(p->remote, program);
    else if (program)
        check(p, call(p, PJRT_LOADED_DESTROY, &c), "program", NULL);
}

/* ---- buffers ---- */

static enum pjrt_type type_of(enum dtype type)
{
    switch (type) {
    case DT_BF16: return PJRT_BF16;
    case DT_I32: return PJRT_S32;
    case DT_I8: return PJRT_S8;
    default: return PJRT_F32;
    }
}

void *plugin_staging(struct plugin *p, size_t bytes)
{
    return p->remote ? remote_staging(p->remote, bytes) : mem_alloc(bytes, MEM_ENGINE);
}

void plugin_free_staging(struct plugin *p, void *staging)
{
    if (!p->remote)
        mem_free(staging);
}

int plugin_upload(struct plugin *p, const void *data, enum dtype type, const size_t *dims, int n_dims,
                  struct pjrt_buffer **out, struct err *e)
{
    int64_t d[8] = {0};
    struct pjrt_from_host c = {.struct_size = PJRT_SIZE(struct pjrt_from_host, buffer),
                               .client = p->client,
                               .data = data,
                               .type = type_of(type),
                               .dims = d,
                               .n_dims = (size_t)n_dims,
                               .semantics = PJRT_DURING_CALL,
                               .device = p->device};
    int rc;

    if (p->remote)
        return remote_upload(p->remote, data, type, dims, n_dims, out, e);
    for (int i = 0; i < n_dims && i < 8; i++)
        d[i] = (int64_t)dims[i];
    *out = NULL;
    if ((rc = check(p, call(p, PJRT_CLIENT_BUFFER_FROM_HOST, &c), "copy to the device", e)) != 0)
        return rc;
    if ((rc = await(p, c.done, "copy to the device", e)) != 0) {
        plugin_free_buffer(p, c.buffer);
        return rc;
    }
    *out = c.buffer;
    return 0;
}

int plugin_download(struct plugin *p, struct pjrt_buffer *buffer, void *to, size_t bytes, struct err *e)
{
    struct pjrt_to_host c = {
        .struct_size = PJRT_SIZE(struct pjrt_to_host, event), .from = buffer, .to = to, .size = bytes};
    int rc;

    if (p->remote)
        return remote_download(p->remote, buffer, to, bytes, e);
    rc = check(p, call(p, PJRT_BUFFER_TO_HOST, &c), "copy from the device", e);
    return rc ? rc : await(p, c.event, "copy from the device", e);
}

void plugin_free_buffer(struct plugin *p, struct pjrt_buffer *buffer)
{
    struct pjrt_buffer_call c = {.struct_size = PJRT_SIZE(struct pjrt_buffer_call, buffer), .buffer = buffer};

    if (buffer && p->remote)
        remote_free(p->remote, buffer);
    else if (buffer)
        check(p, call(p, PJRT_BUFFER_DESTROY, &c), "buffer", NULL);
}

int plugin_run(struct plugin *p, struct pjrt_loaded *program, struct pjrt_buffer *const *arg, size_t n_args,
               struct pjrt_buffer **out, size_t n_out, struct err *e)
{
    struct pjrt_execute_options options = {.struct_size =
                                               PJRT_SIZE(struct pjrt_execute_options, incarnations)};
    struct pjrt_event *complete = NULL;
    struct pjrt_execute c = {.struct_size = PJRT_SIZE(struct pjrt_execute, device),
                             .executable = program,
                             .options = &options,
                             .arguments = &arg,
                             .n_devices = 1,
                             .n_arguments = n_args,
                             .outputs = &out,
                             .complete = &complete,
                             .device = p->device};
    int rc;

    if (p->remote)
        return remote_run(p->remote, program, arg, n_args, out, n_out, e);
    memset(out, 0, n_out * sizeof(*out));
    if ((rc = check(p, call(p, PJRT_LOADED_EXECUTE, &c), "step", e)) == 0)
        rc = await(p, complete, "step", e);
    for (size_t i = 0; i < n_out && rc; i++) {
        plugin_free_buffer(p, out[i]);
        out[i] = NULL;
    }
    return rc;
}
