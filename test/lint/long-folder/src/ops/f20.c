/* f20.c - one of 31 files. */
