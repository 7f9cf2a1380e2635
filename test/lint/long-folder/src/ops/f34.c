/* f34.c - one of 31 files. */
