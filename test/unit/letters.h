/* letters.h - a tokenizer for goldens, which have none. */
#ifndef GALLOP_TEST_LETTERS_H
#define GALLOP_TEST_LETTERS_H

/* Copies the model PATH, and gives it a tokenizer of two letters for each of its first 160 tokens. Returns the folder,
 * which is removed when the program ends. */
const char *letters_model(const char *path);

#endif
