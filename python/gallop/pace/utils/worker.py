"""AMD PACE's module of workers."""

from gallop.pace.utils.workers import MultipleProcesses, Worker

__all__ = ["MultipleProcesses", "Worker"]
