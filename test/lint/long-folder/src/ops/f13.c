/* f13.c - one of 31 files. */
