/* trusting.c - reads JSON as jansson does. */
#include <jansson.h>

json_t *trusting_read(const char *text);

json_t *trusting_read(const char *text)
{
    return json_loads(text, 0, NULL);
}
