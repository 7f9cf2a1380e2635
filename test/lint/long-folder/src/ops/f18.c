/* f18.c - one of 31 files. */
