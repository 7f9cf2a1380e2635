/* dead.c - keeps a corpse. */
#if 0
int dead;
#endif
