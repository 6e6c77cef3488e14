# SPDX-License-Identifier: Apache-2.0
"""Generated from clients/description.json by clients/generate.py: do not change it here."""

from typing import Any, Dict, List, Optional

from ._types import (ApplyPatchOutput, CallOptions, CheckpointList, Checkpointed, DirectoryMade, Discarded,
                     EditFileOutput, Encoding, FileDescribed, FileList, FileRemoved, Forked, Format, Frozen, Kind,
                     ListCommandsOutput, ListDirectoryOutput, Observation, ReadFileOutput, ReadOutputOutput,
                     RemovedTemplate, RunCommandOutput, SearchFilesOutput, SendInputOutput, SessionInput,
                     SessionList, SessionOutput, SessionResized, SessionSignal, SessionSignalled, SessionTo,
                     StartedSession, StopCommandOutput, TemplateList, ToolList, Updated, Workspace, WorkspaceDiff,
                     WorkspaceList, WorkspaceState, WriteFileOutput)


class Methods:
    """A method for each tool and each method of the agent socket."""

    def _native(self, method: str, params: Dict[str, Any]) -> Any:
        raise NotImplementedError

    def _tool(self, tool: str, arguments: Dict[str, Any], workspace: Optional[str],
              options: Optional[CallOptions]) -> Any:
        raise NotImplementedError

    def read_file(self, path: str, start_line: Optional[int] = None, end_line: Optional[int] = None, *,
                  workspace: Optional[str] = None, options: Optional[CallOptions] = None) -> ReadFileOutput:
        """Reads a file or a range of its lines.

        start_line: The first line, counted from 1.
        end_line: The last line.
        """
        result: ReadFileOutput = self._tool("read_file", {"path": path, "start_line": start_line, "end_line": end_line},
                                            workspace, options)
        return result

    def write_file(self, path: str, content: str, create_dirs: Optional[bool] = None, expect: Optional[str] = None, *,
                   workspace: Optional[str] = None, options: Optional[CallOptions] = None) -> WriteFileOutput:
        """Creates or replaces a file.

        content: The whole new content.
        create_dirs: Create missing parent directories; default true.
        expect: The version that the file must have, or "absent".
        """
        result: WriteFileOutput = self._tool("write_file", {"path": path, "content": content, "create_dirs": create_dirs,
                                             "expect": expect}, workspace, options)
        return result

    def edit_file(self, path: str, edits: List[Dict[str, Any]], expect: Optional[str] = None, *,
                  workspace: Optional[str] = None, options: Optional[CallOptions] = None) -> EditFileOutput:
        """Replaces exact pieces of text in a file: all edits are made, or none.

        edits: Each has old, new and optionally all.
        expect: The version that the file must have.
        """
        result: EditFileOutput = self._tool("edit_file", {"path": path, "edits": edits, "expect": expect}, workspace,
                                            options)
        return result

    def apply_patch(self, patch: str, *, workspace: Optional[str] = None,
                    options: Optional[CallOptions] = None) -> ApplyPatchOutput:
        """Adds, updates, moves and deletes files by one patch: all of it is done, or nothing.

        patch: From "*** Begin Patch" to "*** End Patch".
        """
        result: ApplyPatchOutput = self._tool("apply_patch", {"patch": patch}, workspace, options)
        return result

    def list_directory(self, path: str, recursive: Optional[bool] = None, pattern: Optional[str] = None, *,
                       workspace: Optional[str] = None, options: Optional[CallOptions] = None) -> ListDirectoryOutput:
        """Lists a directory.

        recursive: List subdirectories too; default false.
        pattern: A glob that the entries must match.
        """
        result: ListDirectoryOutput = self._tool("list_directory", {"path": path, "recursive": recursive,
                                                 "pattern": pattern}, workspace, options)
        return result

    def run_command(self, command: str, timeout_ms: Optional[int] = None, background: Optional[bool] = None,
                    name: Optional[str] = None, *, workspace: Optional[str] = None,
                    options: Optional[CallOptions] = None) -> RunCommandOutput:
        """Runs a command with /bin/sh -c in the root of the workspace.

        timeout_ms: A timeout in milliseconds; default 30000.
        background: Let it run on as a session; default false.
        name: Its name in the background.
        """
        result: RunCommandOutput = self._tool("run_command", {"command": command, "timeout_ms": timeout_ms,
                                              "background": background, "name": name}, workspace, options)
        return result

    def read_output(self, name: str, wait_for: Optional[str] = None, wait_ms: Optional[int] = None,
                    after: Optional[int] = None, *, workspace: Optional[str] = None,
                    options: Optional[CallOptions] = None) -> ReadOutputOutput:
        """Reads what a command in the background has written since it was read last.

        name: The name of the command, or the id of its session.
        wait_for: A text to wait for.
        wait_ms: How many milliseconds to wait at most; default 10000.
        after: A cursor to read from.
        """
        result: ReadOutputOutput = self._tool("read_output", {"name": name, "wait_for": wait_for, "wait_ms": wait_ms,
                                              "after": after}, workspace, options)
        return result

    def send_input(self, name: str, input: str, newline: Optional[bool] = None, eof: Optional[bool] = None, *,
                   workspace: Optional[str] = None, options: Optional[CallOptions] = None) -> SendInputOutput:
        """Writes to the input of a command in the background.

        name: The name of the command, or the id of its session.
        newline: Add a newline; default true.
        eof: Close the input after it; default false.
        """
        result: SendInputOutput = self._tool("send_input", {"name": name, "input": input, "newline": newline, "eof": eof},
                                             workspace, options)
        return result

    def stop_command(self, name: str, *, workspace: Optional[str] = None,
                     options: Optional[CallOptions] = None) -> StopCommandOutput:
        """Ends a command in the background and all that it started.

        name: The name of the command, or the id of its session.
        """
        result: StopCommandOutput = self._tool("stop_command", {"name": name}, workspace, options)
        return result

    def list_commands(self, *, workspace: Optional[str] = None,
                      options: Optional[CallOptions] = None) -> ListCommandsOutput:
        """Lists the commands in the background of the workspace."""
        result: ListCommandsOutput = self._tool("list_commands", {}, workspace, options)
        return result

    def search_files(self, pattern: str, path: Optional[str] = None, file_pattern: Optional[str] = None,
                     max_results: Optional[int] = None, context: Optional[int] = None, offset: Optional[int] = None,
                     limit: Optional[int] = None, *, workspace: Optional[str] = None,
                     options: Optional[CallOptions] = None) -> SearchFilesOutput:
        """Searches files for a regular expression.

        pattern: The regular expression, in PCRE2's syntax.
        path: The directory or file to search; default ".".
        file_pattern: A glob that file names must match.
        max_results: At most so many matches, from 1 to 50.
        context: Lines before and after each match, from 0 to 10.
        offset: Matches to pass over, from 0 to 10000.
        limit: At most so many matches, from 1 to 1000, in place of max_results.
        """
        result: SearchFilesOutput = self._tool("search_files", {"pattern": pattern, "path": path,
                                               "file_pattern": file_pattern, "max_results": max_results, "context": context,
                                               "offset": offset, "limit": limit}, workspace, options)
        return result

    def workspace_open(self, root: Optional[str] = None, workspace: Optional[str] = None, kind: Optional[Kind] = None,
                       tenant: Optional[str] = None, create: Optional[bool] = None,
                       network: Optional[Dict[str, Any]] = None, moving: Optional[bool] = None,
                       labels: Optional[Dict[str, str]] = None, lease: Optional[Dict[str, Any]] = None,
                       shown_at: Optional[str] = None, env: Optional[Dict[str, str]] = None) -> Workspace:
        """Opens a workspace and makes it the connection's default: a managed one by its name, or a directory as root.

        root: The absolute path of a directory.
        workspace: The name of a managed workspace, which is made if it does not exist and create is not false.
        tenant: The tenant to act for, if there are several.
        create: False: a managed workspace that does not exist is WORKSPACE_NOT_FOUND.
        network: allow: a list of the only hosts that may be reached, of those that the tenant may.
        moving: The client moves workspaces to another host, and is served while a host's work moves.
        labels: That the managed workspace keeps.
        lease: ms from now on or expires_at (RFC 3339), and at_end: close or remove. Empty: none.
        shown_at: Where commands see the managed workspace that is made; default /workspace.
        env: Variables of all commands of the managed workspace.
        """
        result: Workspace = self._native("workspace.open", {"root": root, "workspace": workspace, "kind": kind,
                                         "tenant": tenant, "create": create, "network": network, "moving": moving,
                                         "labels": labels, "lease": lease, "shown_at": shown_at, "env": env})
        return result

    def workspace_update(self, workspace: Optional[str] = None, tenant: Optional[str] = None,
                         labels: Optional[Dict[str, str]] = None, lease: Optional[Dict[str, Any]] = None,
                         env: Optional[Dict[str, str]] = None, network: Optional[Dict[str, Any]] = None) -> Updated:
        """Changes what a managed workspace keeps beside its files. What is left out stays.

        lease: As in workspace.open.
        network: As in workspace.open, but kept.
        """
        result: Updated = self._native("workspace.update", {"workspace": workspace, "tenant": tenant, "labels": labels,
                                       "lease": lease, "env": env, "network": network})
        return result

    def workspace_close(self, workspace: Optional[str] = None, tenant: Optional[str] = None) -> None:
        """Closes a workspace on this connection; calls in flight continue. Without a name: the default."""
        self._native("workspace.close", {"workspace": workspace, "tenant": tenant})

    def workspace_list(self, labels: Optional[Dict[str, str]] = None, state: Optional[WorkspaceState] = None,
                       cursor: Optional[str] = None, limit: Optional[int] = None) -> WorkspaceList:
        """Lists the workspaces of the client's tenants, those that match and come after the cursor.

        labels: Only managed workspaces that have all of them.
        state: Only those whose processes run, or do not.
        cursor: The next_cursor of an earlier answer.
        limit: At most so many, from 1 to 10000.
        """
        result: WorkspaceList = self._native("workspace.list", {"labels": labels, "state": state, "cursor": cursor,
                                             "limit": limit})
        return result

    def workspace_remove(self, workspace: str, tenant: Optional[str] = None) -> None:
        """Deletes a managed workspace with everything in it."""
        self._native("workspace.remove", {"workspace": workspace, "tenant": tenant})

    def workspace_checkpoint(self, workspace: Optional[str] = None, label: Optional[str] = None) -> Checkpointed:
        """Keeps the present state of a managed workspace's files. Waits for calls in flight; ends its processes.

        label: At most 80 bytes without control characters.
        """
        result: Checkpointed = self._native("workspace.checkpoint", {"workspace": workspace, "label": label})
        return result

    def workspace_checkpoints(self, workspace: Optional[str] = None) -> CheckpointList:
        """Lists the checkpoints of a managed workspace, the oldest first."""
        result: CheckpointList = self._native("workspace.checkpoints", {"workspace": workspace})
        return result

    def workspace_diff(self, since: Optional[int] = None, patch: Optional[bool] = None,
                       workspace: Optional[str] = None) -> WorkspaceDiff:
        """Lists what has changed in a managed workspace since a checkpoint.

        since: The number of the checkpoint; default: the newest.
        patch: Also as a patch for git apply.
        """
        result: WorkspaceDiff = self._native("workspace.diff", {"since": since, "patch": patch, "workspace": workspace})
        return result

    def file_stat(self, path: str, path_base64: Optional[str] = None, timeout_ms: Optional[int] = None,
                  follow: Optional[bool] = None, attributes: Optional[bool] = None,
                  workspace: Optional[str] = None) -> FileDescribed:
        """Describes an entry of the workspace.

        path_base64: The base64 of the path's bytes, in place of path.
        timeout_ms: A deadline in milliseconds.
        follow: Of a symbolic link, describe what it leads to; default true.
        attributes: With extended attributes; default true.
        """
        result: FileDescribed = self._native("file.stat", {"path": path, "path_base64": path_base64,
                                             "timeout_ms": timeout_ms, "follow": follow, "attributes": attributes,
                                             "workspace": workspace})
        return result

    def file_list(self, path: str, path_base64: Optional[str] = None, timeout_ms: Optional[int] = None,
                  depth: Optional[int] = None, limit: Optional[int] = None, attributes: Optional[bool] = None,
                  workspace: Optional[str] = None) -> FileList:
        """Lists a directory, sorted by name.

        path_base64: The base64 of the path's bytes, in place of path.
        timeout_ms: A deadline in milliseconds.
        depth: How many levels; 0 is all; default 1.
        limit: At most so many entries, from 1 to 10000.
        attributes: With extended attributes; default false.
        """
        result: FileList = self._native("file.list", {"path": path, "path_base64": path_base64, "timeout_ms": timeout_ms,
                                        "depth": depth, "limit": limit, "attributes": attributes, "workspace": workspace})
        return result

    def file_make_directory(self, path: str, path_base64: Optional[str] = None, timeout_ms: Optional[int] = None,
                            mode: Optional[str] = None, parents: Optional[bool] = None,
                            workspace: Optional[str] = None) -> DirectoryMade:
        """Makes a directory; one that exists stays as it is.

        path_base64: The base64 of the path's bytes, in place of path.
        timeout_ms: A deadline in milliseconds.
        mode: Its permission bits as octal digits.
        parents: Make missing directories above it; default true.
        """
        result: DirectoryMade = self._native("file.make_directory", {"path": path, "path_base64": path_base64,
                                             "timeout_ms": timeout_ms, "mode": mode, "parents": parents,
                                             "workspace": workspace})
        return result

    def file_move(self, path: str, to: str, path_base64: Optional[str] = None, timeout_ms: Optional[int] = None,
                  replace: Optional[bool] = None, parents: Optional[bool] = None,
                  workspace: Optional[str] = None) -> FileDescribed:
        """Gives an entry another path.

        to: Its new path.
        path_base64: The base64 of the path's bytes, in place of path.
        timeout_ms: A deadline in milliseconds.
        replace: Replace a file that is there; default false.
        parents: Make missing directories above the new path; default true.
        """
        result: FileDescribed = self._native("file.move", {"path": path, "to": to, "path_base64": path_base64,
                                             "timeout_ms": timeout_ms, "replace": replace, "parents": parents,
                                             "workspace": workspace})
        return result

    def file_remove(self, path: str, path_base64: Optional[str] = None, timeout_ms: Optional[int] = None,
                    recursive: Optional[bool] = None, workspace: Optional[str] = None) -> FileRemoved:
        """Removes an entry.

        path_base64: The base64 of the path's bytes, in place of path.
        timeout_ms: A deadline in milliseconds.
        recursive: A directory with everything in it; default false.
        """
        result: FileRemoved = self._native("file.remove", {"path": path, "path_base64": path_base64,
                                           "timeout_ms": timeout_ms, "recursive": recursive, "workspace": workspace})
        return result

    def workspace_rollback(self, to: int, workspace: Optional[str] = None) -> Checkpointed:
        """Gives a managed workspace's files the state of a checkpoint, and forgets later ones.

        to: The number of the checkpoint.
        """
        result: Checkpointed = self._native("workspace.rollback", {"to": to, "workspace": workspace})
        return result

    def transaction_commit(self, workspace: Optional[str] = None) -> Checkpointed:
        """Keeps what the preview of this connection has changed; the result names the checkpoint before it."""
        result: Checkpointed = self._native("transaction.commit", {"workspace": workspace})
        return result

    def transaction_discard(self, workspace: Optional[str] = None) -> Discarded:
        """Undoes what the preview of this connection has changed; so does the end of the connection."""
        result: Discarded = self._native("transaction.discard", {"workspace": workspace})
        return result

    def workspace_freeze(self, template: str, workspace: Optional[str] = None,
                         replace: Optional[bool] = None) -> Frozen:
        """Keeps a managed workspace's files as a template. Waits for calls in flight; calls wait while it copies.

        template: The name that it gets.
        replace: Take the place of a template of this name; its forks go on; default false.
        """
        result: Frozen = self._native("workspace.freeze", {"template": template, "workspace": workspace,
                                      "replace": replace})
        return result

    def workspace_fork(self, from_: str, count: Optional[int] = None, prefix: Optional[str] = None,
                       kind: Optional[str] = None, tenant: Optional[str] = None,
                       labels: Optional[Dict[str, str]] = None, lease: Optional[Dict[str, Any]] = None,
                       shown_at: Optional[str] = None, env: Optional[Dict[str, str]] = None) -> Forked:
        """Makes managed workspaces that begin with a template's files.

        from_: The name of the template.
        count: How many, from 1 to 256; default 1.
        prefix: Their names are it, "-" and a number; default: the template's name.
        kind: "rootfs": the template is a whole root, which commands see as /.
        tenant: The tenant to act for, if there are several.
        labels: That each of them keeps.
        lease: As in workspace.open.
        shown_at: Where commands see them; default /workspace.
        env: Variables of all their commands.
        """
        result: Forked = self._native("workspace.fork", {"from": from_, "count": count, "prefix": prefix, "kind": kind,
                                      "tenant": tenant, "labels": labels, "lease": lease, "shown_at": shown_at, "env": env})
        return result

    def template_list(self, tenant: Optional[str] = None) -> TemplateList:
        """The templates of a tenant.

        tenant: The tenant to act for, if there are several.
        """
        result: TemplateList = self._native("template.list", {"tenant": tenant})
        return result

    def template_remove(self, template: str, tenant: Optional[str] = None) -> RemovedTemplate:
        """Removes a template.

        tenant: The tenant to act for, if there are several.
        """
        result: RemovedTemplate = self._native("template.remove", {"template": template, "tenant": tenant})
        return result

    def tools_list(self, format: Optional[Format] = None, limits: Optional[bool] = None,
                   workspace: Optional[str] = None) -> ToolList:
        """The definitions of the tools for a model's API.

        format: The default is ollama.
        limits: With the limits of the tenant's calls.
        """
        result: ToolList = self._native("tools.list", {"format": format, "limits": limits, "workspace": workspace})
        return result

    def session_start(self, command: str, workspace: Optional[str] = None, name: Optional[str] = None,
                      env: Optional[Dict[str, Any]] = None, cwd: Optional[str] = None, stdin: Optional[bool] = None,
                      pty: Optional[Dict[str, Any]] = None, lifetime_ms: Optional[int] = None,
                      blocked_list: Optional[bool] = None, output_bytes: Optional[int] = None,
                      key: Optional[str] = None) -> StartedSession:
        """Starts a command that belongs to its workspace and goes on without this connection.

        name: A name for people.
        env: Variables of its environment.
        cwd: The directory that it begins in.
        stdin: session.write sends it input.
        pty: rows and cols: it runs on a terminal of this size, on which session.write types.
        lifetime_ms: At most so long; the tenant's limit holds too.
        blocked_list: false: the tenant's list of blocked commands is not applied.
        output_bytes: How much of its output is kept; default 1048576.
        key: The same start with it gets the same session.
        """
        result: StartedSession = self._native("session.start", {"command": command, "workspace": workspace, "name": name,
                                              "env": env, "cwd": cwd, "stdin": stdin, "pty": pty,
                                              "lifetime_ms": lifetime_ms, "blocked_list": blocked_list,
                                              "output_bytes": output_bytes, "key": key})
        return result

    def session_read(self, session: str, after: Optional[int] = None, max_bytes: Optional[int] = None,
                     wait_ms: Optional[int] = None, until: Optional[List[Dict[str, Any]]] = None,
                     encoding: Optional[Encoding] = None) -> SessionOutput:
        """Reads a session's output from a cursor on, and waits if wait_ms says so.

        after: The cursor; default 0.
        max_bytes: Default 65536.
        until: Conditions: contains, exit, port or quiet_ms.
        """
        result: SessionOutput = self._native("session.read", {"session": session, "after": after, "max_bytes": max_bytes,
                                             "wait_ms": wait_ms, "until": until, "encoding": encoding})
        return result

    def session_write(self, session: str, at: Optional[int] = None, data: Optional[str] = None,
                      encoding: Optional[Encoding] = None, eof: Optional[bool] = None) -> SessionInput:
        """Sends input to a session that was started with stdin or pty.

        at: The offset in all input: what was taken before is not written again.
        """
        result: SessionInput = self._native("session.write", {"session": session, "at": at, "data": data,
                                            "encoding": encoding, "eof": eof})
        return result

    def session_resize(self, session: str, rows: int, cols: int) -> SessionResized:
        """Sets the size of the terminal of a session that was started with pty."""
        result: SessionResized = self._native("session.resize", {"session": session, "rows": rows, "cols": cols})
        return result

    def session_signal(self, session: str, signal: SessionSignal, to: Optional[SessionTo] = None) -> SessionSignalled:
        """Sends a signal to all processes of a session, or to those in the foreground of its terminal."""
        result: SessionSignalled = self._native("session.signal", {"session": session, "signal": signal, "to": to})
        return result

    def session_end(self, session: str, grace_ms: Optional[int] = None) -> Observation:
        """Ends a session; the answer comes when nothing of it is left.

        grace_ms: From SIGTERM to SIGKILL; default 5000.
        """
        result: Observation = self._native("session.end", {"session": session, "grace_ms": grace_ms})
        return result

    def session_list(self) -> SessionList:
        """Lists the sessions that the client may use."""
        result: SessionList = self._native("session.list", {})
        return result


class AsyncMethods:
    """A method for each tool and each method of the agent socket, for asyncio."""

    async def _native(self, method: str, params: Dict[str, Any]) -> Any:
        raise NotImplementedError

    async def _tool(self, tool: str, arguments: Dict[str, Any], workspace: Optional[str],
                    options: Optional[CallOptions]) -> Any:
        raise NotImplementedError

    async def read_file(self, path: str, start_line: Optional[int] = None, end_line: Optional[int] = None, *,
                        workspace: Optional[str] = None, options: Optional[CallOptions] = None) -> ReadFileOutput:
        """Reads a file or a range of its lines.

        start_line: The first line, counted from 1.
        end_line: The last line.
        """
        result: ReadFileOutput = await self._tool("read_file", {"path": path, "start_line": start_line,
                                                  "end_line": end_line}, workspace, options)
        return result

    async def write_file(self, path: str, content: str, create_dirs: Optional[bool] = None,
                         expect: Optional[str] = None, *, workspace: Optional[str] = None,
                         options: Optional[CallOptions] = None) -> WriteFileOutput:
        """Creates or replaces a file.

        content: The whole new content.
        create_dirs: Create missing parent directories; default true.
        expect: The version that the file must have, or "absent".
        """
        result: WriteFileOutput = await self._tool("write_file", {"path": path, "content": content,
                                                   "create_dirs": create_dirs, "expect": expect}, workspace, options)
        return result

    async def edit_file(self, path: str, edits: List[Dict[str, Any]], expect: Optional[str] = None, *,
                        workspace: Optional[str] = None, options: Optional[CallOptions] = None) -> EditFileOutput:
        """Replaces exact pieces of text in a file: all edits are made, or none.

        edits: Each has old, new and optionally all.
        expect: The version that the file must have.
        """
        result: EditFileOutput = await self._tool("edit_file", {"path": path, "edits": edits, "expect": expect}, workspace,
                                                  options)
        return result

    async def apply_patch(self, patch: str, *, workspace: Optional[str] = None,
                          options: Optional[CallOptions] = None) -> ApplyPatchOutput:
        """Adds, updates, moves and deletes files by one patch: all of it is done, or nothing.

        patch: From "*** Begin Patch" to "*** End Patch".
        """
        result: ApplyPatchOutput = await self._tool("apply_patch", {"patch": patch}, workspace, options)
        return result

    async def list_directory(self, path: str, recursive: Optional[bool] = None, pattern: Optional[str] = None, *,
                             workspace: Optional[str] = None,
                             options: Optional[CallOptions] = None) -> ListDirectoryOutput:
        """Lists a directory.

        recursive: List subdirectories too; default false.
        pattern: A glob that the entries must match.
        """
        result: ListDirectoryOutput = await self._tool("list_directory", {"path": path, "recursive": recursive,
                                                       "pattern": pattern}, workspace, options)
        return result

    async def run_command(self, command: str, timeout_ms: Optional[int] = None, background: Optional[bool] = None,
                          name: Optional[str] = None, *, workspace: Optional[str] = None,
                          options: Optional[CallOptions] = None) -> RunCommandOutput:
        """Runs a command with /bin/sh -c in the root of the workspace.

        timeout_ms: A timeout in milliseconds; default 30000.
        background: Let it run on as a session; default false.
        name: Its name in the background.
        """
        result: RunCommandOutput = await self._tool("run_command", {"command": command, "timeout_ms": timeout_ms,
                                                    "background": background, "name": name}, workspace, options)
        return result

    async def read_output(self, name: str, wait_for: Optional[str] = None, wait_ms: Optional[int] = None,
                          after: Optional[int] = None, *, workspace: Optional[str] = None,
                          options: Optional[CallOptions] = None) -> ReadOutputOutput:
        """Reads what a command in the background has written since it was read last.

        name: The name of the command, or the id of its session.
        wait_for: A text to wait for.
        wait_ms: How many milliseconds to wait at most; default 10000.
        after: A cursor to read from.
        """
        result: ReadOutputOutput = await self._tool("read_output", {"name": name, "wait_for": wait_for, "wait_ms": wait_ms,
                                                    "after": after}, workspace, options)
        return result

    async def send_input(self, name: str, input: str, newline: Optional[bool] = None, eof: Optional[bool] = None, *,
                         workspace: Optional[str] = None, options: Optional[CallOptions] = None) -> SendInputOutput:
        """Writes to the input of a command in the background.

        name: The name of the command, or the id of its session.
        newline: Add a newline; default true.
        eof: Close the input after it; default false.
        """
        result: SendInputOutput = await self._tool("send_input", {"name": name, "input": input, "newline": newline,
                                                   "eof": eof}, workspace, options)
        return result

    async def stop_command(self, name: str, *, workspace: Optional[str] = None,
                           options: Optional[CallOptions] = None) -> StopCommandOutput:
        """Ends a command in the background and all that it started.

        name: The name of the command, or the id of its session.
        """
        result: StopCommandOutput = await self._tool("stop_command", {"name": name}, workspace, options)
        return result

    async def list_commands(self, *, workspace: Optional[str] = None,
                            options: Optional[CallOptions] = None) -> ListCommandsOutput:
        """Lists the commands in the background of the workspace."""
        result: ListCommandsOutput = await self._tool("list_commands", {}, workspace, options)
        return result

    async def search_files(self, pattern: str, path: Optional[str] = None, file_pattern: Optional[str] = None,
                           max_results: Optional[int] = None, context: Optional[int] = None,
                           offset: Optional[int] = None, limit: Optional[int] = None, *,
                           workspace: Optional[str] = None, options: Optional[CallOptions] = None) -> SearchFilesOutput:
        """Searches files for a regular expression.

        pattern: The regular expression, in PCRE2's syntax.
        path: The directory or file to search; default ".".
        file_pattern: A glob that file names must match.
        max_results: At most so many matches, from 1 to 50.
        context: Lines before and after each match, from 0 to 10.
        offset: Matches to pass over, from 0 to 10000.
        limit: At most so many matches, from 1 to 1000, in place of max_results.
        """
        result: SearchFilesOutput = await self._tool("search_files", {"pattern": pattern, "path": path,
                                                     "file_pattern": file_pattern, "max_results": max_results,
                                                     "context": context, "offset": offset, "limit": limit}, workspace,
                                                     options)
        return result

    async def workspace_open(self, root: Optional[str] = None, workspace: Optional[str] = None,
                             kind: Optional[Kind] = None, tenant: Optional[str] = None, create: Optional[bool] = None,
                             network: Optional[Dict[str, Any]] = None, moving: Optional[bool] = None,
                             labels: Optional[Dict[str, str]] = None, lease: Optional[Dict[str, Any]] = None,
                             shown_at: Optional[str] = None, env: Optional[Dict[str, str]] = None) -> Workspace:
        """Opens a workspace and makes it the connection's default: a managed one by its name, or a directory as root.

        root: The absolute path of a directory.
        workspace: The name of a managed workspace, which is made if it does not exist and create is not false.
        tenant: The tenant to act for, if there are several.
        create: False: a managed workspace that does not exist is WORKSPACE_NOT_FOUND.
        network: allow: a list of the only hosts that may be reached, of those that the tenant may.
        moving: The client moves workspaces to another host, and is served while a host's work moves.
        labels: That the managed workspace keeps.
        lease: ms from now on or expires_at (RFC 3339), and at_end: close or remove. Empty: none.
        shown_at: Where commands see the managed workspace that is made; default /workspace.
        env: Variables of all commands of the managed workspace.
        """
        result: Workspace = await self._native("workspace.open", {"root": root, "workspace": workspace, "kind": kind,
                                               "tenant": tenant, "create": create, "network": network, "moving": moving,
                                               "labels": labels, "lease": lease, "shown_at": shown_at, "env": env})
        return result

    async def workspace_update(self, workspace: Optional[str] = None, tenant: Optional[str] = None,
                               labels: Optional[Dict[str, str]] = None, lease: Optional[Dict[str, Any]] = None,
                               env: Optional[Dict[str, str]] = None,
                               network: Optional[Dict[str, Any]] = None) -> Updated:
        """Changes what a managed workspace keeps beside its files. What is left out stays.

        lease: As in workspace.open.
        network: As in workspace.open, but kept.
        """
        result: Updated = await self._native("workspace.update", {"workspace": workspace, "tenant": tenant,
                                             "labels": labels, "lease": lease, "env": env, "network": network})
        return result

    async def workspace_close(self, workspace: Optional[str] = None, tenant: Optional[str] = None) -> None:
        """Closes a workspace on this connection; calls in flight continue. Without a name: the default."""
        await self._native("workspace.close", {"workspace": workspace, "tenant": tenant})

    async def workspace_list(self, labels: Optional[Dict[str, str]] = None, state: Optional[WorkspaceState] = None,
                             cursor: Optional[str] = None, limit: Optional[int] = None) -> WorkspaceList:
        """Lists the workspaces of the client's tenants, those that match and come after the cursor.

        labels: Only managed workspaces that have all of them.
        state: Only those whose processes run, or do not.
        cursor: The next_cursor of an earlier answer.
        limit: At most so many, from 1 to 10000.
        """
        result: WorkspaceList = await self._native("workspace.list", {"labels": labels, "state": state, "cursor": cursor,
                                                   "limit": limit})
        return result

    async def workspace_remove(self, workspace: str, tenant: Optional[str] = None) -> None:
        """Deletes a managed workspace with everything in it."""
        await self._native("workspace.remove", {"workspace": workspace, "tenant": tenant})

    async def workspace_checkpoint(self, workspace: Optional[str] = None, label: Optional[str] = None) -> Checkpointed:
        """Keeps the present state of a managed workspace's files. Waits for calls in flight; ends its processes.

        label: At most 80 bytes without control characters.
        """
        result: Checkpointed = await self._native("workspace.checkpoint", {"workspace": workspace, "label": label})
        return result

    async def workspace_checkpoints(self, workspace: Optional[str] = None) -> CheckpointList:
        """Lists the checkpoints of a managed workspace, the oldest first."""
        result: CheckpointList = await self._native("workspace.checkpoints", {"workspace": workspace})
        return result

    async def workspace_diff(self, since: Optional[int] = None, patch: Optional[bool] = None,
                             workspace: Optional[str] = None) -> WorkspaceDiff:
        """Lists what has changed in a managed workspace since a checkpoint.

        since: The number of the checkpoint; default: the newest.
        patch: Also as a patch for git apply.
        """
        result: WorkspaceDiff = await self._native("workspace.diff", {"since": since, "patch": patch,
                                                   "workspace": workspace})
        return result

    async def file_stat(self, path: str, path_base64: Optional[str] = None, timeout_ms: Optional[int] = None,
                        follow: Optional[bool] = None, attributes: Optional[bool] = None,
                        workspace: Optional[str] = None) -> FileDescribed:
        """Describes an entry of the workspace.

        path_base64: The base64 of the path's bytes, in place of path.
        timeout_ms: A deadline in milliseconds.
        follow: Of a symbolic link, describe what it leads to; default true.
        attributes: With extended attributes; default true.
        """
        result: FileDescribed = await self._native("file.stat", {"path": path, "path_base64": path_base64,
                                                   "timeout_ms": timeout_ms, "follow": follow, "attributes": attributes,
                                                   "workspace": workspace})
        return result

    async def file_list(self, path: str, path_base64: Optional[str] = None, timeout_ms: Optional[int] = None,
                        depth: Optional[int] = None, limit: Optional[int] = None, attributes: Optional[bool] = None,
                        workspace: Optional[str] = None) -> FileList:
        """Lists a directory, sorted by name.

        path_base64: The base64 of the path's bytes, in place of path.
        timeout_ms: A deadline in milliseconds.
        depth: How many levels; 0 is all; default 1.
        limit: At most so many entries, from 1 to 10000.
        attributes: With extended attributes; default false.
        """
        result: FileList = await self._native("file.list", {"path": path, "path_base64": path_base64,
                                              "timeout_ms": timeout_ms, "depth": depth, "limit": limit,
                                              "attributes": attributes, "workspace": workspace})
        return result

    async def file_make_directory(self, path: str, path_base64: Optional[str] = None, timeout_ms: Optional[int] = None,
                                  mode: Optional[str] = None, parents: Optional[bool] = None,
                                  workspace: Optional[str] = None) -> DirectoryMade:
        """Makes a directory; one that exists stays as it is.

        path_base64: The base64 of the path's bytes, in place of path.
        timeout_ms: A deadline in milliseconds.
        mode: Its permission bits as octal digits.
        parents: Make missing directories above it; default true.
        """
        result: DirectoryMade = await self._native("file.make_directory", {"path": path, "path_base64": path_base64,
                                                   "timeout_ms": timeout_ms, "mode": mode, "parents": parents,
                                                   "workspace": workspace})
        return result

    async def file_move(self, path: str, to: str, path_base64: Optional[str] = None, timeout_ms: Optional[int] = None,
                        replace: Optional[bool] = None, parents: Optional[bool] = None,
                        workspace: Optional[str] = None) -> FileDescribed:
        """Gives an entry another path.

        to: Its new path.
        path_base64: The base64 of the path's bytes, in place of path.
        timeout_ms: A deadline in milliseconds.
        replace: Replace a file that is there; default false.
        parents: Make missing directories above the new path; default true.
        """
        result: FileDescribed = await self._native("file.move", {"path": path, "to": to, "path_base64": path_base64,
                                                   "timeout_ms": timeout_ms, "replace": replace, "parents": parents,
                                                   "workspace": workspace})
        return result

    async def file_remove(self, path: str, path_base64: Optional[str] = None, timeout_ms: Optional[int] = None,
                          recursive: Optional[bool] = None, workspace: Optional[str] = None) -> FileRemoved:
        """Removes an entry.

        path_base64: The base64 of the path's bytes, in place of path.
        timeout_ms: A deadline in milliseconds.
        recursive: A directory with everything in it; default false.
        """
        result: FileRemoved = await self._native("file.remove", {"path": path, "path_base64": path_base64,
                                                 "timeout_ms": timeout_ms, "recursive": recursive, "workspace": workspace})
        return result

    async def workspace_rollback(self, to: int, workspace: Optional[str] = None) -> Checkpointed:
        """Gives a managed workspace's files the state of a checkpoint, and forgets later ones.

        to: The number of the checkpoint.
        """
        result: Checkpointed = await self._native("workspace.rollback", {"to": to, "workspace": workspace})
        return result

    async def transaction_commit(self, workspace: Optional[str] = None) -> Checkpointed:
        """Keeps what the preview of this connection has changed; the result names the checkpoint before it."""
        result: Checkpointed = await self._native("transaction.commit", {"workspace": workspace})
        return result

    async def transaction_discard(self, workspace: Optional[str] = None) -> Discarded:
        """Undoes what the preview of this connection has changed; so does the end of the connection."""
        result: Discarded = await self._native("transaction.discard", {"workspace": workspace})
        return result

    async def workspace_freeze(self, template: str, workspace: Optional[str] = None,
                               replace: Optional[bool] = None) -> Frozen:
        """Keeps a managed workspace's files as a template. Waits for calls in flight; calls wait while it copies.

        template: The name that it gets.
        replace: Take the place of a template of this name; its forks go on; default false.
        """
        result: Frozen = await self._native("workspace.freeze", {"template": template, "workspace": workspace,
                                            "replace": replace})
        return result

    async def workspace_fork(self, from_: str, count: Optional[int] = None, prefix: Optional[str] = None,
                             kind: Optional[str] = None, tenant: Optional[str] = None,
                             labels: Optional[Dict[str, str]] = None, lease: Optional[Dict[str, Any]] = None,
                             shown_at: Optional[str] = None, env: Optional[Dict[str, str]] = None) -> Forked:
        """Makes managed workspaces that begin with a template's files.

        from_: The name of the template.
        count: How many, from 1 to 256; default 1.
        prefix: Their names are it, "-" and a number; default: the template's name.
        kind: "rootfs": the template is a whole root, which commands see as /.
        tenant: The tenant to act for, if there are several.
        labels: That each of them keeps.
        lease: As in workspace.open.
        shown_at: Where commands see them; default /workspace.
        env: Variables of all their commands.
        """
        result: Forked = await self._native("workspace.fork", {"from": from_, "count": count, "prefix": prefix,
                                            "kind": kind, "tenant": tenant, "labels": labels, "lease": lease,
                                            "shown_at": shown_at, "env": env})
        return result

    async def template_list(self, tenant: Optional[str] = None) -> TemplateList:
        """The templates of a tenant.

        tenant: The tenant to act for, if there are several.
        """
        result: TemplateList = await self._native("template.list", {"tenant": tenant})
        return result

    async def template_remove(self, template: str, tenant: Optional[str] = None) -> RemovedTemplate:
        """Removes a template.

        tenant: The tenant to act for, if there are several.
        """
        result: RemovedTemplate = await self._native("template.remove", {"template": template, "tenant": tenant})
        return result

    async def tools_list(self, format: Optional[Format] = None, limits: Optional[bool] = None,
                         workspace: Optional[str] = None) -> ToolList:
        """The definitions of the tools for a model's API.

        format: The default is ollama.
        limits: With the limits of the tenant's calls.
        """
        result: ToolList = await self._native("tools.list", {"format": format, "limits": limits, "workspace": workspace})
        return result

    async def session_start(self, command: str, workspace: Optional[str] = None, name: Optional[str] = None,
                            env: Optional[Dict[str, Any]] = None, cwd: Optional[str] = None,
                            stdin: Optional[bool] = None, pty: Optional[Dict[str, Any]] = None,
                            lifetime_ms: Optional[int] = None, blocked_list: Optional[bool] = None,
                            output_bytes: Optional[int] = None, key: Optional[str] = None) -> StartedSession:
        """Starts a command that belongs to its workspace and goes on without this connection.

        name: A name for people.
        env: Variables of its environment.
        cwd: The directory that it begins in.
        stdin: session.write sends it input.
        pty: rows and cols: it runs on a terminal of this size, on which session.write types.
        lifetime_ms: At most so long; the tenant's limit holds too.
        blocked_list: false: the tenant's list of blocked commands is not applied.
        output_bytes: How much of its output is kept; default 1048576.
        key: The same start with it gets the same session.
        """
        result: StartedSession = await self._native("session.start", {"command": command, "workspace": workspace,
                                                    "name": name, "env": env, "cwd": cwd, "stdin": stdin, "pty": pty,
                                                    "lifetime_ms": lifetime_ms, "blocked_list": blocked_list,
                                                    "output_bytes": output_bytes, "key": key})
        return result

    async def session_read(self, session: str, after: Optional[int] = None, max_bytes: Optional[int] = None,
                           wait_ms: Optional[int] = None, until: Optional[List[Dict[str, Any]]] = None,
                           encoding: Optional[Encoding] = None) -> SessionOutput:
        """Reads a session's output from a cursor on, and waits if wait_ms says so.

        after: The cursor; default 0.
        max_bytes: Default 65536.
        until: Conditions: contains, exit, port or quiet_ms.
        """
        result: SessionOutput = await self._native("session.read", {"session": session, "after": after,
                                                   "max_bytes": max_bytes, "wait_ms": wait_ms, "until": until,
                                                   "encoding": encoding})
        return result

    async def session_write(self, session: str, at: Optional[int] = None, data: Optional[str] = None,
                            encoding: Optional[Encoding] = None, eof: Optional[bool] = None) -> SessionInput:
        """Sends input to a session that was started with stdin or pty.

        at: The offset in all input: what was taken before is not written again.
        """
        result: SessionInput = await self._native("session.write", {"session": session, "at": at, "data": data,
                                                  "encoding": encoding, "eof": eof})
        return result

    async def session_resize(self, session: str, rows: int, cols: int) -> SessionResized:
        """Sets the size of the terminal of a session that was started with pty."""
        result: SessionResized = await self._native("session.resize", {"session": session, "rows": rows, "cols": cols})
        return result

    async def session_signal(self, session: str, signal: SessionSignal,
                             to: Optional[SessionTo] = None) -> SessionSignalled:
        """Sends a signal to all processes of a session, or to those in the foreground of its terminal."""
        result: SessionSignalled = await self._native("session.signal", {"session": session, "signal": signal, "to": to})
        return result

    async def session_end(self, session: str, grace_ms: Optional[int] = None) -> Observation:
        """Ends a session; the answer comes when nothing of it is left.

        grace_ms: From SIGTERM to SIGKILL; default 5000.
        """
        result: Observation = await self._native("session.end", {"session": session, "grace_ms": grace_ms})
        return result

    async def session_list(self) -> SessionList:
        """Lists the sessions that the client may use."""
        result: SessionList = await self._native("session.list", {})
        return result
