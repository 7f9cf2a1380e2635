/* f30.c - one of 31 files. */
