/* api.h - the part of PJRT's C interface that Gallop uses: the table of a plugin and the structs of its calls.
 *
 * A plugin is a shared library whose function GetPjrtApi() returns the table. Each function takes one struct, whose
 * first member is the struct's size up to its last member that the caller knows, and returns NULL or an error. New
 * members and functions are only ever added at the end, so that this client runs with newer plugins of the same major
 * version. Layout and numbers are those of the official header in https://github.com/openxla/xla, xla/pjrt/c, of
 * version 0.33, with the members that plugins of version 0.106 demand.
 */
#ifndef GALLOP_ENGINE_PJRT_API_H
#define GALLOP_ENGINE_PJRT_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PJRT_MAJOR = 0 };

/* Objects of the plugin. */
struct pjrt_error;
struct pjrt_event;
struct pjrt_client;
struct pjrt_device;
struct pjrt_description;
struct pjrt_memory;
struct pjrt_executable;
struct pjrt_loaded;
struct pjrt_buffer;
struct pjrt_serialized;

/* Types of numbers in a buffer. */
enum pjrt_type { PJRT_PRED = 1, PJRT_S8 = 2, PJRT_S32 = 4, PJRT_F16 = 10, PJRT_F32 = 11, PJRT_BF16 = 13 };

/* The first two members of every struct: the struct's size, and extensions (NULL: none). */
#define PJRT_HEAD       \
    size_t struct_size; \
    void *extensions

/* The size of TYPE up to the end of LAST, without padding, which struct_size must be. */
#define PJRT_SIZE(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

struct pjrt_version {
    PJRT_HEAD;
    int major, minor;
};

struct pjrt_error_destroy {
    PJRT_HEAD;
    struct pjrt_error *error;
};

struct pjrt_error_message {
    PJRT_HEAD;
    const struct pjrt_error *error;
    const char *message; /* out, [message_size] */
    size_t message_size; /* out */
};

struct pjrt_plugin_initialize {
    PJRT_HEAD;
};

struct pjrt_event_call { /* for destroy and await */
    PJRT_HEAD;
    struct pjrt_event *event;
};

enum pjrt_named_type {
    PJRT_NAMED_STRING,
    PJRT_NAMED_INT64,
    PJRT_NAMED_INT64S,
    PJRT_NAMED_FLOAT,
    PJRT_NAMED_BOOL
};

/* An option of the client. */
struct pjrt_named {
    PJRT_HEAD;
    const char *name;
    size_t name_size;
    enum pjrt_named_type type;
    union {
        const char *text;
        int64_t integer;
        const int64_t *integers;
        float number;
        bool flag;
    } value;
    size_t value_size; /* length of a text; otherwise 1 */
};

struct pjrt_client_create {
    PJRT_HEAD;
    const struct pjrt_named *options;
    size_t n_options;
    void *get, *get_arg, *put, *put_arg; /* a store of keys for several processes: NULL */
    struct pjrt_client *client;          /* out */
    void *try_get, *try_get_arg;         /* NULL */
};

struct pjrt_client_call { /* for destroy */
    PJRT_HEAD;
    struct pjrt_client *client;
};

struct pjrt_client_text { /* for platform name and version */
    PJRT_HEAD;
    struct pjrt_client *client;
    const char *text; /* out, [size] */
    size_t size;      /* out */
};

struct pjrt_client_devices { /* for addressable devices */
    PJRT_HEAD;
    struct pjrt_client *client;
    struct pjrt_device **devices; /* out */
    size_t n_devices;             /* out */
};

struct pjrt_program_text {
    PJRT_HEAD;
    const char *code;
    size_t code_size;
    const char *format; /* "mlir" */
    size_t format_size;
};

struct pjrt_client_compile {
    PJRT_HEAD;
    struct pjrt_client *client;
    const struct pjrt_program_text *program;
    const char *options; /* a serialized CompileOptionsProto */
    size_t options_size;
    struct pjrt_loaded *executable; /* out */
};

/* How long the plugin may read the memory of the host. */
enum pjrt_semantics { PJRT_DURING_CALL, PJRT_UNTIL_TRANSFERRED, PJRT_ZERO_COPY };

struct pjrt_from_host {
    PJRT_HEAD;
    struct pjrt_client *client;
    const void *data;
    enum pjrt_type type;
    const int64_t *dims;
    size_t n_dims;
    const int64_t *strides; /* NULL: dense, in row-major order */
    size_t n_strides;
    enum pjrt_semantics semantics;
    struct pjrt_device *device;
    struct pjrt_memory *memory; /* NULL: the default memory of the device */
    void *layout;               /* NULL: row-major */
    struct pjrt_event *done;    /* out: the memory of the host may be freed */
    struct pjrt_buffer *buffer; /* out */
};

struct pjrt_device_description {
    PJRT_HEAD;
    struct pjrt_device *device;
    struct pjrt_description *description; /* out */
};

struct pjrt_description_text { /* for the kind of a device */
    PJRT_HEAD;
    struct pjrt_description *description;
    const char *text; /* out, [size] */
    size_t size;      /* out */
};

struct pjrt_device_memory {
    PJRT_HEAD;
    struct pjrt_device *device;
    int64_t bytes_in_use; /* out, like all members below */
    int64_t peak;
    bool peak_is_set;
    int64_t n_allocations;
    bool n_allocations_is_set;
    int64_t largest;
    bool largest_is_set;
    int64_t limit;
    bool limit_is_set;
    int64_t reserved;
    bool reserved_is_set;
    int64_t peak_reserved;
    bool peak_reserved_is_set;
    int64_t reservable;
    bool reservable_is_set;
    int64_t largest_free;
    bool largest_free_is_set;
    int64_t pool;
    bool pool_is_set;
    int64_t peak_pool;
    bool peak_pool_is_set;
};

struct pjrt_loaded_call { /* for destroy */
    PJRT_HEAD;
    struct pjrt_loaded *executable;
};

struct pjrt_executable_call { /* for destroy */
    PJRT_HEAD;
    struct pjrt_executable *executable;
};

struct pjrt_loaded_executable {
    PJRT_HEAD;
    struct pjrt_loaded *loaded;
    struct pjrt_executable *executable; /* out */
};

struct pjrt_serialize {
    PJRT_HEAD;
    const struct pjrt_executable *executable;
    const char *bytes;                                   /* out, [size] */
    size_t size;                                         /* out */
    struct pjrt_serialized *serialized;                  /* out: owns the bytes */
    void (*free_it)(struct pjrt_serialized *serialized); /* out */
};

struct pjrt_deserialize {
    PJRT_HEAD;
    struct pjrt_client *client;
    const char *bytes;
    size_t size;
    struct pjrt_loaded *executable; /* out */
    const char *options;            /* compile options that replace the serialized ones; NULL: none */
    size_t options_size;
};

struct pjrt_execute_options {
    PJRT_HEAD;
    void **send, **receive;
    size_t n_send, n_receive;
    int launch_id;
    const int64_t *kept; /* [n_kept] numbers of arguments that may not be donated */
    size_t n_kept;
    void *context;
    const char *call_location;
    size_t n_tasks;
    int *tasks;
    int64_t *incarnations;
};

struct pjrt_execute {
    PJRT_HEAD;
    struct pjrt_loaded *executable;
    struct pjrt_execute_options *options;
    struct pjrt_buffer *const *const *arguments; /* [n_devices][n_arguments] */
    size_t n_devices, n_arguments;
    struct pjrt_buffer **const *outputs; /* [n_devices][number of outputs], written */
    struct pjrt_event **complete;        /* [n_devices], written; NULL: not wanted */
    struct pjrt_device *device;          /* NULL: the device of the compile options */
};

struct pjrt_buffer_call { /* for destroy */
    PJRT_HEAD;
    struct pjrt_buffer *buffer;
};

struct pjrt_to_host {
    PJRT_HEAD;
    struct pjrt_buffer *from;
    void *layout; /* NULL: the layout of the buffer */
    void *to;
    size_t size;
    struct pjrt_event *event; /* out: the copy is complete */
};

typedef struct pjrt_error *pjrt_function(void *args);

/* Numbers of the functions in the table. The first two return nothing. */
enum pjrt_number {
    PJRT_ERROR_DESTROY = 0,
    PJRT_ERROR_MESSAGE = 1,
    PJRT_PLUGIN_INITIALIZE = 3,
    PJRT_EVENT_DESTROY = 5,
    PJRT_EVENT_AWAIT = 8,
    PJRT_CLIENT_CREATE = 10,
    PJRT_CLIENT_DESTROY = 11,
    PJRT_CLIENT_PLATFORM_NAME = 12,
    PJRT_CLIENT_PLATFORM_VERSION = 14,
    PJRT_CLIENT_ADDRESSABLE_DEVICES = 16,
    PJRT_CLIENT_COMPILE = 20,
    PJRT_CLIENT_BUFFER_FROM_HOST = 22,
    PJRT_DESCRIPTION_KIND = 26,
    PJRT_DEVICE_DESCRIPTION = 29,
    PJRT_DEVICE_MEMORY_STATS = 34,
    PJRT_EXECUTABLE_DESTROY = 40,
    PJRT_EXECUTABLE_SERIALIZE = 49,
    PJRT_LOADED_DESTROY = 50,
    PJRT_LOADED_EXECUTABLE = 51,
    PJRT_LOADED_EXECUTE = 55,
    PJRT_DESERIALIZE_AND_LOAD = 56,
    PJRT_BUFFER_DESTROY = 58,
    PJRT_BUFFER_TO_HOST = 70,
    PJRT_N_FUNCTIONS = 71 /* minimum number of functions of the table */
};

struct pjrt_api {
    size_t struct_size;
    void *extensions;
    struct pjrt_version version;
    pjrt_function *function[PJRT_N_FUNCTIONS];
};

#endif
