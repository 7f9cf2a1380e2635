/* driver.c - runs a fuzz target without libFuzzer: once for the empty input and once for every file given.
 *
 * fuzz_NAME PATH... takes files, and folders of which all files are read.
 *
 * So the ordinary tests replay every input that a fuzzer found and that was worth keeping, under every
 * compiler and sanitizer. The bytes are at the end of their allocation, where a sanitizer sees a read after
 * them. A folder without files fails: a corpus that is lost must not look like a passing test.
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
