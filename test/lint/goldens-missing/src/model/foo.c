/* foo.c - an architecture that nobody has compared with anything. */
struct model;

void foo_open(struct model *m);

void foo_open(struct model *m)
{
    (void)m;
}
