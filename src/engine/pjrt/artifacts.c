/* artifacts.c - loads compiled programs from files, or compiles and stores them. */
#include "engine/pjrt/artifacts.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/files/cache.h"
#include "base/files/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/xxh3.h"
#include "engine/pjrt/plugin.h"

enum { MAX_BYTES = 1 << 30 };

/* The header of a file, which `bytes` bytes of the serialized program follow. Little-endian. */
struct header {
    char magic[8];
    uint64_t key[2]; /* result of key_of() */
    uint64_t bytes, sum;
};

static const char magic[8] = "galpjrt1";

static void hash_text(XXH3_state_t *h, const char *s)
{
    XXH3_128bits_update(h, s, strlen(s) + 1);
}

/* Hashes PATH, and the size and modification time of the file there. */
static void hash_file(XXH3_state_t *h, const char *path)
{
    struct stat st = {0};
    int64_t file[3];

    if (stat(path, &st) != 0)
        st = (struct stat){0};
    file[0] = (int64_t)st.st_size;
    file[1] = (int64_t)st.st_mtim.tv_sec;
    file[2] = (int64_t)st.st_mtim.tv_nsec;
    XXH3_128bits_update(h, file, sizeof(file));
    hash_text(h, path);
}

/* Hashes the environment variables that the compilers of PJRT plugins read, and the file that a value may name
 * (XLA_FLAGS). */
static void hash_environment(XXH3_state_t *h)
{
    static const char *const names[] = {"XLA_FLAGS", "TF_XLA_FLAGS", "LIBTPU_INIT_ARGS", "NEURON_CC_FLAGS"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);

        hash_file(h, value ? value : "");
    }
}

/* Computes a hash of all that determines the compiled program: TEXT, compile options, plugin, platform, device and
 * processor, because plugins for CPUs compile for the processor. Returns false if memory is exhausted. */
static bool key_of(const struct plugin *p, const struct buf *text, uint64_t key[2])
{
    XXH3_state_t *h = XXH3_createState();
    XXH128_hash_t digest;
    const char *options;
    size_t n_options;

    if (!h)
        return false;
    options = plugin_compile_options(&n_options);
    XXH3_128bits_reset(h);
    XXH3_128bits_update(h, text->data, text->len);
    XXH3_128bits_update(h, options, n_options);
    hash_file(h, p->path);
    hash_text(h, p->options);
    hash_environment(h);
    hash_text(h, p->platform);
    hash_text(h, p->version);
    hash_text(h, p->kind);
    hash_text(h, cpu_model());
    hash_text(h, cpu_isa_name(cpu_best()));
    XXH3_128bits_update(h, &p->device_number, sizeof(p->device_number));
    digest = XXH3_128bits_digest(h);
    key[0] = digest.low64;
    key[1] = digest.high64;
    XXH3_freeState(h);
    return true;
}

const char *artifacts_find(const char *file, size_t n, const uint64_t key[2], size_t *n_program)
{
    struct header h;

    if (n <= sizeof(h))
        return NULL;
    memcpy(&h, file, sizeof(h));
    if (memcmp(h.magic, magic, sizeof(magic)) != 0 || h.key[0] != key[0] || h.key[1] != key[1] ||
        h.bytes != n - sizeof(h) || XXH3_64bits(file + sizeof(h), n - sizeof(h)) != h.sum)
        return NULL;
    *n_program = n - sizeof(h);
    return file + sizeof(h);
}

static bool read_all(int fd, char *to, size_t n)
{
    ssize_t got;

    for (; n > 0; to += got, n -= (size_t)got)
        if ((got = read(fd, to, n)) <= 0)
            return false;
    return true;
}

/* Reads and closes the file FD. Returns its N bytes, which the caller frees. NULL: it is not a regular file, has an
 * impossible size, or cannot be read. */
static char *artifact_bytes(int fd, size_t *n)
{
    struct stat st;
    char *bytes = NULL;

    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > (off_t)sizeof(struct header) &&
        st.st_size <= (off_t)(sizeof(struct header) + MAX_BYTES)) {
        *n = (size_t)st.st_size;
        bytes = mem_alloc(*n, MEM_ENGINE);
        if (bytes && !read_all(fd, bytes, *n)) {
            mem_free(bytes);
            bytes = NULL;
        }
    }
    close(fd);
    return bytes;
}

/* Loads the program from the file PATH, and counts the result. Returns false if there is no valid file. Sets
 * *IS_REFUSED if the file is undamaged, but the plugin refuses it; a file that makes the plugin's process end is
 * deleted. */
static bool load(struct plugin *p, const char *path, const uint64_t key[2], struct pjrt_loaded **out,
                 struct artifact_counts *counts, bool *is_refused)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const char *program = NULL;
    struct err e = {0};
    size_t n = 0;
    char *file;
    bool good;

    if (fd < 0)
        return false;
    if ((file = artifact_bytes(fd, &n)) != NULL)
        program = artifacts_find(file, n, key, &n);
    good = program && plugin_load(p, program, n, out, &e) == 0;
    *is_refused = program && !good;
    if (*is_refused && plugin_is_dead(p))
        unlink(path);
    atomic_fetch_add(good ? &counts->n_loaded : &counts->n_damaged, 1);
    if (!good)
        log_warn("%s is damaged or of another machine; the program is compiled again%s%s", path,
                 e.msg[0] ? ": " : "", e.msg);
    mem_free(file);
    return good;
}

/* Writes a header and the PROGRAM to PATH. */
static int save(const char *path, const uint64_t key[2], const struct buf *program, struct err *e)
{
    struct header h = {
        .key = {key[0], key[1]}, .bytes = program->len, .sum = XXH3_64bits(program->data, program->len)};
    struct buf file;
    int rc;

    if (program->len > MAX_BYTES)
        return err_set(e, ERR_NOSPACE, "it has %zu bytes, expected at most %d", program->len, MAX_BYTES);
    if ((rc = cache_make_folders(path, e)) != 0)
        return rc;
    memcpy(h.magic, magic, sizeof(magic));
    buf_init(&file, MEM_ENGINE);
    buf_add(&file, &h, sizeof(h));
    buf_add(&file, program->data, program->len);
    rc = file.oom ? err_nomem(e, "a compiled program") : file_replace(path, file.data, file.len, 0600, e);
    buf_fini(&file);
    return rc;
}

/* Compiles TEXT and writes the program to PATH (NULL: it is not stored). IS_REFUSED: the plugin has refused the file at
 * PATH, which is deleted if the program compiles. */
static int compile_and_keep(struct plugin *p, const struct buf *text, const char *path, bool is_refused,
                            const uint64_t key[2], struct pjrt_loaded **out, struct artifact_counts *n,
                            struct err *e)
{
    struct err why = {0};
    uint64_t begin = clock_ns();
    struct buf program;
    int rc = plugin_compile(p, text->data, text->len, "compilation", out, e);

    atomic_fetch_add(&n->compile_ns, clock_ns() - begin);
    atomic_fetch_add(&n->n_compiled, rc == 0);
    if (rc || !path)
        return rc;
    if (is_refused)
        unlink(path);
    buf_init(&program, MEM_ENGINE);
    if (plugin_serialize(p, *out, &program, &why) != 0 ||
        (program.len && save(path, key, &program, &why) != 0))
        log_warn("the compiled program cannot be kept: %s", why.msg);
    else if (program.len)
        atomic_fetch_add(&n->n_kept, 1);
    buf_fini(&program);
    return 0;
}

int artifacts_open(struct plugin *p, const struct buf *text, struct pjrt_loaded **out,
                   struct artifact_counts *n, struct err *e)
{
    uint64_t key[2] = {0, 0};
    char path[FILE_PATH_MAX], name[64];
    bool has_file = key_of(p, text, key), is_refused = false;

    snprintf(name, sizeof(name), "%016llx%016llx", (unsigned long long)key[1], (unsigned long long)key[0]);
    has_file = has_file && cache_path(path, sizeof(path), "pjrt", name, NULL) == 0;
    if (has_file && load(p, path, key, out, n, &is_refused))
        return 0;
    return compile_and_keep(p, text, has_file ? path : NULL, is_refused, key, out, n, e);
}
