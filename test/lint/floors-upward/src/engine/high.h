/* high.h - a floor above. */
