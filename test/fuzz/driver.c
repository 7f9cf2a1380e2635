/* driver.c - runs a fuzz target without libFuzzer: once for the empty input and once for every file given.
 *
 *   fuzz_NAME PATH...      a file, or a folder whose files are all read
 *
 * So every input a fuzzer ever found, and that was worth keeping, is replayed by the ordinary tests under
 * every compiler and sanitizer. The bytes lie at the very end of their block, where a sanitizer sees one byte
 * too many. A folder without a single file fails: a corpus that got lost must not look like a passing test.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t n_inputs;

static void die(const char *path)
{
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    exit(1);
}

static void run_file(const char *path, size_t size)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc(size ? size : 1);

    if (!f || !data || fread(data, 1, size, f) != size)
        die(path);
    fclose(f);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    n_inputs++;
}

static void run_path(const char *path)
{
    struct stat st;
    struct dirent **entry;
    char *child;
    int n;

    if (stat(path, &st) != 0)
        die(path);
    if (!S_ISDIR(st.st_mode)) {
        run_file(path, (size_t)st.st_size);
        return;
    }
    n = scandir(path, &entry, NULL, alphasort);
    if (n < 0)
        die(path);
    for (int i = 0; i < n; i++) {
        if (entry[i]->d_name[0] != '.') {
            if (asprintf(&child, "%s/%s", path, entry[i]->d_name) < 0)
                die(path);
            run_path(child);
            free(child);
        }
        free(entry[i]);
    }
    free(entry);
}

int main(int argc, char **argv)
{
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++)
        run_path(argv[i]);
    printf("%zu inputs\n", n_inputs);
    if (n_inputs == 0)
        fprintf(stderr, "%s: there is no input in the corpus\n", argv[0]);
    return n_inputs == 0;
}
