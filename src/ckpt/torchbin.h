/* torchbin.h - reads one file of torch.save into a tfile. */
#ifndef GALLOP_CKPT_TORCHBIN_H
#define GALLOP_CKPT_TORCHBIN_H

#include "ckpt/tfile.h"

/* F is open (tfile_open) and empty; afterwards it holds every tensor of the state dict in the dict's
 * order, as strided views of the mapped storages. Values that are no tensors are left out. On failure *e
 * names the file and the fault; F is the caller's to close. */
int torchbin_read(struct tfile *f, struct err *e);

#endif
