// SPDX-License-Identifier: Apache-2.0
// Generated from clients/description.json by clients/generate.py: do not change it here.

import { ServiceError } from "./errors.js";

/** One message, either way. */
export const LINE_BYTES = 33554432;
/** Values in a message of the service. */
export const VALUES = 2097152;
/** Requests that wait to be sent. */
export const UNSENT_BYTES = 67108864;
/** For the service to accept a connection. */
export const CONNECT_MS = 10000;
/** The longest deadline of a call. */
export const CALL_MS = 3600000;
export const READ_METHODS: ReadonlySet<unknown> = new Set(["file.list", "file.read", "file.stat", "file.watch", "session.list", "session.read", "template.list", "tools.list", "workspace.checkpoints", "workspace.diff", "workspace.list"]);
export const READ_TOOLS: ReadonlySet<unknown> = new Set(["list_commands", "list_directory", "read_file", "search_files"]);
export const LONG_METHODS: ReadonlySet<unknown> = new Set(["file.list", "file.make_directory", "file.move", "file.read", "file.remove", "file.stat", "file.watch", "file.write", "session.end", "session.read", "tool.call", "tool.input", "transaction.discard", "workspace.checkpoint", "workspace.diff", "workspace.fork", "workspace.freeze", "workspace.remove", "workspace.rollback"]);

export const JSON_ERRORS = {
	PARSE_ERROR: -32700,
	INVALID_REQUEST: -32600,
	METHOD_NOT_FOUND: -32601,
	INVALID_PARAMS: -32602,
	INTERNAL_ERROR: -32603,
	SERVER_ERROR: -32000,
} as const;

export type ErrorCode =
	| "PATH_OUTSIDE_WORKSPACE"
	| "SYMLINK_OUTSIDE_WORKSPACE"
	| "COMMAND_BLOCKED"
	| "FILE_TOO_LARGE"
	| "UNKNOWN_TOOL"
	| "INVALID_ARGUMENTS"
	| "NOT_FOUND"
	| "NOT_A_DIRECTORY"
	| "IS_A_DIRECTORY"
	| "NOT_A_REGULAR_FILE"
	| "PERMISSION_DENIED"
	| "TOO_MANY_LINKS"
	| "NAME_TOO_LONG"
	| "NO_SPACE"
	| "INVALID_PATTERN"
	| "PATTERN_TOO_COMPLEX"
	| "TIMEOUT"
	| "CANCELLED"
	| "OUTPUT_LIMIT"
	| "MEMORY_LIMIT"
	| "PROCESS_LIMIT"
	| "BUSY"
	| "QUOTA_EXCEEDED"
	| "FORBIDDEN"
	| "WORKSPACE_NOT_FOUND"
	| "WORKER_LOST"
	| "SHUTTING_DOWN"
	| "EXECUTION_ERROR"
	| "NO_MATCH"
	| "AMBIGUOUS_MATCH"
	| "EDITS_OVERLAP"
	| "STALE_FILE"
	| "KEY_CONFLICT"
	| "OUTCOME_UNKNOWN"
	| "SESSION_NOT_FOUND"
	| "MOVED"
	| "LEASE_ENDED";

export type EndedBy =
	| "exit"
	| "signal"
	| "timeout"
	| "idle_timeout"
	| "input"
	| "cancel"
	| "output_limit"
	| "memory"
	| "pids"
	| "admin"
	| "shutdown"
	| "lifetime"
	| "workspace_closed"
	| "disk"
	| "yield"
	| "lease"
	| "worker_lost";

export type PatchOperation =
	| "add"
	| "update"
	| "delete"
	| "move";

export type FileEventType =
	| "created"
	| "changed"
	| "attributes"
	| "removed"
	| "moved_from"
	| "moved_to"
	| "overflow"
	| "unwatched";

export type EntryType =
	| "file"
	| "directory"
	| "symlink"
	| "fifo"
	| "socket"
	| "character_device"
	| "block_device"
	| "unknown";

export type ChangeKind =
	| "added"
	| "changed"
	| "deleted";

export type Stream =
	| "stdout"
	| "stderr";

export type SessionState =
	| "starting"
	| "running"
	| "ending"
	| "ended";

export type SessionSignal =
	| "INT"
	| "TERM"
	| "HUP"
	| "QUIT"
	| "KILL"
	| "USR1"
	| "USR2";

export type SessionTo =
	| "all"
	| "foreground";

export type WorkspaceState =
	| "open"
	| "closed";

export type LeaseEnd =
	| "close"
	| "remove";

export type Kind =
	| "managed"
	| "directory"
	| "rootfs";

export type Home =
	| "kept"
	| "temporary";

export type ForkedBy =
	| "overlay"
	| "memory"
	| "copy";

export type Format =
	| "ollama"
	| "openai"
	| "mcp";

export type Encoding =
	| "utf-8"
	| "base64";

export type Durability =
	| "durable"
	| "fast";

export type TransactionKind =
	| "none"
	| "preview";

export type Reply =
	| "observation"
	| "message";

/** The path leads out of the workspace. */
export class PathOutsideWorkspace extends ServiceError {
}

/** A symbolic link in the path leads out of the workspace. */
export class SymlinkOutsideWorkspace extends ServiceError {
}

/** The command is on the list blocked_commands; the message says what to do instead. */
export class CommandBlocked extends ServiceError {
}

/** The file or the content is larger than the tool accepts. */
export class FileTooLarge extends ServiceError {
}

/** The tool does not exist. */
export class UnknownTool extends ServiceError {
}

/** The arguments do not fit the tool. */
export class InvalidArguments extends ServiceError {
}

/** The file or directory does not exist. */
export class NotFound extends ServiceError {
}

/** A component of the path is not a directory. */
export class NotADirectory extends ServiceError {
}

/** The path is a directory. */
export class IsADirectory extends ServiceError {
}

/** The path is a FIFO, a socket or a device. */
export class NotARegularFile extends ServiceError {
}

/** Permissions or a read-only file system do not allow it. */
export class PermissionDenied extends ServiceError {
}

/** The path contains too many symbolic links. */
export class TooManyLinks extends ServiceError {
}

/** The path or one of its components is too long. */
export class NameTooLong extends ServiceError {
}

/** The file system is full. The old content of the file is unchanged. */
export class NoSpace extends ServiceError {
}

/** The pattern is malformed. */
export class InvalidPattern extends ServiceError {
}

/** The pattern takes too long to match. */
export class PatternTooComplex extends ServiceError {
}

/** The call reached its deadline. */
export class Timeout extends ServiceError {
}

/** The client or an administrator ended the call. */
export class Cancelled extends ServiceError {
}

/** The command wrote more than its limit. */
export class OutputLimit extends ServiceError {
}

/** The command used more memory than its limit. */
export class MemoryLimit extends ServiceError {
}

/** The command started more processes than its limit. */
export class ProcessLimit extends ServiceError {
}

/** Too much at once; retry_after_ms says when to try again. */
export class Busy extends ServiceError {
}

/** The workspace takes as much on disk as it may, or the managed workspaces or the open ones are used up. */
export class QuotaExceeded extends ServiceError {
}

/** The user is not allowed to do this. */
export class Forbidden extends ServiceError {
}

/** The workspace does not exist, or is not open on this connection. */
export class WorkspaceNotFound extends ServiceError {
}

/** A process of the workspace died during the call. */
export class WorkerLost extends ServiceError {
}

/** The service takes no calls. */
export class ShuttingDown extends ServiceError {
}

/** Another failure of the service. */
export class ExecutionError extends ServiceError {
}

/** The old text of an edit is not in the file. */
export class NoMatch extends ServiceError {
}

/** The old text of an edit is in the file more than once. */
export class AmbiguousMatch extends ServiceError {
}

/** Two edits of a call change the same text. */
export class EditsOverlap extends ServiceError {
}

/** The file does not have the version that the call expects. */
export class StaleFile extends ServiceError {
}

/** The key belongs to another call. Nothing was run. */
export class KeyConflict extends ServiceError {
}

/** The result of the call with this key is lost, and it may have had effects. */
export class OutcomeUnknown extends ServiceError {
}

/** There is no such session, or it ended long ago. */
export class SessionNotFound extends ServiceError {
}

/** The work of the host goes on at another one, node. Nothing was run. */
export class Moved extends ServiceError {
}

/** The lease of the workspace has ended, and with it what ran there. */
export class LeaseEnded extends ServiceError {
}

/** The class of each code. */
export const ServiceErrors: Readonly<Record<string, typeof ServiceError>> = {
	PATH_OUTSIDE_WORKSPACE: PathOutsideWorkspace,
	SYMLINK_OUTSIDE_WORKSPACE: SymlinkOutsideWorkspace,
	COMMAND_BLOCKED: CommandBlocked,
	FILE_TOO_LARGE: FileTooLarge,
	UNKNOWN_TOOL: UnknownTool,
	INVALID_ARGUMENTS: InvalidArguments,
	NOT_FOUND: NotFound,
	NOT_A_DIRECTORY: NotADirectory,
	IS_A_DIRECTORY: IsADirectory,
	NOT_A_REGULAR_FILE: NotARegularFile,
	PERMISSION_DENIED: PermissionDenied,
	TOO_MANY_LINKS: TooManyLinks,
	NAME_TOO_LONG: NameTooLong,
	NO_SPACE: NoSpace,
	INVALID_PATTERN: InvalidPattern,
	PATTERN_TOO_COMPLEX: PatternTooComplex,
	TIMEOUT: Timeout,
	CANCELLED: Cancelled,
	OUTPUT_LIMIT: OutputLimit,
	MEMORY_LIMIT: MemoryLimit,
	PROCESS_LIMIT: ProcessLimit,
	BUSY: Busy,
	QUOTA_EXCEEDED: QuotaExceeded,
	FORBIDDEN: Forbidden,
	WORKSPACE_NOT_FOUND: WorkspaceNotFound,
	WORKER_LOST: WorkerLost,
	SHUTTING_DOWN: ShuttingDown,
	EXECUTION_ERROR: ExecutionError,
	NO_MATCH: NoMatch,
	AMBIGUOUS_MATCH: AmbiguousMatch,
	EDITS_OVERLAP: EditsOverlap,
	STALE_FILE: StaleFile,
	KEY_CONFLICT: KeyConflict,
	OUTCOME_UNKNOWN: OutcomeUnknown,
	SESSION_NOT_FOUND: SessionNotFound,
	MOVED: Moved,
	LEASE_ENDED: LeaseEnded,
};

/** A file, or a range of its lines. A binary file has path, size, binary and type only. */
export interface ReadFileOutput {
	path: string;
	/** The path's bytes, where path cannot show them. */
	path_base64?: string | undefined;
	/** The lines, numbered unless the option line_numbers is false. */
	content?: string | undefined;
	/** The number of lines in content. */
	lines?: number | undefined;
	/** The number of lines in the file; null if they were not counted. */
	total_lines?: number | null | undefined;
	/** The size of the file in bytes. */
	size: number;
	/** Whether requested lines are missing in content. */
	truncated?: boolean | undefined;
	/** utf-8, utf-8-replaced or base64. */
	encoding?: string | undefined;
	/** A digest of the file's content, if the whole file was read. */
	version?: string | undefined;
	/** True for a binary file. */
	binary?: boolean | undefined;
	/** The type of a binary file. */
	type?: string | undefined;
	/** What is not shown, and how to get it. */
	note?: string | undefined;
}

/** A file that was written. */
export interface WriteFileOutput {
	path: string;
	path_base64?: string | undefined;
	bytes_written: number;
	/** Whether the file did not exist before. */
	created: boolean;
	/** A digest of the file's content. */
	version?: string | undefined;
}

/** A file that was edited. */
export interface EditFileOutput {
	path: string;
	path_base64?: string | undefined;
	replacements: number;
	/** The first line that was changed. */
	first_line: number;
	size: number;
	/** A digest of the file's content. */
	version: string;
	/** The changes as diff -u shows them. */
	diff: string;
}

/** A file that a patch has changed. */
export interface PatchedFile {
	path: string;
	path_base64?: string | undefined;
	op: PatchOperation;
	/** The path before a move. */
	old_path?: string | undefined;
	/** Lines. */
	added: number;
	/** Lines. */
	removed: number;
	/** A digest of the file's content; a file that was deleted has none. */
	version?: string | undefined;
}

/** A patch of which all was done. */
export interface ApplyPatchOutput {
	/** In the order of the patch. */
	files: Array<PatchedFile>;
}

/** An entry of a directory. */
export interface Entry {
	path: string;
	path_base64?: string | undefined;
	type: EntryType;
	size: number;
	/** RFC 3339, UTC. */
	mtime: string;
	/** Of a symbolic link. */
	target?: string | undefined;
	/** Entries of a directory that are not listed. */
	entries_left_out?: number | undefined;
}

/** A directory, sorted by name. */
export interface ListDirectoryOutput {
	path: string;
	path_base64?: string | undefined;
	entries: Array<Entry>;
	count: number;
	/** Whether there are more entries. */
	truncated: boolean;
	/** Files and directories that git ignores. */
	gitignored?: number | undefined;
	/** The number of entries, if fewer are shown. */
	total?: number | undefined;
	/** What is not shown, and how to get it. */
	note?: string | undefined;
}

/** A command that ran, whatever its exit status. */
export interface RunCommandOutput {
	command: string;
	/** Null if a signal ended the shell. */
	exit_code: number | null;
	/** The signal's name, such as SIGKILL. */
	signal: string | null;
	/** Of long output, the beginning and the end. */
	stdout: string;
	stderr: string;
	/** How many bytes the command wrote. */
	stdout_bytes: number;
	stderr_bytes: number;
	/** Whether the middle of stdout or stderr is left out. */
	truncated: boolean;
	timed_out: boolean;
	ended_by: EndedBy;
	duration_ms: number;
	/** running: the command goes on as a session, and only the call has ended. */
	state?: string | undefined;
	/** The session as which it goes on. */
	session?: string | undefined;
	/** The cursor after the output so far. */
	next?: number | undefined;
	/** Its name, if it is in the background. */
	name?: string | undefined;
	/** base64, if the call had this option. */
	encoding?: string | undefined;
}

/** What a command in the background has written, and its state. */
export interface ReadOutputOutput {
	name: string | null;
	session: string;
	/** starting, running, ending or ended. */
	state: string;
	age_ms: number;
	/** The TCP ports at which it listens. */
	ports?: Array<number> | undefined;
	/** What it has written since it was read last. */
	output: string;
	/** Its length before anything is left out. */
	output_bytes: number;
	/** Whether its middle is left out. */
	truncated: boolean;
	/** How many bytes before it were not kept. */
	lost_bytes: number;
	/** How many bytes before it are not shown. */
	skipped_bytes?: number | undefined;
	/** The cursor after it. */
	next: number;
	/** base64, if the call had this option. */
	encoding?: string | undefined;
	/** The observation of run_command, once it has ended. */
	end?: Record<string, unknown> | undefined;
	/** Whether the text of wait_for was written. */
	found?: boolean | undefined;
}

/** What became of input for a command in the background. */
export interface SendInputOutput {
	name: string | null;
	session: string;
	/** starting, running, ending or ended. */
	state: string;
	age_ms: number;
	/** The TCP ports at which it listens. */
	ports?: Array<number> | undefined;
	/** What it has written since it was read last. */
	output: string;
	/** Its length before anything is left out. */
	output_bytes: number;
	/** Whether its middle is left out. */
	truncated: boolean;
	/** How many bytes before it were not kept. */
	lost_bytes: number;
	/** How many bytes before it are not shown. */
	skipped_bytes?: number | undefined;
	/** The cursor after it. */
	next: number;
	/** base64, if the call had this option. */
	encoding?: string | undefined;
	/** The observation of run_command, once it has ended. */
	end?: Record<string, unknown> | undefined;
	/** How many bytes were written. */
	taken: number;
	/** Whether it takes no more input. */
	input_closed: boolean;
}

/** A command in the background that has ended. */
export interface StopCommandOutput {
	name: string | null;
	session: string;
	/** starting, running, ending or ended. */
	state: string;
	age_ms: number;
	/** The TCP ports at which it listens. */
	ports?: Array<number> | undefined;
	/** What it has written since it was read last. */
	output: string;
	/** Its length before anything is left out. */
	output_bytes: number;
	/** Whether its middle is left out. */
	truncated: boolean;
	/** How many bytes before it were not kept. */
	lost_bytes: number;
	/** How many bytes before it are not shown. */
	skipped_bytes?: number | undefined;
	/** The cursor after it. */
	next: number;
	/** base64, if the call had this option. */
	encoding?: string | undefined;
	/** The observation of run_command, once it has ended. */
	end?: Record<string, unknown> | undefined;
}

/** A command in the background. */
export interface BackgroundCommand {
	name: string | null;
	session: string;
	/** starting, running, ending or ended. */
	state: string;
	age_ms: number;
	/** The TCP ports at which it listens. */
	ports?: Array<number> | undefined;
	command: string;
	/** Output that no tool has shown. */
	unread_bytes: number;
}

/** The commands in the background of a workspace. */
export interface ListCommandsOutput {
	commands: Array<BackgroundCommand>;
	count: number;
}

/** A line that matches. */
export interface Match {
	path: string;
	path_base64?: string | undefined;
	line: number;
	text: string;
	/** Whether the line is longer than text. */
	cut?: boolean | undefined;
	/** Whether the line only stands near one that matches. */
	context?: boolean | undefined;
}

/** Lines that match, sorted by name and line. */
export interface SearchFilesOutput {
	pattern: string;
	matches: Array<Match>;
	count: number;
	/** Whether there may be more matches. */
	truncated: boolean;
	files_searched: number;
	files_skipped: number;
	/** Files and directories that git ignores. */
	gitignored?: number | undefined;
	/** The number of matches, if fewer are shown. */
	total?: number | undefined;
	/** What is not shown, and how to get it. */
	note?: string | undefined;
}

/** Why a tool failed. The message tells a model what to do next. */
export interface ErrorObject {
	code: ErrorCode;
	message: string;
	/** With BUSY. */
	retry_after_ms?: number | undefined;
	/** Why an edit cannot be made: edit (of a patch file and hunk), kind, lines and closest. Or files with their states, of a patch that was cut short. */
	data?: Record<string, unknown> | undefined;
}

/** What a workspace takes on disk, and what it may take. */
export interface DiskUse {
	bytes: number;
	limit: number;
}

/** What a call used. */
export interface Usage {
	wall_us: number;
	user_us?: number | undefined;
	system_us?: number | undefined;
	max_rss_bytes?: number | undefined;
	/** Left over when the shell ended, and killed. */
	processes_ended?: number | undefined;
	peak_memory_bytes?: number | undefined;
	io_read_bytes?: number | undefined;
	io_write_bytes?: number | undefined;
	/** Of the workspace, after a write, if its disk is limited. */
	disk?: DiskUse | undefined;
}

/** Connections that were refused for one reason. */
export interface NetworkDenied {
	/** Empty for proxy_lost. */
	host: string;
	/** 0 for a look-up. */
	port: number;
	/** Such as not_allowed, private_address or dns_failed. */
	reason: string;
	count: number;
	/** connect, http, socks, dns or transparent. */
	via: string | null;
}

/** What a command did on the network. */
export interface NetworkUse {
	connections: number;
	bytes_in: number;
	bytes_out: number;
	denied: Array<NetworkDenied>;
	/** Refusals of further kinds. */
	denied_unlisted?: number | undefined;
	/** True: cloister-egress did not tell all in time. */
	incomplete?: boolean | undefined;
}

/** What an entry of a workspace was or is. */
export interface ChangedState {
	type: EntryType;
	/** 0 for a directory. */
	size: number;
	/** The permission bits, such as 0644. */
	mode: string;
}

/** A change of one entry since a checkpoint. */
export interface WorkspaceChange {
	path: string;
	path_base64?: string | undefined;
	change: ChangeKind;
	before: ChangedState | null;
	after: ChangedState | null;
	/** The change for git apply, if it was asked for and can be told. */
	patch?: string | undefined;
}

/** What a preview has changed: as the result of workspace.diff, or why that is not known. */
export interface PreviewDiff {
	/** The number of the checkpoint before it. */
	since?: number | undefined;
	/** In the order of their paths. */
	changes?: Array<WorkspaceChange> | undefined;
	/** Changes that are listed. */
	count?: number | undefined;
	/** Whether there are more. */
	truncated?: boolean | undefined;
	/** Listed or not, like the next two. */
	added?: number | undefined;
	changed?: number | undefined;
	deleted?: number | undefined;
	/** Entries that could not be compared. */
	unread?: number | undefined;
	/** Why it is not known; then nothing else is set. */
	error?: ErrorObject | undefined;
}

/** The result of a tool call. A tool that failed has an error; a command that was ended keeps its output. */
export interface Observation {
	success: boolean;
	tool: string;
	/** What the tool's method returns. */
	output: Record<string, unknown> | null;
	error: ErrorObject | null;
	usage: Usage;
	/** What a command did on the network, if its workspace has one. */
	network?: NetworkUse | undefined;
	/** How arguments were taken that were not as the tool describes them, and what a command tried in vain. */
	notes?: Array<string> | undefined;
	/** True: an earlier call with the key had this result. */
	replayed?: boolean | undefined;
	/** The change of a file by an earlier call with the key was found made. */
	resolved?: boolean | undefined;
	/** Of a call with a key: how long its result is kept. */
	key_horizon_ms?: number | undefined;
	/** What a preview has changed: it is to be decided on. */
	diff?: PreviewDiff | undefined;
}

/** The message for the model's conversation; content is the observation as a model reads it. */
export interface ToolMessage {
	role: string;
	tool_name: string;
	tool_call_id?: string | undefined;
	content: string;
	/** What a preview has changed, for the program. */
	diff?: PreviewDiff | undefined;
}

/** When a managed workspace is closed or removed, whatever runs in it. */
export interface Lease {
	/** RFC 3339, UTC. */
	expires_at: string;
	at_end: LeaseEnd;
}

/** A workspace that was opened. */
export interface Workspace {
	/** Its name: of a managed one the name, else the directory without symbolic links. */
	workspace: string;
	kind: Kind;
	/** The path at which commands see it. */
	root: string;
	tenant: string;
	/** Whether HOME of the commands is kept when the workspace's processes have ended. */
	home: Home;
	/** True: its commands run as user 0 of a user namespace of their own. */
	root_inside?: boolean | undefined;
	/** Of a managed workspace. */
	labels?: Record<string, string> | undefined;
	/** Likewise. */
	lease?: Lease | null | undefined;
	/** How long the results of calls with a key are kept; missing if calls cannot have one. */
	key_horizon_ms?: number | undefined;
	/** What is enforced, cloister-security(7). */
	isolation: Record<string, unknown>;
}

/** A workspace of workspace.list. */
export interface ListedWorkspace {
	workspace: string;
	kind: Kind;
	root: string;
	tenant: string;
	/** Whether its processes are running. */
	open: boolean;
	/** RFC 3339, UTC: when a managed workspace was made, if that is known. */
	created: string | null;
	/** What its files took on disk when they were measured last. */
	bytes: number | null;
	/** How many there were. */
	files: number | null;
	/** Of a managed workspace. */
	labels?: Record<string, string> | undefined;
	/** Likewise. */
	lease?: Lease | null | undefined;
}

/** The result of workspace.update. */
export interface Updated {
	workspace: string;
	labels: Record<string, string>;
	lease: Lease | null;
}

/** An entry of the workspace, as its commands see it. */
export interface FileEntry {
	path: string;
	/** The path's bytes, where path cannot show them. */
	path_base64?: string | undefined;
	type: EntryType;
	size: number;
	/** RFC 3339, UTC. */
	mtime: string;
	/** The same, in nanoseconds since 1970. */
	mtime_ns: number;
	/** The permission bits as octal digits. */
	mode: string;
	uid: number;
	gid: number;
	/** The name of uid, if it has one. */
	owner: string | null;
	group: string | null;
	/** The number of hard links. */
	links: number;
	/** Of a symbolic link. */
	target?: string | undefined;
	/** Extended attributes user.*, without that prefix, whose values are text. */
	attributes?: Record<string, string> | undefined;
	/** The others. */
	attributes_base64?: Record<string, string> | undefined;
	/** True: it has more of them. */
	attributes_cut?: boolean | undefined;
}

/** The result of file.stat and file.move. */
export interface FileDescribed {
	entry: FileEntry;
}

/** The result of file.list. */
export interface FileList {
	path: string;
	path_base64?: string | undefined;
	entries: Array<FileEntry>;
	count: number;
	/** Whether there are more entries. */
	truncated: boolean;
}

/** The result of file.make_directory. */
export interface DirectoryMade {
	/** Whether it did not exist before. */
	created: boolean;
	entry: FileEntry;
}

/** The result of file.remove. */
export interface FileRemoved {
	path: string;
	path_base64?: string | undefined;
	/** The number of entries that were removed. */
	removed: number;
}

/** The result of file.read. */
export interface FileRead {
	/** How many were read. */
	bytes: number;
	/** As it was when the file was opened. */
	entry: FileEntry;
}

/** A change in a watched directory. */
export interface FileEvent {
	/** overflow: events were lost, so list the directory again. */
	type: FileEventType;
	path: string;
	path_base64?: string | undefined;
	/** Whether the entry is one. */
	directory: boolean;
	/** The same for both ends of a move. */
	cookie?: number | undefined;
	/** With entries, if it is still there. */
	entry?: FileEntry | undefined;
}

/** The result of file.write. */
export interface FileWritten {
	path: string;
	path_base64?: string | undefined;
	bytes: number;
	/** Whether the file did not exist before. */
	created: boolean;
	/** A digest of the file's content. */
	version: string;
}

/** A checkpoint that was made or gone back to. */
export interface Checkpointed {
	workspace: string;
	/** Its number in the workspace. */
	checkpoint: number;
}

/** A checkpoint of a managed workspace. */
export interface Checkpoint {
	/** Its number in the workspace. */
	checkpoint: number;
	/** Empty if it was given none. */
	label: string;
	/** RFC 3339, UTC, if that is known. */
	created: string | null;
}

/** The result of workspace.checkpoints. */
export interface CheckpointList {
	workspace: string;
	/** The oldest first. */
	checkpoints: Array<Checkpoint>;
}

/** A preview that was discarded. */
export interface Discarded {
	workspace: string;
	/** Always true. */
	discarded: boolean;
}

/** A template that was made. */
export interface Frozen {
	workspace: string;
	template: string;
	/** Whether there was one of its name. */
	replaced: boolean;
}

/** Workspaces that were made of a template. */
export interface Forked {
	template: string;
	/** overlay, memory: what is not changed is the template's; copy: each has its own. */
	forked_by: ForkedBy;
	/** Why there was no room in memory for the template. */
	why_copied?: string | undefined;
	/** Their names. */
	workspaces: Array<string>;
}

/** A template of a tenant. */
export interface Template {
	template: string;
	/** Workspaces that show it below their own files. */
	forks: number;
	/** Whether a newer one of its name is forked now; its own forks go on. */
	replaced: boolean;
	/** The disk that it takes; null if it was not measured. */
	bytes: number | null;
}

/** The templates of a tenant. */
export interface TemplateList {
	tenant: string;
	templates: Array<Template>;
}

/** A template that was removed. */
export interface RemovedTemplate {
	tenant: string;
	removed: string;
}

/** The result of workspace.diff. */
export interface WorkspaceDiff {
	/** The number of the checkpoint. */
	since: number;
	/** In the order of their paths. */
	changes: Array<WorkspaceChange>;
	/** Changes that are listed. */
	count: number;
	/** Whether there are more. */
	truncated: boolean;
	/** Listed or not, like the next two. */
	added: number;
	changed: number;
	deleted: number;
	/** Entries that could not be compared. */
	unread: number;
	/** Changes of files that the patch does not have. */
	unpatched?: number | undefined;
}

/** The result of workspace.list. */
export interface WorkspaceList {
	workspaces: Array<ListedWorkspace>;
	/** If there are more. */
	next_cursor?: string | undefined;
}

/** The definitions of the tools. */
export interface ToolList {
	tools: Array<Record<string, unknown>>;
}

/** The result of tool.cancel. */
export interface CancelResult {
	/** Whether the call was in flight. */
	cancelled: boolean;
}

/** The result of tool.input. */
export interface InputResult {
	/** How many bytes the command has read. */
	taken: number;
	/** Whether the command has closed its standard input. */
	closed: boolean;
}

/** The size of a terminal in characters. */
export interface TerminalSize {
	rows: number;
	cols: number;
}

/** The result of session.start. */
export interface StartedSession {
	/** Its id. */
	session: string;
	name: string | null;
	workspace: string;
	/** Its terminal, if it has one. */
	pty: TerminalSize | null;
	lifetime_ms: number;
	/** How much of its output is kept. */
	output_bytes: number;
	/** Whether it was started before with this key. */
	replayed?: boolean | undefined;
}

/** The archive that export has written. */
export interface Exported {
	/** Files, directories and links. */
	entries: number;
	/** Of the archive. */
	bytes: number;
	/** Special files, which are not in it: the first hundred. */
	left_out: Array<string>;
}

/** Output of a session that one stream wrote. */
export interface SessionChunk {
	/** The cursor of its first byte. */
	at: number;
	stream: Stream;
	data: string;
}

/** The result of session.read. */
export interface SessionOutput {
	chunks: Array<SessionChunk>;
	/** The cursor to go on from. */
	next: number;
	/** How many bytes after the cursor are not kept any more. */
	lost_bytes: number;
	/** The index of the condition that is met. */
	met: number | null;
	state: SessionState;
	/** The observation of the command, once it has ended. */
	end?: Record<string, unknown> | undefined;
}

/** The result of session.write. */
export interface SessionInput {
	/** How many bytes have been taken, now or before. */
	taken: number;
	next: number;
	/** Whether the session takes no more input. */
	closed: boolean;
}

/** The result of session.resize. */
export interface SessionResized {
	/** Whether it was running. */
	resized: boolean;
}

/** The result of session.signal. */
export interface SessionSignalled {
	/** Whether it was running. */
	sent: boolean;
}

/** A session of session.list. */
export interface ListedSession {
	session: string;
	name: string | null;
	workspace: string;
	tenant: string;
	state: SessionState;
	command: string;
	pty: TerminalSize | null;
	age_ms: number;
	lifetime_ms: number;
	/** The cursor of the oldest output that is kept. */
	kept_from: number;
	/** The end of the output. */
	next: number;
	/** TCP ports at which it listens; null: the host does not tell. */
	ports: Array<number> | null;
}

/** The result of session.list. */
export interface SessionList {
	sessions: Array<ListedSession>;
}

/** Options of a call: for the program around the model, never for the model. */
export interface CallOptions {
	/** The deadline; the shortest of this, the argument and the tenant's limit holds. */
	timeout_ms?: number | undefined;
	/** Ends a command that neither writes nor reads for so long. */
	idle_timeout_ms?: number | undefined;
	/** Output comes as it is written; start_call sets it. */
	stream?: boolean | undefined;
	/** For clients that read output behind its notification; this one does not. */
	stream_bytes?: boolean | undefined;
	/** What the command reads. */
	stdin?: string | undefined;
	/** More input comes by tool.input while the command runs. */
	stdin_stream?: boolean | undefined;
	/** False: stdout and stderr of the observation say only how much was left out. */
	keep_output?: boolean | undefined;
	/** Further environment variables. */
	env?: Record<string, string> | undefined;
	/** The directory that the command begins in. */
	cwd?: string | undefined;
	/** False: read_file returns the content unchanged. */
	line_numbers?: boolean | undefined;
	/** base64: content, stdin, stdout, stderr and data are base64. */
	encoding?: Encoding | undefined;
	/** False: listings and searches include what git ignores. */
	gitignore?: boolean | undefined;
	/** False: a person wrote the command, and blocked_commands is not applied. */
	blocked_list?: boolean | undefined;
	/** The path as base64, for names that are not UTF-8. */
	path_base64?: string | undefined;
	/** Whether a written file is on the disk before the answer. */
	durability?: Durability | undefined;
	/** The call runs at most once; the same call with it gets the same result. Clients make one by themselves. */
	key?: string | undefined;
	/** If the connection ends, the call with a key goes on for so long without anyone waiting. */
	key_wait_ms?: number | undefined;
	/** The key of an earlier call in the workspace whose result is needed no more. */
	forget_key?: string | undefined;
	/** A command that is not over after so long goes on as a session, and the call is answered. */
	yield_ms?: number | undefined;
	/** preview: what the call has changed counts only when it is committed; it is told as diff. */
	transaction?: TransactionKind | undefined;
	/** What a model is shown has at most so many bytes of each stream, file or list. */
	max_output?: number | undefined;
	/** message: the result is the message for the model's conversation. */
	reply?: Reply | undefined;
}

/** What a tool's method takes besides the tool's arguments. */
export interface ToolCallSettings {
	/** A workspace that is open; otherwise the one that was opened last. */
	workspace?: string | undefined;
	options?: CallOptions | undefined;
	/** Aborted, it cancels the call. */
	signal?: AbortSignal | undefined;
}

/** A method for each tool and each method of the agent socket. */
export abstract class Methods {
	protected abstract native(method: string, params: object): Promise<unknown>;
	protected abstract tool(tool: string, args: object, settings: ToolCallSettings): Promise<unknown>;

	/**
	 * Reads a file or a range of its lines.
	 * @param params.start_line The first line, counted from 1.
	 * @param params.end_line The last line.
	 */
	async readFile(params: { path: string; start_line?: number | undefined; end_line?: number | undefined },
		settings: ToolCallSettings = {}): Promise<ReadFileOutput> {
		return (await this.tool("read_file", params, settings)) as ReadFileOutput;
	}

	/**
	 * Creates or replaces a file.
	 * @param params.content The whole new content.
	 * @param params.create_dirs Create missing parent directories; default true.
	 * @param params.expect The version that the file must have, or "absent".
	 */
	async writeFile(params: { path: string; content: string; create_dirs?: boolean | undefined; expect?: string | undefined },
		settings: ToolCallSettings = {}): Promise<WriteFileOutput> {
		return (await this.tool("write_file", params, settings)) as WriteFileOutput;
	}

	/**
	 * Replaces exact pieces of text in a file: all edits are made, or none.
	 * @param params.edits Each has old, new and optionally all.
	 * @param params.expect The version that the file must have.
	 */
	async editFile(params: { path: string; edits: Array<Record<string, unknown>>; expect?: string | undefined },
		settings: ToolCallSettings = {}): Promise<EditFileOutput> {
		return (await this.tool("edit_file", params, settings)) as EditFileOutput;
	}

	/**
	 * Adds, updates, moves and deletes files by one patch: all of it is done, or nothing.
	 * @param params.patch From "*** Begin Patch" to "*** End Patch".
	 */
	async applyPatch(params: { patch: string },
		settings: ToolCallSettings = {}): Promise<ApplyPatchOutput> {
		return (await this.tool("apply_patch", params, settings)) as ApplyPatchOutput;
	}

	/**
	 * Lists a directory.
	 * @param params.recursive List subdirectories too; default false.
	 * @param params.pattern A glob that the entries must match.
	 */
	async listDirectory(params: { path: string; recursive?: boolean | undefined; pattern?: string | undefined },
		settings: ToolCallSettings = {}): Promise<ListDirectoryOutput> {
		return (await this.tool("list_directory", params, settings)) as ListDirectoryOutput;
	}

	/**
	 * Runs a command with /bin/sh -c in the root of the workspace.
	 * @param params.timeout_ms A timeout in milliseconds; default 30000.
	 * @param params.background Let it run on as a session; default false.
	 * @param params.name Its name in the background.
	 */
	async runCommand(params: { command: string; timeout_ms?: number | undefined; background?: boolean | undefined; name?: string | undefined },
		settings: ToolCallSettings = {}): Promise<RunCommandOutput> {
		return (await this.tool("run_command", params, settings)) as RunCommandOutput;
	}

	/**
	 * Reads what a command in the background has written since it was read last.
	 * @param params.name The name of the command, or the id of its session.
	 * @param params.wait_for A text to wait for.
	 * @param params.wait_ms How many milliseconds to wait at most; default 10000.
	 * @param params.after A cursor to read from.
	 */
	async readOutput(params: { name: string; wait_for?: string | undefined; wait_ms?: number | undefined; after?: number | undefined },
		settings: ToolCallSettings = {}): Promise<ReadOutputOutput> {
		return (await this.tool("read_output", params, settings)) as ReadOutputOutput;
	}

	/**
	 * Writes to the input of a command in the background.
	 * @param params.name The name of the command, or the id of its session.
	 * @param params.newline Add a newline; default true.
	 * @param params.eof Close the input after it; default false.
	 */
	async sendInput(params: { name: string; input: string; newline?: boolean | undefined; eof?: boolean | undefined },
		settings: ToolCallSettings = {}): Promise<SendInputOutput> {
		return (await this.tool("send_input", params, settings)) as SendInputOutput;
	}

	/**
	 * Ends a command in the background and all that it started.
	 * @param params.name The name of the command, or the id of its session.
	 */
	async stopCommand(params: { name: string },
		settings: ToolCallSettings = {}): Promise<StopCommandOutput> {
		return (await this.tool("stop_command", params, settings)) as StopCommandOutput;
	}

	/** Lists the commands in the background of the workspace. */
	async listCommands(params: {  } = {},
		settings: ToolCallSettings = {}): Promise<ListCommandsOutput> {
		return (await this.tool("list_commands", params, settings)) as ListCommandsOutput;
	}

	/**
	 * Searches files for a regular expression.
	 * @param params.pattern The regular expression, in PCRE2's syntax.
	 * @param params.path The directory or file to search; default ".".
	 * @param params.file_pattern A glob that file names must match.
	 * @param params.max_results At most so many matches, from 1 to 50.
	 * @param params.context Lines before and after each match, from 0 to 10.
	 * @param params.offset Matches to pass over, from 0 to 10000.
	 * @param params.limit At most so many matches, from 1 to 1000, in place of max_results.
	 */
	async searchFiles(params: { pattern: string; path?: string | undefined; file_pattern?: string | undefined; max_results?: number | undefined; context?: number | undefined; offset?: number | undefined; limit?: number | undefined },
		settings: ToolCallSettings = {}): Promise<SearchFilesOutput> {
		return (await this.tool("search_files", params, settings)) as SearchFilesOutput;
	}

	/**
	 * Opens a workspace and makes it the connection's default: a managed one by its name, or a directory as root.
	 * @param params.root The absolute path of a directory.
	 * @param params.workspace The name of a managed workspace, which is made if it does not exist and create is not false.
	 * @param params.tenant The tenant to act for, if there are several.
	 * @param params.create False: a managed workspace that does not exist is WORKSPACE_NOT_FOUND.
	 * @param params.network allow: a list of the only hosts that may be reached, of those that the tenant may.
	 * @param params.moving The client moves workspaces to another host, and is served while a host's work moves.
	 * @param params.labels That the managed workspace keeps.
	 * @param params.lease ms from now on or expires_at (RFC 3339), and at_end: close or remove. Empty: none.
	 * @param params.shown_at Where commands see the managed workspace that is made; default /workspace.
	 * @param params.env Variables of all commands of the managed workspace.
	 */
	async workspaceOpen(params: { root?: string | undefined; workspace?: string | undefined; kind?: Kind | undefined; tenant?: string | undefined; create?: boolean | undefined; network?: Record<string, unknown> | undefined; moving?: boolean | undefined; labels?: Record<string, string> | undefined; lease?: Record<string, unknown> | undefined; shown_at?: string | undefined; env?: Record<string, string> | undefined } = {}): Promise<Workspace> {
		return (await this.native("workspace.open", params)) as Workspace;
	}

	/**
	 * Changes what a managed workspace keeps beside its files. What is left out stays.
	 * @param params.lease As in workspace.open.
	 * @param params.network As in workspace.open, but kept.
	 */
	async workspaceUpdate(params: { workspace?: string | undefined; tenant?: string | undefined; labels?: Record<string, string> | undefined; lease?: Record<string, unknown> | undefined; env?: Record<string, string> | undefined; network?: Record<string, unknown> | undefined } = {}): Promise<Updated> {
		return (await this.native("workspace.update", params)) as Updated;
	}

	/** Closes a workspace on this connection; calls in flight continue. Without a name: the default. */
	async workspaceClose(params: { workspace?: string | undefined; tenant?: string | undefined } = {}): Promise<void> {
		await this.native("workspace.close", params);
	}

	/**
	 * Lists the workspaces of the client's tenants, those that match and come after the cursor.
	 * @param params.labels Only managed workspaces that have all of them.
	 * @param params.state Only those whose processes run, or do not.
	 * @param params.cursor The next_cursor of an earlier answer.
	 * @param params.limit At most so many, from 1 to 10000.
	 */
	async workspaceList(params: { labels?: Record<string, string> | undefined; state?: WorkspaceState | undefined; cursor?: string | undefined; limit?: number | undefined } = {}): Promise<WorkspaceList> {
		return (await this.native("workspace.list", params)) as WorkspaceList;
	}

	/** Deletes a managed workspace with everything in it. */
	async workspaceRemove(params: { workspace: string; tenant?: string | undefined }): Promise<void> {
		await this.native("workspace.remove", params);
	}

	/**
	 * Keeps the present state of a managed workspace's files. Waits for calls in flight; ends its processes.
	 * @param params.label At most 80 bytes without control characters.
	 */
	async workspaceCheckpoint(params: { workspace?: string | undefined; label?: string | undefined } = {}): Promise<Checkpointed> {
		return (await this.native("workspace.checkpoint", params)) as Checkpointed;
	}

	/** Lists the checkpoints of a managed workspace, the oldest first. */
	async workspaceCheckpoints(params: { workspace?: string | undefined } = {}): Promise<CheckpointList> {
		return (await this.native("workspace.checkpoints", params)) as CheckpointList;
	}

	/**
	 * Lists what has changed in a managed workspace since a checkpoint.
	 * @param params.since The number of the checkpoint; default: the newest.
	 * @param params.patch Also as a patch for git apply.
	 */
	async workspaceDiff(params: { since?: number | undefined; patch?: boolean | undefined; workspace?: string | undefined } = {}): Promise<WorkspaceDiff> {
		return (await this.native("workspace.diff", params)) as WorkspaceDiff;
	}

	/**
	 * Describes an entry of the workspace.
	 * @param params.path_base64 The base64 of the path's bytes, in place of path.
	 * @param params.timeout_ms A deadline in milliseconds.
	 * @param params.follow Of a symbolic link, describe what it leads to; default true.
	 * @param params.attributes With extended attributes; default true.
	 */
	async fileStat(params: { path: string; path_base64?: string | undefined; timeout_ms?: number | undefined; follow?: boolean | undefined; attributes?: boolean | undefined; workspace?: string | undefined }): Promise<FileDescribed> {
		return (await this.native("file.stat", params)) as FileDescribed;
	}

	/**
	 * Lists a directory, sorted by name.
	 * @param params.path_base64 The base64 of the path's bytes, in place of path.
	 * @param params.timeout_ms A deadline in milliseconds.
	 * @param params.depth How many levels; 0 is all; default 1.
	 * @param params.limit At most so many entries, from 1 to 10000.
	 * @param params.attributes With extended attributes; default false.
	 */
	async fileList(params: { path: string; path_base64?: string | undefined; timeout_ms?: number | undefined; depth?: number | undefined; limit?: number | undefined; attributes?: boolean | undefined; workspace?: string | undefined }): Promise<FileList> {
		return (await this.native("file.list", params)) as FileList;
	}

	/**
	 * Makes a directory; one that exists stays as it is.
	 * @param params.path_base64 The base64 of the path's bytes, in place of path.
	 * @param params.timeout_ms A deadline in milliseconds.
	 * @param params.mode Its permission bits as octal digits.
	 * @param params.parents Make missing directories above it; default true.
	 */
	async fileMakeDirectory(params: { path: string; path_base64?: string | undefined; timeout_ms?: number | undefined; mode?: string | undefined; parents?: boolean | undefined; workspace?: string | undefined }): Promise<DirectoryMade> {
		return (await this.native("file.make_directory", params)) as DirectoryMade;
	}

	/**
	 * Gives an entry another path.
	 * @param params.to Its new path.
	 * @param params.path_base64 The base64 of the path's bytes, in place of path.
	 * @param params.timeout_ms A deadline in milliseconds.
	 * @param params.replace Replace a file that is there; default false.
	 * @param params.parents Make missing directories above the new path; default true.
	 */
	async fileMove(params: { path: string; to: string; path_base64?: string | undefined; timeout_ms?: number | undefined; replace?: boolean | undefined; parents?: boolean | undefined; workspace?: string | undefined }): Promise<FileDescribed> {
		return (await this.native("file.move", params)) as FileDescribed;
	}

	/**
	 * Removes an entry.
	 * @param params.path_base64 The base64 of the path's bytes, in place of path.
	 * @param params.timeout_ms A deadline in milliseconds.
	 * @param params.recursive A directory with everything in it; default false.
	 */
	async fileRemove(params: { path: string; path_base64?: string | undefined; timeout_ms?: number | undefined; recursive?: boolean | undefined; workspace?: string | undefined }): Promise<FileRemoved> {
		return (await this.native("file.remove", params)) as FileRemoved;
	}

	/**
	 * Gives a managed workspace's files the state of a checkpoint, and forgets later ones.
	 * @param params.to The number of the checkpoint.
	 */
	async workspaceRollback(params: { to: number; workspace?: string | undefined }): Promise<Checkpointed> {
		return (await this.native("workspace.rollback", params)) as Checkpointed;
	}

	/** Keeps what the preview of this connection has changed; the result names the checkpoint before it. */
	async transactionCommit(params: { workspace?: string | undefined } = {}): Promise<Checkpointed> {
		return (await this.native("transaction.commit", params)) as Checkpointed;
	}

	/** Undoes what the preview of this connection has changed; so does the end of the connection. */
	async transactionDiscard(params: { workspace?: string | undefined } = {}): Promise<Discarded> {
		return (await this.native("transaction.discard", params)) as Discarded;
	}

	/**
	 * Keeps a managed workspace's files as a template. Waits for calls in flight; calls wait while it copies.
	 * @param params.template The name that it gets.
	 * @param params.replace Take the place of a template of this name; its forks go on; default false.
	 */
	async workspaceFreeze(params: { template: string; workspace?: string | undefined; replace?: boolean | undefined }): Promise<Frozen> {
		return (await this.native("workspace.freeze", params)) as Frozen;
	}

	/**
	 * Makes managed workspaces that begin with a template's files.
	 * @param params.from The name of the template.
	 * @param params.count How many, from 1 to 256; default 1.
	 * @param params.prefix Their names are it, "-" and a number; default: the template's name.
	 * @param params.kind "rootfs": the template is a whole root, which commands see as /.
	 * @param params.tenant The tenant to act for, if there are several.
	 * @param params.labels That each of them keeps.
	 * @param params.lease As in workspace.open.
	 * @param params.shown_at Where commands see them; default /workspace.
	 * @param params.env Variables of all their commands.
	 */
	async workspaceFork(params: { from: string; count?: number | undefined; prefix?: string | undefined; kind?: string | undefined; tenant?: string | undefined; labels?: Record<string, string> | undefined; lease?: Record<string, unknown> | undefined; shown_at?: string | undefined; env?: Record<string, string> | undefined }): Promise<Forked> {
		return (await this.native("workspace.fork", params)) as Forked;
	}

	/**
	 * The templates of a tenant.
	 * @param params.tenant The tenant to act for, if there are several.
	 */
	async templateList(params: { tenant?: string | undefined } = {}): Promise<TemplateList> {
		return (await this.native("template.list", params)) as TemplateList;
	}

	/**
	 * Removes a template.
	 * @param params.tenant The tenant to act for, if there are several.
	 */
	async templateRemove(params: { template: string; tenant?: string | undefined }): Promise<RemovedTemplate> {
		return (await this.native("template.remove", params)) as RemovedTemplate;
	}

	/**
	 * The definitions of the tools for a model's API.
	 * @param params.format The default is ollama.
	 * @param params.limits With the limits of the tenant's calls.
	 */
	async toolsList(params: { format?: Format | undefined; limits?: boolean | undefined; workspace?: string | undefined } = {}): Promise<ToolList> {
		return (await this.native("tools.list", params)) as ToolList;
	}

	/**
	 * Starts a command that belongs to its workspace and goes on without this connection.
	 * @param params.name A name for people.
	 * @param params.env Variables of its environment.
	 * @param params.cwd The directory that it begins in.
	 * @param params.stdin session.write sends it input.
	 * @param params.pty rows and cols: it runs on a terminal of this size, on which session.write types.
	 * @param params.lifetime_ms At most so long; the tenant's limit holds too.
	 * @param params.blocked_list false: the tenant's list of blocked commands is not applied.
	 * @param params.output_bytes How much of its output is kept; default 1048576.
	 * @param params.key The same start with it gets the same session.
	 */
	async sessionStart(params: { command: string; workspace?: string | undefined; name?: string | undefined; env?: Record<string, unknown> | undefined; cwd?: string | undefined; stdin?: boolean | undefined; pty?: Record<string, unknown> | undefined; lifetime_ms?: number | undefined; blocked_list?: boolean | undefined; output_bytes?: number | undefined; key?: string | undefined }): Promise<StartedSession> {
		return (await this.native("session.start", params)) as StartedSession;
	}

	/**
	 * Reads a session's output from a cursor on, and waits if wait_ms says so.
	 * @param params.after The cursor; default 0.
	 * @param params.max_bytes Default 65536.
	 * @param params.until Conditions: contains, exit, port or quiet_ms.
	 */
	async sessionRead(params: { session: string; after?: number | undefined; max_bytes?: number | undefined; wait_ms?: number | undefined; until?: Array<Record<string, unknown>> | undefined; encoding?: Encoding | undefined }): Promise<SessionOutput> {
		return (await this.native("session.read", params)) as SessionOutput;
	}

	/**
	 * Sends input to a session that was started with stdin or pty.
	 * @param params.at The offset in all input: what was taken before is not written again.
	 */
	async sessionWrite(params: { session: string; at?: number | undefined; data?: string | undefined; encoding?: Encoding | undefined; eof?: boolean | undefined }): Promise<SessionInput> {
		return (await this.native("session.write", params)) as SessionInput;
	}

	/** Sets the size of the terminal of a session that was started with pty. */
	async sessionResize(params: { session: string; rows: number; cols: number }): Promise<SessionResized> {
		return (await this.native("session.resize", params)) as SessionResized;
	}

	/** Sends a signal to all processes of a session, or to those in the foreground of its terminal. */
	async sessionSignal(params: { session: string; signal: SessionSignal; to?: SessionTo | undefined }): Promise<SessionSignalled> {
		return (await this.native("session.signal", params)) as SessionSignalled;
	}

	/**
	 * Ends a session; the answer comes when nothing of it is left.
	 * @param params.grace_ms From SIGTERM to SIGKILL; default 5000.
	 */
	async sessionEnd(params: { session: string; grace_ms?: number | undefined }): Promise<Observation> {
		return (await this.native("session.end", params)) as Observation;
	}

	/** Lists the sessions that the client may use. */
	async sessionList(): Promise<SessionList> {
		return (await this.native("session.list", {})) as SessionList;
	}
}
