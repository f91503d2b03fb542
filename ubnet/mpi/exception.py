"""The errors of MPI: their classes, their texts and the exception that carries them."""

# The name of each class, in the order of its number, and what it says.
_TEXTS = {
    "SUCCESS": "no errors",
    "ERR_BUFFER": "invalid buffer pointer",
    "ERR_COUNT": "invalid count argument",
    "ERR_TYPE": "invalid datatype",
    "ERR_TAG": "invalid tag",
    "ERR_COMM": "invalid communicator",
    "ERR_RANK": "invalid rank",
    "ERR_REQUEST": "invalid request",
    "ERR_ROOT": "invalid root",
    "ERR_GROUP": "invalid group",
    "ERR_OP": "invalid reduce operation",
    "ERR_TOPOLOGY": "invalid communicator topology",
    "ERR_DIMS": "invalid topology dimension",
    "ERR_ARG": "invalid argument of some other kind",
    "ERR_UNKNOWN": "unknown error",
    "ERR_TRUNCATE": "message truncated",
    "ERR_OTHER": "known error not in list",
    "ERR_INTERN": "internal error",
    "ERR_IN_STATUS": "error code in status",
    "ERR_PENDING": "pending request",
    "ERR_INFO_KEY": "invalid key argument for info object",
    "ERR_INFO_VALUE": "invalid value argument for info object",
    "ERR_INFO_NOKEY": "unknown key for given info object",
    "ERR_INFO": "invalid info object",
    "ERR_KEYVAL": "invalid key value",
    "ERR_NAME": "invalid name argument",
    "ERR_NO_MEM": "out of memory",
    "ERR_SIZE": "invalid size",
    "ERR_UNSUPPORTED_OPERATION": "operation not supported",
    "ERR_VALUE_TOO_LARGE": "value is too large to store",
    "ERR_WIN": "invalid window",
    "ERR_BASE": "invalid base argument",
    "ERR_DISP": "invalid displacement argument",
    "ERR_LOCKTYPE": "invalid lock type argument",
    "ERR_ASSERT": "invalid assertion argument",
    "ERR_RMA_SYNC": "wrong synchronization of one-sided accesses",
    "ERR_RMA_CONFLICT": "conflicting one-sided accesses",
    "ERR_RMA_RANGE": "one-sided access outside of the window",
    "ERR_RMA_ATTACH": "memory cannot be attached",
    "ERR_RMA_SHARED": "memory cannot be shared",
    "ERR_RMA_FLAVOR": "wrong kind of window",
    # Of calls that are not served here: a program may still name them.
    "ERR_ERRHANDLER": "invalid error handler",
    "ERR_FILE": "invalid file",
    "ERR_NO_SUCH_FILE": "no such file",
    "ERR_BAD_FILE": "bad name of a file",
    "ERR_FILE_EXISTS": "the file exists",
    "ERR_FILE_IN_USE": "the file is in use",
    "ERR_AMODE": "invalid mode of access",
    "ERR_ACCESS": "permission denied",
    "ERR_READ_ONLY": "the file is read-only",
    "ERR_NO_SPACE": "no space left",
    "ERR_QUOTA": "quota exceeded",
    "ERR_NOT_SAME": "arguments of a collective call differ",
    "ERR_IO": "input or output failed",
    "ERR_CONVERSION": "conversion failed",
    "ERR_DUP_DATAREP": "the data representation is known already",
    "ERR_UNSUPPORTED_DATAREP": "unknown data representation",
    "ERR_SPAWN": "processes cannot be started",
    "ERR_PORT": "invalid port",
    "ERR_SERVICE": "invalid service",
    "ERR_SESSION": "invalid session",
    "ERR_ABI": "binary interfaces differ",
    "ERR_PROC_ABORTED": "a process has aborted",
    "ERR_PROC_FAILED": "a process has failed",
    "ERR_PROC_FAILED_PENDING": "a process has failed, the request goes on",
    "ERR_REVOKED": "the communicator is revoked",
}

_NAMES = list(_TEXTS)

(
    SUCCESS,
    ERR_BUFFER,
    ERR_COUNT,
    ERR_TYPE,
    ERR_TAG,
    ERR_COMM,
    ERR_RANK,
    ERR_REQUEST,
    ERR_ROOT,
    ERR_GROUP,
    ERR_OP,
    ERR_TOPOLOGY,
    ERR_DIMS,
    ERR_ARG,
    ERR_UNKNOWN,
    ERR_TRUNCATE,
    ERR_OTHER,
    ERR_INTERN,
    ERR_IN_STATUS,
    ERR_PENDING,
    ERR_INFO_KEY,
    ERR_INFO_VALUE,
    ERR_INFO_NOKEY,
    ERR_INFO,
    ERR_KEYVAL,
    ERR_NAME,
    ERR_NO_MEM,
    ERR_SIZE,
    ERR_UNSUPPORTED_OPERATION,
    ERR_VALUE_TOO_LARGE,
    ERR_WIN,
    ERR_BASE,
    ERR_DISP,
    ERR_LOCKTYPE,
    ERR_ASSERT,
    ERR_RMA_SYNC,
    ERR_RMA_CONFLICT,
    ERR_RMA_RANGE,
    ERR_RMA_ATTACH,
    ERR_RMA_SHARED,
    ERR_RMA_FLAVOR,
) = range(_NAMES.index("ERR_RMA_FLAVOR") + 1)

ERR_LASTCODE = len(_NAMES) - 1


class Exception(RuntimeError):
    """An error of an MPI call.

    Parameters
    ----------
    ierr : int
        Its class, such as ``MPI.ERR_RANK``.
    detail : str
        What was given and what is allowed.

    Attributes
    ----------
    heard : bool
        Whether an error handler has been told.
    """

    def __init__(self, ierr: int = SUCCESS, detail: str = "") -> None:
        super().__init__(ierr if ierr >= SUCCESS else ERR_UNKNOWN)
        self.detail = detail
        self.heard = False

    def __int__(self) -> int:
        return int(self.args[0])

    def __bool__(self) -> bool:
        return int(self) != SUCCESS

    def __hash__(self) -> int:
        return hash(int(self))

    def __eq__(self, other: object) -> bool:
        return int(self) == (int(other) if isinstance(other, Exception) else other)

    def __lt__(self, other: int) -> bool:
        return int(self) < int(other)

    def __le__(self, other: int) -> bool:
        return int(self) <= int(other)

    def __gt__(self, other: int) -> bool:
        return int(self) > int(other)

    def __ge__(self, other: int) -> bool:
        return int(self) >= int(other)

    def __repr__(self) -> str:
        return f"MPI.Exception({int(self)})"

    def __str__(self) -> str:
        text = self.Get_error_string()
        return f"{text}: {self.detail}" if self.detail else text

    def Get_error_code(self) -> int:
        """Return the error code."""
        return int(self)

    def Get_error_class(self) -> int:
        """Return the error class."""
        return Get_error_class(int(self))

    def Get_error_string(self) -> str:
        """Return the text of the error class."""
        return Get_error_string(int(self))

    error_code = property(Get_error_code, doc="Error code.")
    error_class = property(Get_error_class, doc="Error class.")
    error_string = property(Get_error_string, doc="Text of the error class.")


def Get_error_class(errorcode: int) -> int:
    """Return the class of an error code.

    >>> Get_error_class(ERR_RANK) == ERR_RANK
    True
    """
    if not 0 <= errorcode <= ERR_LASTCODE:
        raise Exception(ERR_ARG, f"there is no error code {errorcode}")
    return errorcode


def Get_error_string(errorcode: int) -> str:
    """Return the text of an error code.

    >>> Get_error_string(ERR_TRUNCATE)
    'MPI_ERR_TRUNCATE: message truncated'
    """
    name = _NAMES[Get_error_class(errorcode)]
    return f"MPI_{name}: {_TEXTS[name]}"


ERROR_CLASSES = dict(zip(_NAMES, range(len(_NAMES)), strict=True))
"""The number of every class by its name."""
