/* f27.c - one of 31 files. */
