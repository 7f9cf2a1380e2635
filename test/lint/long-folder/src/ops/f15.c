/* f15.c - one of 31 files. */
