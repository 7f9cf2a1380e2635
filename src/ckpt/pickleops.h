/* pickleops.h - the opcodes of Python pickles: those that unpickle.c runs, and the names of all, for
 * messages. */
#ifndef GALLOP_CKPT_PICKLEOPS_H
#define GALLOP_CKPT_PICKLEOPS_H

/* clang-format off */
enum pickleop {
    OP_MARK = 0x28, OP_EMPTY_TUPLE = 0x29, OP_STOP = 0x2e, OP_BINFLOAT = 0x47, OP_BININT = 0x4a,
    OP_BININT1 = 0x4b, OP_BININT2 = 0x4d, OP_NONE = 0x4e, OP_BINPERSID = 0x51, OP_REDUCE = 0x52,
    OP_BINSTRING = 0x54, OP_SHORT_BINSTRING = 0x55, OP_BINUNICODE = 0x58, OP_EMPTY_LIST = 0x5d,
    OP_APPEND = 0x61, OP_BUILD = 0x62, OP_GLOBAL = 0x63, OP_APPENDS = 0x65, OP_BINGET = 0x68,
    OP_LONG_BINGET = 0x6a, OP_BINPUT = 0x71, OP_LONG_BINPUT = 0x72, OP_SETITEM = 0x73, OP_TUPLE = 0x74,
    OP_SETITEMS = 0x75, OP_EMPTY_DICT = 0x7d, OP_PROTO = 0x80, OP_TUPLE1 = 0x85, OP_TUPLE2 = 0x86,
    OP_TUPLE3 = 0x87, OP_NEWTRUE = 0x88, OP_NEWFALSE = 0x89, OP_LONG1 = 0x8a, OP_SHORT_BINUNICODE = 0x8c,
    OP_BINUNICODE8 = 0x8d, OP_STACK_GLOBAL = 0x93, OP_MEMOIZE = 0x94, OP_FRAME = 0x95,
};
/* clang-format on */

/* "REDUCE", or "unknown to Python" for a byte that is no opcode. */
const char *pickleops_name(unsigned char op);

#endif
