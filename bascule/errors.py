"""The one exception tree.

Three levels: family, cause, detail. The family says who has to act.

    BasculeError
    ├── ConfigurationError            the app, its file or a setting is wrong: its author acts
    │   ├── AppNotFound               no such file, or no app in it
    │   ├── AmbiguousApp              more than one app, none of them chosen
    │   ├── AppImportFailed           the file raised while it was imported
    │   ├── SettingInvalid            a flag, environment variable or file entry has a bad value
    │   ├── NameInvalid               a name that clients refuse
    │   ├── NameTaken                 two things registered under one name
    │   ├── SchemaMissing             a parameter that cannot be described to a model
    │   ├── PortInUse                 another process listens there
    │   └── EventLoopUnsupported      this part runs on asyncio only
    ├── InputError                    the caller sent something wrong: the caller acts
    │   ├── ToolInputInvalid
    │   ├── WorkflowInputError
    │   ├── NotFound                  unknown id, or an id of another owner
    │   └── PathRefused               a file outside the allowed folder, or one that cannot be used
    ├── ToolError                     a tool says no; its text is shown as it is
    ├── RunError                      a run cannot be used the way it was asked for
    │   ├── AgentRunError             the run failed; carries ``.output``
    │   ├── RunTimeoutError
    │   ├── RunIdInUse
    │   └── RunNotSuspended
    ├── ModelError                    the language model or its server failed
    ├── StorageError                  the store cannot be opened, read or written
    ├── AuthError                     the request is not allowed
    │   ├── TokenInvalid              no identity: 401
    │   ├── ScopeMissing              identity without the right: 403
    │   └── AuthUnavailable           the key source cannot be reached: 503
    └── AcpError                      the external coding agent failed
        ├── AcpCommandNotFound
        ├── AcpAgentExited            carries ``.exit_code`` and ``.stderr_tail``
        ├── AcpTimeout                carries ``.what``
        ├── AcpLineTooLong
        ├── AcpAuthRequired           carries ``.methods``
        ├── AcpSessionBusy
        ├── AcpProtocolVersion
        └── AcpRequestFailed          the agent answered a request with an error

Every message says what happened, with which value, and what to do next.
"""

from collections.abc import Sequence
from typing import Any, Literal

__all__ = [
    "AcpAgentExited",
    "AcpAuthRequired",
    "AcpCommandNotFound",
    "AcpError",
    "AcpLineTooLong",
    "AcpProtocolVersion",
    "AcpRequestFailed",
    "AcpSessionBusy",
    "AcpTimeout",
    "AgentRunError",
    "AmbiguousApp",
    "AppImportFailed",
    "AppNotFound",
    "AuthError",
    "AuthUnavailable",
    "BasculeError",
    "ConfigurationError",
    "EventLoopUnsupported",
    "InputError",
    "ModelError",
    "NameInvalid",
    "NameTaken",
    "NotFound",
    "PathRefused",
    "PortInUse",
    "RunError",
    "RunIdInUse",
    "RunNotSuspended",
    "RunTimeoutError",
    "SchemaMissing",
    "ScopeMissing",
    "SettingInvalid",
    "StorageError",
    "TokenInvalid",
    "ToolError",
    "ToolInputInvalid",
    "WorkflowInputError",
]


class BasculeError(Exception):
    """Base of everything that Bascule raises on purpose."""


class ConfigurationError(BasculeError):
    """The app, its file or a setting is wrong."""


class AppNotFound(ConfigurationError):
    """No such file, or nothing to serve in it."""


class AmbiguousApp(ConfigurationError):
    """A file holds more than one app and none was chosen."""


class AppImportFailed(ConfigurationError):
    """The app's file raised while it was imported; the cause is chained."""


class SettingInvalid(ConfigurationError):
    """A flag, an environment variable or a file entry has a bad value."""


class NameInvalid(ConfigurationError):
    """A name that MCP clients or models refuse."""


class NameTaken(ConfigurationError):
    """Two things are registered under one name."""


class SchemaMissing(ConfigurationError):
    """A parameter has no type that a JSON schema can be made from."""


class PortInUse(ConfigurationError):
    """Another process listens on the address."""


class EventLoopUnsupported(ConfigurationError):
    """A part that stands on an asyncio-only library is used in another event loop."""


class InputError(BasculeError):
    """The caller sent something that cannot be used."""


class ToolInputInvalid(InputError):
    """Arguments do not fit the tool's input schema."""


class WorkflowInputError(InputError):
    """Input does not fit the workflow's input schema."""


class NotFound(InputError):
    """An unknown id, or an id of another owner: the two answer alike."""


class PathRefused(InputError):
    """A path leads out of the allowed folder, or is nothing that may be read or written.

    Attributes:
        path: the path as it was given.
        root: the folder that access is confined to.
    """

    def __init__(self, message: str, *, path: str, root: str) -> None:
        super().__init__(message)
        self.path = path
        self.root = root


class ToolError(BasculeError):
    """Raised by a tool to answer with an error text, shown as it is."""


class RunError(BasculeError):
    """A run cannot be used in the way that was asked for."""


class AgentRunError(RunError):
    """A run ended with status ``failed``.

    Attributes:
        output: the ``FullOutput`` with everything the run produced before it failed.
    """

    def __init__(self, message: str, *, output: Any = None) -> None:
        super().__init__(message)
        self.output = output  # Any: FullOutput lives in a higher layer


class RunTimeoutError(AgentRunError):
    """A run or a step took longer than its limit.

    Attributes:
        kind: ``"total"`` for the whole run, ``"step"`` for one step.
    """

    def __init__(self, message: str, *, kind: Literal["total", "step"], output: Any = None) -> None:
        super().__init__(message, output=output)
        self.kind = kind


class RunIdInUse(RunError):
    """A run with this id is active."""


class RunNotSuspended(RunError):
    """There is nothing to answer: the run is unknown, ended, or was answered otherwise."""


class ModelError(BasculeError):
    """A language model, or the server in front of it, failed.

    Attributes:
        kind: the cause in one word; ``retryable`` follows from it.
        status: HTTP status, when there was an answer.
        retry_after: seconds that the server asked to wait.
        raw: the server's error body, for logs.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: Literal[
            "auth", "rate_limit", "bad_request", "not_found", "server", "connection", "timeout", "protocol", "other"
        ],
        status: int | None = None,
        retry_after: float | None = None,
        raw: object = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.retry_after = retry_after
        self.raw = raw

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later."""
        return self.kind in ("rate_limit", "server", "connection", "timeout")


class StorageError(BasculeError):
    """The store cannot be opened, read or written."""


class AuthError(BasculeError):
    """The request is not allowed."""


class TokenInvalid(AuthError):
    """The request carries no usable identity (HTTP 401).

    Attributes:
        reason: a short code for logs and clients, such as ``expired`` or ``wrong_audience``.
    """

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class ScopeMissing(AuthError):
    """The identity lacks scopes (HTTP 403).

    Attributes:
        scopes: every scope that the operation needs.
    """

    def __init__(self, message: str, *, scopes: Sequence[str]) -> None:
        super().__init__(message)
        self.scopes: tuple[str, ...] = tuple(scopes)


class AuthUnavailable(AuthError):
    """Keys or the identity provider cannot be reached (HTTP 503)."""


class AcpError(BasculeError):
    """An external coding agent, or the connection to it, failed.

    Attributes:
        output: the ``FullOutput`` with everything the run produced before it failed, when a run failed with this.
    """

    output: Any = None  # Any: FullOutput lives in a higher layer


class AcpCommandNotFound(AcpError):
    """The agent's command is not installed."""


class AcpAgentExited(AcpError):
    """The agent's process ended while it was needed.

    Attributes:
        exit_code: its exit status, negative for a signal, ``None`` when unknown.
        stderr_tail: the last lines it wrote to stderr.
    """

    def __init__(self, message: str, *, exit_code: int | None, stderr_tail: str = "") -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.stderr_tail = stderr_tail


class AcpTimeout(AcpError):
    """The agent did not answer in time.

    Attributes:
        what: what was waited for.
    """

    def __init__(self, message: str, *, what: str) -> None:
        super().__init__(message)
        self.what = what


class AcpLineTooLong(AcpError):
    """The agent sent a line beyond ``max_line_bytes``."""


class AcpAuthRequired(AcpError):
    """The agent wants a login first.

    Attributes:
        methods: the ids of the login methods that it offers.
    """

    def __init__(self, message: str, *, methods: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.methods: tuple[str, ...] = tuple(methods)


class AcpSessionBusy(AcpError):
    """A prompt turn is running in this session."""


class AcpProtocolVersion(AcpError):
    """The agent speaks no protocol version that we know."""


class AcpRequestFailed(AcpError):
    """The agent answered a request with a JSON-RPC error.

    Attributes:
        code: the JSON-RPC error code.
        data: the error's data, untouched.
    """

    def __init__(self, message: str, *, code: int, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data
