/* f14.c - one of 31 files. */
