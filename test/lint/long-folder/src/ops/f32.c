/* f32.c - one of 31 files. */
