"""The errors that a user can mend, each with the sentence that says how."""


class MemdecayError(Exception):
    """A fault that a user can mend; its text says what was expected, what came and what to do."""


class TraceError(MemdecayError):
    """A trace file or one of its lines cannot be read as a trace."""


class ArtifactError(MemdecayError):
    """A classifier folder is missing, incomplete, damaged or made for something else."""


class ModelError(MemdecayError):
    """A language model cannot be found, loaded or used."""


class BudgetError(MemdecayError):
    """A cache budget cannot hold what it has to hold."""


class StorageError(MemdecayError):
    """A file or folder could not be written, a full disk for example."""


class ConfigError(MemdecayError):
    """A configuration file or option has a value that does not fit."""


class ServerError(MemdecayError):
    """A server could not be started, or does not answer as one."""
