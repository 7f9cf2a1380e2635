/* safet.h - reads one .safetensors file into a tfile. */
#ifndef GALLOP_CKPT_SAFET_H
#define GALLOP_CKPT_SAFET_H

#include "ckpt/tfile.h"

/* F is open (tfile_open) and empty; afterwards it holds every tensor, in the order of their bytes in the
 * file. On failure *e names the file and the fault; F is the caller's to close. */
int safet_read(struct tfile *f, struct err *e);

#endif
