"""One class for each family of refusals and failures; each carries the library's sentence."""

__all__ = [
    "Corrupt",
    "DeadlineExceeded",
    "DeviceError",
    "Error",
    "InternalError",
    "InvalidArgument",
    "IoError",
    "NotFound",
    "OutOfMemory",
    "Unsupported",
    "WrongState",
]


class Error(Exception):
    """Raised by everything in the package; ``str(error)`` names the object and the numbers."""


class InvalidArgument(Error, ValueError):
    """An argument, option or file name of the caller."""


class Corrupt(Error):
    """A file or blob that is not what it claims to be."""


class NotFound(Error, FileNotFoundError):
    """A file, layer or tensor that is not there."""


class IoError(Error, OSError):
    """The system refused or failed a read or write."""


class OutOfMemory(Error, MemoryError):
    """Memory of the host or the device is exhausted."""


class Unsupported(Error, NotImplementedError):
    """Well-formed, but something that this build or device does not do."""


class WrongState(Error, RuntimeError):
    """A call out of order: an unstaged step, a sequence that moved, an object that was released."""


class DeadlineExceeded(Error, TimeoutError):
    """A read took longer than ``read_deadline_ms``."""


class DeviceError(Error, RuntimeError):
    """The accelerator's driver reported a failure."""


class InternalError(Error, RuntimeError):
    """A fault of the library."""
