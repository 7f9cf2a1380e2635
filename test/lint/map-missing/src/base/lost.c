/* lost.c - nobody has put this on the map. */
