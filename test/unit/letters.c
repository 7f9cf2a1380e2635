/* letters.c - see letters.h. */
#include "letters.h"

#include "files.h"

const char *letters_model(const char *path)
{
    char file[4096];
    const char *folder = files_folder();
    char json[8192];
    size_t at;

    files_copy_all(path, folder);
    at = (size_t)snprintf(
        json, sizeof(json),
        "{\"version\":\"1.0\",\"added_tokens\":[],\"normalizer\":null,\"post_processor\":null,\"pre_tokenizer\":"
        "{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"decoder\":{\"type\":\"ByteLevel\"},\"model\":"
        "{\"type\":\"BPE\",\"merges\":[],\"vocab\":{");
    for (int i = 0; i < 160; i++)
        at += (size_t)snprintf(json + at, sizeof(json) - at, "%s\"%c%c\":%d", i ? "," : "", 'a' + i / 26,
                               'a' + i % 26, i);
    snprintf(json + at, sizeof(json) - at, "}}}");
    snprintf(file, sizeof(file), "%s/tokenizer.json", folder);
    files_write_text(file, json);
    return folder;
}
