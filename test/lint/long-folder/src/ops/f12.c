/* f12.c - one of 31 files. */
