/* shape.h - on the same floor. */
