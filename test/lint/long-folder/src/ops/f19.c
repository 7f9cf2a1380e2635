/* f19.c - one of 31 files. */
