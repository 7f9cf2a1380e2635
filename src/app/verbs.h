/* verbs.h - the entry points of verbs.def: argv[0] is the verb; returns the exit status. */
#ifndef GALLOP_APP_VERBS_H
#define GALLOP_APP_VERBS_H

#define VERB(name, help) int verb_##name(int argc, char **argv);
#include "app/verbs.def"
#undef VERB

#endif
