/* f38.c - one of 31 files. */
