/* needs.h - uses size_t and hopes that somebody else has said what it is. */
size_t needs_bytes(void);
