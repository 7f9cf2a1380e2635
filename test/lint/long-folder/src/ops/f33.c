/* f33.c - one of 31 files. */
