/* one.h - a fixture. */
struct pair {
    int a;
};
