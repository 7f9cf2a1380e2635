/* f16.c - one of 31 files. */
