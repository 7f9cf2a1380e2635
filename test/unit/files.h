/* files.h - files and folders that a test reads, copies and makes. A failure of any of them fails the test. */
#ifndef GALLOP_TEST_FILES_H
#define GALLOP_TEST_FILES_H

/* Makes an empty folder under $TMPDIR or /tmp, which is removed when the program ends. */
const char *files_folder(void);

/* Makes such a folder the current one. */
void files_enter(void);

/* Returns the *N bytes of the file PATH, followed by a zero byte. free(). */
char *files_read(const char *path, size_t *n);

void files_write(const char *path, const void *bytes, size_t n);
void files_write_text(const char *path, const char *text);

/* Writes the file NAME of the folder DIR. */
void files_write_in(const char *dir, const char *name, const void *bytes, size_t n);

/* Flips BITS in the byte AT of the file, counted from its end if AT is negative. */
void files_flip(const char *path, long at, unsigned char bits);

/* Copies the file FROM to TO, which may be a folder. It makes no link, because a link that leaves the folder
 * of a checkpoint is refused. */
void files_copy(const char *from, const char *to);

/* Copies every file of the folder FROM into the folder TO, without the folders in it. */
void files_copy_all(const char *from, const char *to);

/* Writes the path of WHAT in the folder of large test data ($GALLOP_SHARED, or ../shared beside the source
 * tree) to OUT. Returns false if it does not exist. */
bool files_shared(char *out, size_t size, const char *what);

#endif
