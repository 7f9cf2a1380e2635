/* f39.c - one of 31 files. */
