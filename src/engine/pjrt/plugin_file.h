/* plugin_file.h - checks the file of a plugin before it is loaded. */
#ifndef GALLOP_ENGINE_PJRT_PLUGIN_FILE_H
#define GALLOP_ENGINE_PJRT_PLUGIN_FILE_H

#include "base/err.h"

/* Returns ERR_INPUT if PATH is a shared library that ends before its segments do: loading it would end the process by
 * SIGBUS. What is no such file is left to dlopen(), which says why it refuses it. */
int plugin_file_check(const char *path, struct err *e);

#endif
