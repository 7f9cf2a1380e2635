/* f24.c - one of 31 files. */
