/* f11.c - one of 31 files. */
