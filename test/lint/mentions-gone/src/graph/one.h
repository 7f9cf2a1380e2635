/* one.h - see two.h. */
struct one;
