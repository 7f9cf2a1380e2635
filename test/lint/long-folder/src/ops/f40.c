/* f40.c - one of 31 files. */
