/* f25.c - one of 31 files. */
