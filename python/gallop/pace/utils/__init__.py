"""Utilities of AMD PACE: the log, and processes that each have cores of their own."""

from gallop.pace.utils.logging import logLevel, pacelogger
from gallop.pace.utils.workers import MultipleProcesses, Worker

__all__ = ["MultipleProcesses", "Worker", "logLevel", "pacelogger"]
