/* f37.c - one of 31 files. */
