/* f36.c - one of 31 files. */
