/* f10.c - one of 31 files. */
