/* f21.c - one of 31 files. */
