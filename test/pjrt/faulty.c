/* faulty.c - a PJRT plugin for tests: it is another plugin, some of whose calls fail.
 *
 * FAULTY_PJRT_PLUGIN is the path of the other plugin. With FAULTY_PJRT_EVERY=R,T,F every R-th run of a program, every
 * T-th copy to the device and every F-th copy from the device returns an error and does nothing. They fail, and are
 * counted, only while the file FAULTY_PJRT_FILE exists. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/pjrt/api.h"

/* An error of this file; those of the other plugin are its own. */
struct own_error {
    const char *magic;
    char text[80];
};

static const char own[] = "own";
static const struct pjrt_api *inner;
static long n_calls[3];

const struct pjrt_api *GetPjrtApi(void);

/* Returns an error if the next call of KIND is to fail. */
static struct pjrt_error *fails(int kind, const char *what)
{
    const char *every = getenv("FAULTY_PJRT_EVERY"), *file = getenv("FAULTY_PJRT_FILE");
    struct own_error *e;
    long n[3];

    if (!every || !file || access(file, F_OK) != 0 ||
        sscanf(every, "%ld,%ld,%ld", &n[0], &n[1], &n[2]) != 3 || ++n_calls[kind] % n[kind] != 0)
        return NULL;
    e = malloc(sizeof(*e));
    e->magic = own;
    snprintf(e->text, sizeof(e->text), "%s %ld failed", what, n_calls[kind]);
    return (struct pjrt_error *)e;
}

static const struct own_error *own_error(const struct pjrt_error *error)
{
    const struct own_error *e = (const struct own_error *)error;

    return e && e->magic == own ? e : NULL;
}

static struct pjrt_error *error_destroy(void *args)
{
    struct pjrt_error *e = ((struct pjrt_error_destroy *)args)->error;

    if (!own_error(e))
        return inner->function[PJRT_ERROR_DESTROY](args);
    free(e);
    return NULL;
}

static struct pjrt_error *error_message(void *args)
{
    struct pjrt_error_message *a = args;
    const struct own_error *e = own_error(a->error);

    if (!e)
        return inner->function[PJRT_ERROR_MESSAGE](args);
    a->message = e->text;
    a->message_size = strlen(e->text);
    return NULL;
}

static struct pjrt_error *execute(void *args)
{
    struct pjrt_error *e = fails(0, "run");

    return e ? e : inner->function[PJRT_LOADED_EXECUTE](args);
}

static struct pjrt_error *from_host(void *args)
{
    struct pjrt_error *e = fails(1, "copy to the device");

    return e ? e : inner->function[PJRT_CLIENT_BUFFER_FROM_HOST](args);
}

static struct pjrt_error *to_host(void *args)
{
    struct pjrt_error *e = fails(2, "copy from the device");

    return e ? e : inner->function[PJRT_BUFFER_TO_HOST](args);
}

const struct pjrt_api *GetPjrtApi(void)
{
    static struct pjrt_api api;
    const struct pjrt_api *(*get)(void);
    const char *path = getenv("FAULTY_PJRT_PLUGIN");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL,
         *symbol = library ? dlsym(library, "GetPjrtApi") : NULL;

    if (!symbol)
        return NULL;
    memcpy(&get, &symbol, sizeof(get));
    inner = get();
    api = *inner;
    api.struct_size = sizeof(api);
    api.function[PJRT_ERROR_DESTROY] = error_destroy;
    api.function[PJRT_ERROR_MESSAGE] = error_message;
    api.function[PJRT_LOADED_EXECUTE] = execute;
    api.function[PJRT_CLIENT_BUFFER_FROM_HOST] = from_host;
    api.function[PJRT_BUFFER_TO_HOST] = to_host;
    return &api;
}
