/* f31.c - one of 31 files. */
