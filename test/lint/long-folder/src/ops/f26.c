/* f26.c - one of 31 files. */
