/* f17.c - one of 31 files. */
