# SPDX-License-Identifier: Apache-2.0
"""Faults of the kind that people make. Each: the file, the text that stands there once, and what stands there instead."""

FAULTS = {
    "wrong-error-code": ("worker/files/walk/path_walk.c", "return TOOL_SYMLINK_OUTSIDE_WORKSPACE;\n\t\twhile", "return TOOL_PATH_OUTSIDE_WORKSPACE;\n\t\twhile"),
    "lost-kill": ("worker/commands/command_init.c", "\tRAW2(SYS_kill, -1, SIGKILL);\n\tdo {", "\tdo {"),
    "skipped-landlock": ("worker/commands/command_init.c", "if (r >= 0 && init->report->ruleset >= 0)\n\t\tr = RAW2(SYS_landlock_restrict_self",
                         "if (r >= 0 && init->report->ruleset > 9999)\n\t\tr = RAW2(SYS_landlock_restrict_self"),
    "leaked-descriptor": ("worker/files/file_read.c", "\t_cleanup_close_ int fd = -1;\n\tstruct line_scan scan", "\tint fd = -1;\n\tstruct line_scan scan"),
    "range-off-by-one": ("worker/files/file_read.c", "scan.stop = request->end_line + 1;", "scan.stop = request->end_line;"),
    "observer-may-kill": ("supervisor/control/control_endpoint.c", '{"call", "session", "workspace", "tenant"},\n\t\t.role = CONTROL_ROLE_ADMIN}',
                          '{"call", "session", "workspace", "tenant"},\n\t\t.role = CONTROL_ROLE_OBSERVER}'),
    "forgotten-key": ("supervisor/call/keys/key_table.c", "[KEY_LEAVE] = NEVER, [KEY_START] = KEY_ENDED, [KEY_EXPIRE] = KEY_GONE",
                      "[KEY_LEAVE] = NEVER, [KEY_START] = KEY_GONE, [KEY_EXPIRE] = KEY_GONE"),
    "writable-root": ("worker/commands/worker_setup.c", '\t{"make the root read-only", root_make_read_only},\n', ""),
    "full-bounding-set": ("worker/commands/worker_setup.c", '\t{"empty the capability bounding set", setup_empty_bounding_set},\n', ""),
    "no-deadline": ("supervisor/call/call_acts.c", "[CALL_CANCEL] = ask_to_end, [CALL_OVERDUE] = reach_deadline", "[CALL_CANCEL] = ask_to_end, [CALL_OVERDUE] = stay"),
}
