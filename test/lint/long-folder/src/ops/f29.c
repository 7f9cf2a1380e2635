/* f29.c - one of 31 files. */
