/* foo.c - an architecture that nobody has compared with anything. */
struct model_arch {
    const char *class_name;
};

const struct model_arch foo_arch = {.class_name = "FooForCausalLM"};
