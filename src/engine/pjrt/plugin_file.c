/* plugin_file.c - reads the segments of an ELF file (https://refspecs.linuxfoundation.org/elf/gabi4+/contents.html). */
#include "engine/pjrt/plugin_file.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads N bytes at offset AT of FD to TO. False: they cannot all be read. */
static bool read_at(int fd, uint64_t at, void *to, size_t n)
{
    return at <= INT64_MAX && pread(fd, to, n, (off_t)at) == (ssize_t)n;
}

/* Returns the end of the last segment of the ELF file FD, which has SIZE bytes, as a file offset. 0: FD is no ELF file
 * of this machine's word size. */
static uint64_t end_of_segments(int fd, uint64_t size)
{
    uint64_t end = 0, table;
    ElfW(Ehdr) head;
    ElfW(Phdr) segment;

    if (!read_at(fd, 0, &head, sizeof(head)) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
        head.e_phentsize != sizeof(segment))
        return 0;
    if (__builtin_add_overflow(head.e_phoff, (uint64_t)head.e_phnum * sizeof(segment), &table) ||
        table > size)
        return table > size ? table : UINT64_MAX;
    for (size_t i = 0; i < head.e_phnum; i++) {
        uint64_t last;

        if (!read_at(fd, head.e_phoff + i * sizeof(segment), &segment, sizeof(segment)))
            return UINT64_MAX;
        if (__builtin_add_overflow(segment.p_offset, segment.p_filesz, &last))
            return UINT64_MAX;
        if (segment.p_type == PT_LOAD && last > end)
            end = last;
    }
    return end;
}

int plugin_file_check(const char *path, struct err *e)
{
    int fd = strchr(path, '/') ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    struct stat st = {0};
    uint64_t end = 0;

    if (fd < 0) /* a name that the loader looks for, or no such file */
        return 0;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        end = end_of_segments(fd, (uint64_t)st.st_size);
    close(fd);
    if (end <= (uint64_t)st.st_size)
        return 0;
    return err_set(e, ERR_INPUT,
                   "pjrt: %s is cut short: it has %llu bytes, but its segments end at byte %llu", path,
                   (unsigned long long)st.st_size, (unsigned long long)end);
}
