/* plugin_source.h - which PJRT plugin is opened: its file, the device, and the options of its client. */
#ifndef GALLOP_ENGINE_PJRT_PLUGIN_SOURCE_H
#define GALLOP_ENGINE_PJRT_PLUGIN_SOURCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/files/file.h"

struct pjrt_named;

/* The largest number of options of a plugin, and of integers in the list of an option. */
enum { PLUGIN_SOURCE_OPTIONS = 64, PLUGIN_SOURCE_NUMBERS = 4096 };

struct plugin_source {
    char path[FILE_PATH_MAX]; /* the shared library, or a name that the system's loader looks for */
    size_t device;
    bool has_process;          /* the plugin runs in a process of its own (remote.h) */
    double step_seconds;       /* time limit for a call in a step to that process; 0: the default */
    _Atomic bool is_stopped;   /* any thread sets it to end calls into that process soon */
    char *json;                /* the text of the options; NULL: there are none */
    struct pjrt_named *option; /* [n_options] */
    size_t n_options;
    struct arena arena; /* owns the options */
};

/* Finds the plugin and reads the options of its client.
 *
 * PLUGIN is the option pjrt_plugin: the path of a shared library, or a name of JAX's environment variable
 * PJRT_NAMES_AND_LIBRARY_PATHS ("name:path,name:path"), which may not contain a slash. NULL: the environment variable
 * GALLOP_PJRT_PLUGIN, which is read in the same way, or the first plugin of JAX's variable.
 *
 * JSON is the option pjrt_options: an object of strings, integers of 64 bits, other numbers, which become fp32,
 * booleans, and lists of integers. NULL: none.
 *
 * ERR_INPUT: no plugin is named, or JSON has another form; the subject is the option. */
int plugin_source_read(struct plugin_source *s, const char *plugin, const char *json, size_t device,
                       struct err *e);
void plugin_source_fini(struct plugin_source *s); /* S may be zeroed */

#endif
