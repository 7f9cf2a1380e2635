"""Functions that run in processes of their own, each on cores of its own."""

import multiprocessing

from gallop.pace.utils.logging import PACE_DEBUG


def _work(worker_id, cores, begun, init_func, init_args, target_func, target_args):
    """The process of a worker: binds itself to its cores, prepares, waits, and does its work."""
    from gallop.pace.core import thread_bind  # the module core uses the log of this package

    thread_bind(cores)
    PACE_DEBUG("worker %s is bound to cores %s" % (worker_id, cores))
    init_func(*init_args)
    begun.wait()
    target_func(*target_args)


class Worker:
    """A process that is bound to cores, calls a function to prepare itself (to open a model, say),
    and another one when start() is called.

    Functions and arguments are passed on as by multiprocessing.Process; what the first function
    makes, it keeps in a global variable for the second one.
    """

    def __init__(self, worker_id, cores_list, init_func, init_args, target_func, target_args):
        self.worker_id = worker_id
        self.cores_list = list(cores_list)
        self._begun = multiprocessing.Event()
        self.process = multiprocessing.Process(
            target=_work,
            args=(
                worker_id,
                self.cores_list,
                self._begun,
                init_func,
                tuple(init_args),
                target_func,
                tuple(target_args),
            ),
        )
        self.process.start()

    def start(self):
        """Lets the process call its second function."""
        self._begun.set()

    def join(self):
        """Waits for the end of the process."""
        self.process.join()


class MultipleProcesses:
    """Workers that are started together and waited for."""

    def __init__(self, workers):
        self.workers = list(workers)

    def run(self):
        """Starts all workers."""
        for worker in self.workers:
            worker.start()

    def join(self):
        """Waits for the ends of all workers."""
        for worker in self.workers:
            worker.join()
