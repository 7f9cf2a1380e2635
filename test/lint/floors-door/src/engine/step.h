/* step.h - a fixture. */
