/* f23.c - one of 31 files. */
