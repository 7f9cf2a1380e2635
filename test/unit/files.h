/* files.h - files and folders that a test reads, copies and makes. What fails, fails the test. */
#ifndef GALLOP_TEST_FILES_H
#define GALLOP_TEST_FILES_H

/* An empty folder of the test's own under $TMPDIR or /tmp, which is removed when the program ends. */
const char *files_folder(void);

/* Such a folder is the current one from now on. */
void files_enter(void);

/* All of the file PATH, with a zero behind it, *n bytes. free(). */
char *files_read(const char *path, size_t *n);

void files_write(const char *path, const void *bytes, size_t n);
void files_write_text(const char *path, const char *text);

/* The byte AT of the file (from its end where AT is negative) is exclusive-ored with BITS. */
void files_flip(const char *path, long at, unsigned char bits);

/* The file FROM becomes TO, which may be a folder. Copies, not links: a checkpoint's links that leave its
 * folder are refused. */
void files_copy(const char *from, const char *to);

/* Every file of the folder FROM into the folder TO; folders in it are left out. */
void files_copy_all(const char *from, const char *to);

#endif
