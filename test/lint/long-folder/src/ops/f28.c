/* f28.c - one of 31 files. */
