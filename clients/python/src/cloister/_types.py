# SPDX-License-Identifier: Apache-2.0
"""Generated from clients/description.json by clients/generate.py: do not change it here."""

from typing import Any, Dict, List, Literal, Optional, Type, TypedDict

from ._errors import ServiceError

LINE_BYTES = 33554432  # One message, either way.
VALUES = 2097152  # Values in a message of the service.
UNSENT_BYTES = 67108864  # Requests that wait to be sent.
CONNECT_MS = 10000  # For the service to accept a connection.
CALL_MS = 3600000  # The longest deadline of a call.

READ_METHODS = frozenset(['file.list', 'file.read', 'file.stat', 'file.watch', 'session.list', 'session.read', 'template.list', 'tools.list', 'workspace.checkpoints', 'workspace.diff', 'workspace.list'])
READ_TOOLS = frozenset(['list_commands', 'list_directory', 'read_file', 'search_files'])
LONG_METHODS = frozenset(['file.list', 'file.make_directory', 'file.move', 'file.read', 'file.remove', 'file.stat', 'file.watch', 'file.write', 'session.end', 'session.read', 'tool.call', 'tool.input', 'transaction.discard', 'workspace.checkpoint', 'workspace.diff', 'workspace.fork', 'workspace.freeze', 'workspace.remove', 'workspace.rollback'])

JSON_ERRORS = {'PARSE_ERROR': -32700, 'INVALID_REQUEST': -32600, 'METHOD_NOT_FOUND': -32601,
               'INVALID_PARAMS': -32602, 'INTERNAL_ERROR': -32603, 'SERVER_ERROR': -32000}

ErrorCode = Literal["PATH_OUTSIDE_WORKSPACE", "SYMLINK_OUTSIDE_WORKSPACE", "COMMAND_BLOCKED", "FILE_TOO_LARGE",
                    "UNKNOWN_TOOL", "INVALID_ARGUMENTS", "NOT_FOUND", "NOT_A_DIRECTORY", "IS_A_DIRECTORY",
                    "NOT_A_REGULAR_FILE", "PERMISSION_DENIED", "TOO_MANY_LINKS", "NAME_TOO_LONG", "NO_SPACE",
                    "INVALID_PATTERN", "PATTERN_TOO_COMPLEX", "TIMEOUT", "CANCELLED", "OUTPUT_LIMIT", "MEMORY_LIMIT",
                    "PROCESS_LIMIT", "BUSY", "QUOTA_EXCEEDED", "FORBIDDEN", "WORKSPACE_NOT_FOUND", "WORKER_LOST",
                    "SHUTTING_DOWN", "EXECUTION_ERROR", "NO_MATCH", "AMBIGUOUS_MATCH", "EDITS_OVERLAP", "STALE_FILE",
                    "KEY_CONFLICT", "OUTCOME_UNKNOWN", "SESSION_NOT_FOUND", "MOVED", "LEASE_ENDED"]
EndedBy = Literal["exit", "signal", "timeout", "idle_timeout", "input", "cancel", "output_limit", "memory", "pids",
                  "admin", "shutdown", "lifetime", "workspace_closed", "disk", "yield", "lease", "worker_lost"]
PatchOperation = Literal["add", "update", "delete", "move"]
FileEventType = Literal["created", "changed", "attributes", "removed", "moved_from", "moved_to", "overflow",
                        "unwatched"]
EntryType = Literal["file", "directory", "symlink", "fifo", "socket", "character_device", "block_device", "unknown"]
ChangeKind = Literal["added", "changed", "deleted"]
Stream = Literal["stdout", "stderr"]
SessionState = Literal["starting", "running", "ending", "ended"]
SessionSignal = Literal["INT", "TERM", "HUP", "QUIT", "KILL", "USR1", "USR2"]
SessionTo = Literal["all", "foreground"]
WorkspaceState = Literal["open", "closed"]
LeaseEnd = Literal["close", "remove"]
Kind = Literal["managed", "directory", "rootfs"]
Home = Literal["kept", "temporary"]
ForkedBy = Literal["overlay", "memory", "copy"]
Format = Literal["ollama", "openai", "mcp"]
Encoding = Literal["utf-8", "base64"]
Durability = Literal["durable", "fast"]
TransactionKind = Literal["none", "preview"]
Reply = Literal["observation", "message"]


class PathOutsideWorkspace(ServiceError):
    """The path leads out of the workspace."""

    code = "PATH_OUTSIDE_WORKSPACE"


class SymlinkOutsideWorkspace(ServiceError):
    """A symbolic link in the path leads out of the workspace."""

    code = "SYMLINK_OUTSIDE_WORKSPACE"


class CommandBlocked(ServiceError):
    """The command is on the list blocked_commands; the message says what to do instead."""

    code = "COMMAND_BLOCKED"


class FileTooLarge(ServiceError):
    """The file or the content is larger than the tool accepts."""

    code = "FILE_TOO_LARGE"


class UnknownTool(ServiceError):
    """The tool does not exist."""

    code = "UNKNOWN_TOOL"


class InvalidArguments(ServiceError):
    """The arguments do not fit the tool."""

    code = "INVALID_ARGUMENTS"


class NotFound(ServiceError):
    """The file or directory does not exist."""

    code = "NOT_FOUND"


class NotADirectory(ServiceError):
    """A component of the path is not a directory."""

    code = "NOT_A_DIRECTORY"


class IsADirectory(ServiceError):
    """The path is a directory."""

    code = "IS_A_DIRECTORY"


class NotARegularFile(ServiceError):
    """The path is a FIFO, a socket or a device."""

    code = "NOT_A_REGULAR_FILE"


class PermissionDenied(ServiceError):
    """Permissions or a read-only file system do not allow it."""

    code = "PERMISSION_DENIED"


class TooManyLinks(ServiceError):
    """The path contains too many symbolic links."""

    code = "TOO_MANY_LINKS"


class NameTooLong(ServiceError):
    """The path or one of its components is too long."""

    code = "NAME_TOO_LONG"


class NoSpace(ServiceError):
    """The file system is full. The old content of the file is unchanged."""

    code = "NO_SPACE"


class InvalidPattern(ServiceError):
    """The pattern is malformed."""

    code = "INVALID_PATTERN"


class PatternTooComplex(ServiceError):
    """The pattern takes too long to match."""

    code = "PATTERN_TOO_COMPLEX"


class Timeout(ServiceError):
    """The call reached its deadline."""

    code = "TIMEOUT"


class Cancelled(ServiceError):
    """The client or an administrator ended the call."""

    code = "CANCELLED"


class OutputLimit(ServiceError):
    """The command wrote more than its limit."""

    code = "OUTPUT_LIMIT"


class MemoryLimit(ServiceError):
    """The command used more memory than its limit."""

    code = "MEMORY_LIMIT"


class ProcessLimit(ServiceError):
    """The command started more processes than its limit."""

    code = "PROCESS_LIMIT"


class Busy(ServiceError):
    """Too much at once; retry_after_ms says when to try again."""

    code = "BUSY"


class QuotaExceeded(ServiceError):
    """The workspace takes as much on disk as it may, or the managed workspaces or the open ones are used up."""

    code = "QUOTA_EXCEEDED"


class Forbidden(ServiceError):
    """The user is not allowed to do this."""

    code = "FORBIDDEN"


class WorkspaceNotFound(ServiceError):
    """The workspace does not exist, or is not open on this connection."""

    code = "WORKSPACE_NOT_FOUND"


class WorkerLost(ServiceError):
    """A process of the workspace died during the call."""

    code = "WORKER_LOST"


class ShuttingDown(ServiceError):
    """The service takes no calls."""

    code = "SHUTTING_DOWN"


class ExecutionError(ServiceError):
    """Another failure of the service."""

    code = "EXECUTION_ERROR"


class NoMatch(ServiceError):
    """The old text of an edit is not in the file."""

    code = "NO_MATCH"


class AmbiguousMatch(ServiceError):
    """The old text of an edit is in the file more than once."""

    code = "AMBIGUOUS_MATCH"


class EditsOverlap(ServiceError):
    """Two edits of a call change the same text."""

    code = "EDITS_OVERLAP"


class StaleFile(ServiceError):
    """The file does not have the version that the call expects."""

    code = "STALE_FILE"


class KeyConflict(ServiceError):
    """The key belongs to another call. Nothing was run."""

    code = "KEY_CONFLICT"


class OutcomeUnknown(ServiceError):
    """The result of the call with this key is lost, and it may have had effects."""

    code = "OUTCOME_UNKNOWN"


class SessionNotFound(ServiceError):
    """There is no such session, or it ended long ago."""

    code = "SESSION_NOT_FOUND"


class Moved(ServiceError):
    """The work of the host goes on at another one, node. Nothing was run."""

    code = "MOVED"


class LeaseEnded(ServiceError):
    """The lease of the workspace has ended, and with it what ran there."""

    code = "LEASE_ENDED"


ServiceErrors: Dict[str, Type[ServiceError]] = {
    "PATH_OUTSIDE_WORKSPACE": PathOutsideWorkspace,
    "SYMLINK_OUTSIDE_WORKSPACE": SymlinkOutsideWorkspace,
    "COMMAND_BLOCKED": CommandBlocked,
    "FILE_TOO_LARGE": FileTooLarge,
    "UNKNOWN_TOOL": UnknownTool,
    "INVALID_ARGUMENTS": InvalidArguments,
    "NOT_FOUND": NotFound,
    "NOT_A_DIRECTORY": NotADirectory,
    "IS_A_DIRECTORY": IsADirectory,
    "NOT_A_REGULAR_FILE": NotARegularFile,
    "PERMISSION_DENIED": PermissionDenied,
    "TOO_MANY_LINKS": TooManyLinks,
    "NAME_TOO_LONG": NameTooLong,
    "NO_SPACE": NoSpace,
    "INVALID_PATTERN": InvalidPattern,
    "PATTERN_TOO_COMPLEX": PatternTooComplex,
    "TIMEOUT": Timeout,
    "CANCELLED": Cancelled,
    "OUTPUT_LIMIT": OutputLimit,
    "MEMORY_LIMIT": MemoryLimit,
    "PROCESS_LIMIT": ProcessLimit,
    "BUSY": Busy,
    "QUOTA_EXCEEDED": QuotaExceeded,
    "FORBIDDEN": Forbidden,
    "WORKSPACE_NOT_FOUND": WorkspaceNotFound,
    "WORKER_LOST": WorkerLost,
    "SHUTTING_DOWN": ShuttingDown,
    "EXECUTION_ERROR": ExecutionError,
    "NO_MATCH": NoMatch,
    "AMBIGUOUS_MATCH": AmbiguousMatch,
    "EDITS_OVERLAP": EditsOverlap,
    "STALE_FILE": StaleFile,
    "KEY_CONFLICT": KeyConflict,
    "OUTCOME_UNKNOWN": OutcomeUnknown,
    "SESSION_NOT_FOUND": SessionNotFound,
    "MOVED": Moved,
    "LEASE_ENDED": LeaseEnded,
}


class _ReadFileOutput(TypedDict):
    path: str
    #: The size of the file in bytes.
    size: int


class ReadFileOutput(_ReadFileOutput, total=False):
    """A file, or a range of its lines. A binary file has path, size, binary and type only."""

    #: The path's bytes, where path cannot show them.
    path_base64: str
    #: The lines, numbered unless the option line_numbers is false.
    content: str
    #: The number of lines in content.
    lines: int
    #: The number of lines in the file; null if they were not counted.
    total_lines: Optional[int]
    #: Whether requested lines are missing in content.
    truncated: bool
    #: utf-8, utf-8-replaced or base64.
    encoding: str
    #: A digest of the file's content, if the whole file was read.
    version: str
    #: True for a binary file.
    binary: bool
    #: The type of a binary file.
    type: str
    #: What is not shown, and how to get it.
    note: str


class _WriteFileOutput(TypedDict):
    path: str
    bytes_written: int
    #: Whether the file did not exist before.
    created: bool


class WriteFileOutput(_WriteFileOutput, total=False):
    """A file that was written."""

    path_base64: str
    #: A digest of the file's content.
    version: str


class _EditFileOutput(TypedDict):
    path: str
    replacements: int
    #: The first line that was changed.
    first_line: int
    size: int
    #: A digest of the file's content.
    version: str
    #: The changes as diff -u shows them.
    diff: str


class EditFileOutput(_EditFileOutput, total=False):
    """A file that was edited."""

    path_base64: str


class _PatchedFile(TypedDict):
    path: str
    op: PatchOperation
    #: Lines.
    added: int
    #: Lines.
    removed: int


class PatchedFile(_PatchedFile, total=False):
    """A file that a patch has changed."""

    path_base64: str
    #: The path before a move.
    old_path: str
    #: A digest of the file's content; a file that was deleted has none.
    version: str


class ApplyPatchOutput(TypedDict):
    """A patch of which all was done."""

    #: In the order of the patch.
    files: List[PatchedFile]


class _Entry(TypedDict):
    path: str
    type: EntryType
    size: int
    #: RFC 3339, UTC.
    mtime: str


class Entry(_Entry, total=False):
    """An entry of a directory."""

    path_base64: str
    #: Of a symbolic link.
    target: str
    #: Entries of a directory that are not listed.
    entries_left_out: int


class _ListDirectoryOutput(TypedDict):
    path: str
    entries: List[Entry]
    count: int
    #: Whether there are more entries.
    truncated: bool


class ListDirectoryOutput(_ListDirectoryOutput, total=False):
    """A directory, sorted by name."""

    path_base64: str
    #: Files and directories that git ignores.
    gitignored: int
    #: The number of entries, if fewer are shown.
    total: int
    #: What is not shown, and how to get it.
    note: str


class _RunCommandOutput(TypedDict):
    command: str
    #: Null if a signal ended the shell.
    exit_code: Optional[int]
    #: The signal's name, such as SIGKILL.
    signal: Optional[str]
    #: Of long output, the beginning and the end.
    stdout: str
    stderr: str
    #: How many bytes the command wrote.
    stdout_bytes: int
    stderr_bytes: int
    #: Whether the middle of stdout or stderr is left out.
    truncated: bool
    timed_out: bool
    ended_by: EndedBy
    duration_ms: int


class RunCommandOutput(_RunCommandOutput, total=False):
    """A command that ran, whatever its exit status."""

    #: running: the command goes on as a session, and only the call has ended.
    state: str
    #: The session as which it goes on.
    session: str
    #: The cursor after the output so far.
    next: int
    #: Its name, if it is in the background.
    name: str
    #: base64, if the call had this option.
    encoding: str


class _ReadOutputOutput(TypedDict):
    name: Optional[str]
    session: str
    #: starting, running, ending or ended.
    state: str
    age_ms: int
    #: What it has written since it was read last.
    output: str
    #: Its length before anything is left out.
    output_bytes: int
    #: Whether its middle is left out.
    truncated: bool
    #: How many bytes before it were not kept.
    lost_bytes: int
    #: The cursor after it.
    next: int


class ReadOutputOutput(_ReadOutputOutput, total=False):
    """What a command in the background has written, and its state."""

    #: The TCP ports at which it listens.
    ports: List[int]
    #: How many bytes before it are not shown.
    skipped_bytes: int
    #: base64, if the call had this option.
    encoding: str
    #: The observation of run_command, once it has ended.
    end: Dict[str, Any]
    #: Whether the text of wait_for was written.
    found: bool


class _SendInputOutput(TypedDict):
    name: Optional[str]
    session: str
    #: starting, running, ending or ended.
    state: str
    age_ms: int
    #: What it has written since it was read last.
    output: str
    #: Its length before anything is left out.
    output_bytes: int
    #: Whether its middle is left out.
    truncated: bool
    #: How many bytes before it were not kept.
    lost_bytes: int
    #: The cursor after it.
    next: int
    #: How many bytes were written.
    taken: int
    #: Whether it takes no more input.
    input_closed: bool


class SendInputOutput(_SendInputOutput, total=False):
    """What became of input for a command in the background."""

    #: The TCP ports at which it listens.
    ports: List[int]
    #: How many bytes before it are not shown.
    skipped_bytes: int
    #: base64, if the call had this option.
    encoding: str
    #: The observation of run_command, once it has ended.
    end: Dict[str, Any]


class _StopCommandOutput(TypedDict):
    name: Optional[str]
    session: str
    #: starting, running, ending or ended.
    state: str
    age_ms: int
    #: What it has written since it was read last.
    output: str
    #: Its length before anything is left out.
    output_bytes: int
    #: Whether its middle is left out.
    truncated: bool
    #: How many bytes before it were not kept.
    lost_bytes: int
    #: The cursor after it.
    next: int


class StopCommandOutput(_StopCommandOutput, total=False):
    """A command in the background that has ended."""

    #: The TCP ports at which it listens.
    ports: List[int]
    #: How many bytes before it are not shown.
    skipped_bytes: int
    #: base64, if the call had this option.
    encoding: str
    #: The observation of run_command, once it has ended.
    end: Dict[str, Any]


class _BackgroundCommand(TypedDict):
    name: Optional[str]
    session: str
    #: starting, running, ending or ended.
    state: str
    age_ms: int
    command: str
    #: Output that no tool has shown.
    unread_bytes: int


class BackgroundCommand(_BackgroundCommand, total=False):
    """A command in the background."""

    #: The TCP ports at which it listens.
    ports: List[int]


class ListCommandsOutput(TypedDict):
    """The commands in the background of a workspace."""

    commands: List[BackgroundCommand]
    count: int


class _Match(TypedDict):
    path: str
    line: int
    text: str


class Match(_Match, total=False):
    """A line that matches."""

    path_base64: str
    #: Whether the line is longer than text.
    cut: bool
    #: Whether the line only stands near one that matches.
    context: bool


class _SearchFilesOutput(TypedDict):
    pattern: str
    matches: List[Match]
    count: int
    #: Whether there may be more matches.
    truncated: bool
    files_searched: int
    files_skipped: int


class SearchFilesOutput(_SearchFilesOutput, total=False):
    """Lines that match, sorted by name and line."""

    #: Files and directories that git ignores.
    gitignored: int
    #: The number of matches, if fewer are shown.
    total: int
    #: What is not shown, and how to get it.
    note: str


class _ErrorObject(TypedDict):
    code: ErrorCode
    message: str


class ErrorObject(_ErrorObject, total=False):
    """Why a tool failed. The message tells a model what to do next."""

    #: With BUSY.
    retry_after_ms: int
    #: Why an edit cannot be made: edit (of a patch file and hunk), kind, lines and closest. Or files with
    #: their states, of a patch that was cut short.
    data: Dict[str, Any]


class DiskUse(TypedDict):
    """What a workspace takes on disk, and what it may take."""

    bytes: int
    limit: int


class _Usage(TypedDict):
    wall_us: int


class Usage(_Usage, total=False):
    """What a call used."""

    user_us: int
    system_us: int
    max_rss_bytes: int
    #: Left over when the shell ended, and killed.
    processes_ended: int
    peak_memory_bytes: int
    io_read_bytes: int
    io_write_bytes: int
    #: Of the workspace, after a write, if its disk is limited.
    disk: DiskUse


class NetworkDenied(TypedDict):
    """Connections that were refused for one reason."""

    #: Empty for proxy_lost.
    host: str
    #: 0 for a look-up.
    port: int
    #: Such as not_allowed, private_address or dns_failed.
    reason: str
    count: int
    #: connect, http, socks, dns or transparent.
    via: Optional[str]


class _NetworkUse(TypedDict):
    connections: int
    bytes_in: int
    bytes_out: int
    denied: List[NetworkDenied]


class NetworkUse(_NetworkUse, total=False):
    """What a command did on the network."""

    #: Refusals of further kinds.
    denied_unlisted: int
    #: True: cloister-egress did not tell all in time.
    incomplete: bool


class ChangedState(TypedDict):
    """What an entry of a workspace was or is."""

    type: EntryType
    #: 0 for a directory.
    size: int
    #: The permission bits, such as 0644.
    mode: str


class _WorkspaceChange(TypedDict):
    path: str
    change: ChangeKind
    before: Optional[ChangedState]
    after: Optional[ChangedState]


class WorkspaceChange(_WorkspaceChange, total=False):
    """A change of one entry since a checkpoint."""

    path_base64: str
    #: The change for git apply, if it was asked for and can be told.
    patch: str


class PreviewDiff(TypedDict, total=False):
    """What a preview has changed: as the result of workspace.diff, or why that is not known."""

    #: The number of the checkpoint before it.
    since: int
    #: In the order of their paths.
    changes: List[WorkspaceChange]
    #: Changes that are listed.
    count: int
    #: Whether there are more.
    truncated: bool
    #: Listed or not, like the next two.
    added: int
    changed: int
    deleted: int
    #: Entries that could not be compared.
    unread: int
    #: Why it is not known; then nothing else is set.
    error: ErrorObject


class _Observation(TypedDict):
    success: bool
    tool: str
    #: What the tool's method returns.
    output: Optional[Dict[str, Any]]
    error: Optional[ErrorObject]
    usage: Usage


class Observation(_Observation, total=False):
    """The result of a tool call. A tool that failed has an error; a command that was ended keeps its output."""

    #: What a command did on the network, if its workspace has one.
    network: NetworkUse
    #: How arguments were taken that were not as the tool describes them, and what a command tried in vain.
    notes: List[str]
    #: True: an earlier call with the key had this result.
    replayed: bool
    #: The change of a file by an earlier call with the key was found made.
    resolved: bool
    #: Of a call with a key: how long its result is kept.
    key_horizon_ms: int
    #: What a preview has changed: it is to be decided on.
    diff: PreviewDiff


class _ToolMessage(TypedDict):
    role: str
    tool_name: str
    content: str


class ToolMessage(_ToolMessage, total=False):
    """The message for the model's conversation; content is the observation as a model reads it."""

    tool_call_id: str
    #: What a preview has changed, for the program.
    diff: PreviewDiff


class Lease(TypedDict):
    """When a managed workspace is closed or removed, whatever runs in it."""

    #: RFC 3339, UTC.
    expires_at: str
    at_end: LeaseEnd


class _Workspace(TypedDict):
    #: Its name: of a managed one the name, else the directory without symbolic links.
    workspace: str
    kind: Kind
    #: The path at which commands see it.
    root: str
    tenant: str
    #: Whether HOME of the commands is kept when the workspace's processes have ended.
    home: Home
    #: What is enforced, cloister-security(7).
    isolation: Dict[str, Any]


class Workspace(_Workspace, total=False):
    """A workspace that was opened."""

    #: True: its commands run as user 0 of a user namespace of their own.
    root_inside: bool
    #: Of a managed workspace.
    labels: Dict[str, str]
    #: Likewise.
    lease: Optional[Lease]
    #: How long the results of calls with a key are kept; missing if calls cannot have one.
    key_horizon_ms: int


class _ListedWorkspace(TypedDict):
    workspace: str
    kind: Kind
    root: str
    tenant: str
    #: Whether its processes are running.
    open: bool
    #: RFC 3339, UTC: when a managed workspace was made, if that is known.
    created: Optional[str]
    #: What its files took on disk when they were measured last.
    bytes: Optional[int]
    #: How many there were.
    files: Optional[int]


class ListedWorkspace(_ListedWorkspace, total=False):
    """A workspace of workspace.list."""

    #: Of a managed workspace.
    labels: Dict[str, str]
    #: Likewise.
    lease: Optional[Lease]


class Updated(TypedDict):
    """The result of workspace.update."""

    workspace: str
    labels: Dict[str, str]
    lease: Optional[Lease]


class _FileEntry(TypedDict):
    path: str
    type: EntryType
    size: int
    #: RFC 3339, UTC.
    mtime: str
    #: The same, in nanoseconds since 1970.
    mtime_ns: int
    #: The permission bits as octal digits.
    mode: str
    uid: int
    gid: int
    #: The name of uid, if it has one.
    owner: Optional[str]
    group: Optional[str]
    #: The number of hard links.
    links: int


class FileEntry(_FileEntry, total=False):
    """An entry of the workspace, as its commands see it."""

    #: The path's bytes, where path cannot show them.
    path_base64: str
    #: Of a symbolic link.
    target: str
    #: Extended attributes user.*, without that prefix, whose values are text.
    attributes: Dict[str, str]
    #: The others.
    attributes_base64: Dict[str, str]
    #: True: it has more of them.
    attributes_cut: bool


class FileDescribed(TypedDict):
    """The result of file.stat and file.move."""

    entry: FileEntry


class _FileList(TypedDict):
    path: str
    entries: List[FileEntry]
    count: int
    #: Whether there are more entries.
    truncated: bool


class FileList(_FileList, total=False):
    """The result of file.list."""

    path_base64: str


class DirectoryMade(TypedDict):
    """The result of file.make_directory."""

    #: Whether it did not exist before.
    created: bool
    entry: FileEntry


class _FileRemoved(TypedDict):
    path: str
    #: The number of entries that were removed.
    removed: int


class FileRemoved(_FileRemoved, total=False):
    """The result of file.remove."""

    path_base64: str


class FileRead(TypedDict):
    """The result of file.read."""

    #: How many were read.
    bytes: int
    #: As it was when the file was opened.
    entry: FileEntry


class _FileEvent(TypedDict):
    #: overflow: events were lost, so list the directory again.
    type: FileEventType
    path: str
    #: Whether the entry is one.
    directory: bool


class FileEvent(_FileEvent, total=False):
    """A change in a watched directory."""

    path_base64: str
    #: The same for both ends of a move.
    cookie: int
    #: With entries, if it is still there.
    entry: FileEntry


class _FileWritten(TypedDict):
    path: str
    bytes: int
    #: Whether the file did not exist before.
    created: bool
    #: A digest of the file's content.
    version: str


class FileWritten(_FileWritten, total=False):
    """The result of file.write."""

    path_base64: str


class Checkpointed(TypedDict):
    """A checkpoint that was made or gone back to."""

    workspace: str
    #: Its number in the workspace.
    checkpoint: int


class Checkpoint(TypedDict):
    """A checkpoint of a managed workspace."""

    #: Its number in the workspace.
    checkpoint: int
    #: Empty if it was given none.
    label: str
    #: RFC 3339, UTC, if that is known.
    created: Optional[str]


class CheckpointList(TypedDict):
    """The result of workspace.checkpoints."""

    workspace: str
    #: The oldest first.
    checkpoints: List[Checkpoint]


class Discarded(TypedDict):
    """A preview that was discarded."""

    workspace: str
    #: Always true.
    discarded: bool


class Frozen(TypedDict):
    """A template that was made."""

    workspace: str
    template: str
    #: Whether there was one of its name.
    replaced: bool


class _Forked(TypedDict):
    template: str
    #: overlay, memory: what is not changed is the template's; copy: each has its own.
    forked_by: ForkedBy
    #: Their names.
    workspaces: List[str]


class Forked(_Forked, total=False):
    """Workspaces that were made of a template."""

    #: Why there was no room in memory for the template.
    why_copied: str


class Template(TypedDict):
    """A template of a tenant."""

    template: str
    #: Workspaces that show it below their own files.
    forks: int
    #: Whether a newer one of its name is forked now; its own forks go on.
    replaced: bool
    #: The disk that it takes; null if it was not measured.
    bytes: Optional[int]


class TemplateList(TypedDict):
    """The templates of a tenant."""

    tenant: str
    templates: List[Template]


class RemovedTemplate(TypedDict):
    """A template that was removed."""

    tenant: str
    removed: str


class _WorkspaceDiff(TypedDict):
    #: The number of the checkpoint.
    since: int
    #: In the order of their paths.
    changes: List[WorkspaceChange]
    #: Changes that are listed.
    count: int
    #: Whether there are more.
    truncated: bool
    #: Listed or not, like the next two.
    added: int
    changed: int
    deleted: int
    #: Entries that could not be compared.
    unread: int


class WorkspaceDiff(_WorkspaceDiff, total=False):
    """The result of workspace.diff."""

    #: Changes of files that the patch does not have.
    unpatched: int


class _WorkspaceList(TypedDict):
    workspaces: List[ListedWorkspace]


class WorkspaceList(_WorkspaceList, total=False):
    """The result of workspace.list."""

    #: If there are more.
    next_cursor: str


class ToolList(TypedDict):
    """The definitions of the tools."""

    tools: List[Dict[str, Any]]


class CancelResult(TypedDict):
    """The result of tool.cancel."""

    #: Whether the call was in flight.
    cancelled: bool


class InputResult(TypedDict):
    """The result of tool.input."""

    #: How many bytes the command has read.
    taken: int
    #: Whether the command has closed its standard input.
    closed: bool


class TerminalSize(TypedDict):
    """The size of a terminal in characters."""

    rows: int
    cols: int


class _StartedSession(TypedDict):
    #: Its id.
    session: str
    name: Optional[str]
    workspace: str
    #: Its terminal, if it has one.
    pty: Optional[TerminalSize]
    lifetime_ms: int
    #: How much of its output is kept.
    output_bytes: int


class StartedSession(_StartedSession, total=False):
    """The result of session.start."""

    #: Whether it was started before with this key.
    replayed: bool


class Exported(TypedDict):
    """The archive that export has written."""

    #: Files, directories and links.
    entries: int
    #: Of the archive.
    bytes: int
    #: Special files, which are not in it: the first hundred.
    left_out: List[str]


class SessionChunk(TypedDict):
    """Output of a session that one stream wrote."""

    #: The cursor of its first byte.
    at: int
    stream: Stream
    data: str


class _SessionOutput(TypedDict):
    chunks: List[SessionChunk]
    #: The cursor to go on from.
    next: int
    #: How many bytes after the cursor are not kept any more.
    lost_bytes: int
    #: The index of the condition that is met.
    met: Optional[int]
    state: SessionState


class SessionOutput(_SessionOutput, total=False):
    """The result of session.read."""

    #: The observation of the command, once it has ended.
    end: Dict[str, Any]


class SessionInput(TypedDict):
    """The result of session.write."""

    #: How many bytes have been taken, now or before.
    taken: int
    next: int
    #: Whether the session takes no more input.
    closed: bool


class SessionResized(TypedDict):
    """The result of session.resize."""

    #: Whether it was running.
    resized: bool


class SessionSignalled(TypedDict):
    """The result of session.signal."""

    #: Whether it was running.
    sent: bool


class ListedSession(TypedDict):
    """A session of session.list."""

    session: str
    name: Optional[str]
    workspace: str
    tenant: str
    state: SessionState
    command: str
    pty: Optional[TerminalSize]
    age_ms: int
    lifetime_ms: int
    #: The cursor of the oldest output that is kept.
    kept_from: int
    #: The end of the output.
    next: int
    #: TCP ports at which it listens; null: the host does not tell.
    ports: Optional[List[int]]


class SessionList(TypedDict):
    """The result of session.list."""

    sessions: List[ListedSession]


class CallOptions(TypedDict, total=False):
    """Options of a call: for the program around the model, never for the model."""

    #: The deadline; the shortest of this, the argument and the tenant's limit holds.
    timeout_ms: int
    #: Ends a command that neither writes nor reads for so long.
    idle_timeout_ms: int
    #: Output comes as it is written; start_call sets it.
    stream: bool
    #: For clients that read output behind its notification; this one does not.
    stream_bytes: bool
    #: What the command reads.
    stdin: str
    #: More input comes by tool.input while the command runs.
    stdin_stream: bool
    #: False: stdout and stderr of the observation say only how much was left out.
    keep_output: bool
    #: Further environment variables.
    env: Dict[str, str]
    #: The directory that the command begins in.
    cwd: str
    #: False: read_file returns the content unchanged.
    line_numbers: bool
    #: base64: content, stdin, stdout, stderr and data are base64.
    encoding: Encoding
    #: False: listings and searches include what git ignores.
    gitignore: bool
    #: False: a person wrote the command, and blocked_commands is not applied.
    blocked_list: bool
    #: The path as base64, for names that are not UTF-8.
    path_base64: str
    #: Whether a written file is on the disk before the answer.
    durability: Durability
    #: The call runs at most once; the same call with it gets the same result. Clients make one by themselves.
    key: str
    #: If the connection ends, the call with a key goes on for so long without anyone waiting.
    key_wait_ms: int
    #: The key of an earlier call in the workspace whose result is needed no more.
    forget_key: str
    #: A command that is not over after so long goes on as a session, and the call is answered.
    yield_ms: int
    #: preview: what the call has changed counts only when it is committed; it is told as diff.
    transaction: TransactionKind
    #: What a model is shown has at most so many bytes of each stream, file or list.
    max_output: int
    #: message: the result is the message for the model's conversation.
    reply: Reply


__all__ = ["AmbiguousMatch", "ApplyPatchOutput", "BackgroundCommand", "Busy", "CallOptions", "CancelResult",
           "Cancelled", "ChangeKind", "ChangedState", "Checkpoint", "CheckpointList", "Checkpointed",
           "CommandBlocked", "DirectoryMade", "Discarded", "DiskUse", "Durability", "EditFileOutput",
           "EditsOverlap", "Encoding", "EndedBy", "Entry", "EntryType", "ErrorCode", "ErrorObject",
           "ExecutionError", "Exported", "FileDescribed", "FileEntry", "FileEvent", "FileEventType", "FileList",
           "FileRead", "FileRemoved", "FileTooLarge", "FileWritten", "Forbidden", "Forked", "ForkedBy", "Format",
           "Frozen", "Home", "InputResult", "InvalidArguments", "InvalidPattern", "IsADirectory", "KeyConflict",
           "Kind", "Lease", "LeaseEnd", "LeaseEnded", "ListCommandsOutput", "ListDirectoryOutput", "ListedSession",
           "ListedWorkspace", "Match", "MemoryLimit", "Moved", "NameTooLong", "NetworkDenied", "NetworkUse",
           "NoMatch", "NoSpace", "NotADirectory", "NotARegularFile", "NotFound", "Observation", "OutcomeUnknown",
           "OutputLimit", "PatchOperation", "PatchedFile", "PathOutsideWorkspace", "PatternTooComplex",
           "PermissionDenied", "PreviewDiff", "ProcessLimit", "QuotaExceeded", "ReadFileOutput", "ReadOutputOutput",
           "RemovedTemplate", "Reply", "RunCommandOutput", "SearchFilesOutput", "SendInputOutput", "SessionChunk",
           "SessionInput", "SessionList", "SessionNotFound", "SessionOutput", "SessionResized", "SessionSignal",
           "SessionSignalled", "SessionState", "SessionTo", "ShuttingDown", "StaleFile", "StartedSession",
           "StopCommandOutput", "Stream", "SymlinkOutsideWorkspace", "Template", "TemplateList", "TerminalSize",
           "Timeout", "TooManyLinks", "ToolList", "ToolMessage", "TransactionKind", "UnknownTool", "Updated",
           "Usage", "WorkerLost", "Workspace", "WorkspaceChange", "WorkspaceDiff", "WorkspaceList",
           "WorkspaceNotFound", "WorkspaceState", "WriteFileOutput"]
