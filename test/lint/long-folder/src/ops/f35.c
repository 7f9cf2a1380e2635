/* f35.c - one of 31 files. */
