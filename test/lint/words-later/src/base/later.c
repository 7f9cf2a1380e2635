/* later.c - TODO everything. */
