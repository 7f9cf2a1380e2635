/* f22.c - one of 31 files. */
