/* plugin_file.h - checks the file of a plugin before it is loaded. */
#ifndef GALLOP_ENGINE_PJRT_PLUGIN_FILE_H
#define GALLOP_ENGINE_PJRT_PLUGIN_FILE_H

#include "base/err.h"

/* Returns ERR_INPUT if PATH is a shared library that ends before its segments do: loading it would end the process by
 * SIGBUS. Other files are left to dlopen(), which reports why it refuses them. */
int plugin_file_check(const char *path, struct err *e);

#endif
