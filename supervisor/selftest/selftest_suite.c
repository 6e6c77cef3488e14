// SPDX-License-Identifier: Apache-2.0
/*
 * Data of cloisterd: known attacks, grouped by the rows of SECURITY.md, and the answers that must
 * come.
 */
#include "supervisor/selftest/selftest_suite.h"

#include "common/cleanup.h"

/* Makes links, a FIFO and a configuration file, as a hostile owner of the workspace would. */
const char selftest_set_up[] =
	"mkdir inside && echo secret >inside/f && touch set-id && chmod 755 set-id && "
	"ln -s /etc/passwd out-file && ln -s / out-dir && ln -s ../../.. up && "
	"ln -s /proc/self/root proc-root && ln -s loop loop && ln -s /nonexistent/x dangling && "
	"ln -s /workspace/inside in-abs && ln -s /workspace-evil/x out-prefix && mkfifo fifo && "
	"printf 'export PLANTED=yes\\n' | tee .profile .bashrc .shrc .env \"$HOME/.profile\" "
	"\"$HOME/.bashrc\" >/dev/null && printf '#!/bin/sh\\n' >ls && chmod 700 ls && "
	"printf '[tenant .selftest]\\nenvironment = PLANTED=yes\\n' >cloister.conf && chmod 700 "
	"probe";

const char selftest_tear_down[] = "chmod 700 . && rm -rf -- * .[!.]*";

/* clang-format off */
const struct selftest_probe selftest_suite[] = {
	{"path-prefix", "read-etc", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"/etc/passwd\"}}", "PATH_OUTSIDE_WORKSPACE"},
	{"path-prefix", "read-prefix-sibling", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"/workspace-evil/x\"}}", "PATH_OUTSIDE_WORKSPACE"},
	{"path-prefix", "read-prefix-plural", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"/workspaces/x\"}}", "PATH_OUTSIDE_WORKSPACE"},
	{"path-prefix", "read-parent", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"../x\"}}", "PATH_OUTSIDE_WORKSPACE"},
	{"path-prefix", "read-parent-inside", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"inside/../../x\"}}", "PATH_OUTSIDE_WORKSPACE"},
	{"path-prefix", "read-absolute-parent", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"/workspace/../etc/passwd\"}}", "PATH_OUTSIDE_WORKSPACE"},
	{"path-prefix", "read-double-slash", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"//etc/passwd\"}}", "PATH_OUTSIDE_WORKSPACE"},
	{"path-prefix", "read-backslash", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"..\\\\..\\\\etc\\\\passwd\"}}", "PATH_OUTSIDE_WORKSPACE"},
	{"path-prefix", "read-drive", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"C:\\\\Windows\\\\win.ini\"}}", "PATH_OUTSIDE_WORKSPACE"},
	{"path-prefix", "read-percent", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"%2e%2e/x\"}}", "NOT_FOUND"},
	{"path-prefix", "read-tilde", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"~/.ssh/id_rsa\"}}", "NOT_FOUND"},
	{"path-prefix", "read-nul", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"inside/f\\u0000.png\"}}", "INVALID_ARGUMENTS"},
	{"path-prefix", "read-empty", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"\"}}", "INVALID_ARGUMENTS"},
	{"path-prefix", "read-proc", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"/proc/self/environ\"}}", "PATH_OUTSIDE_WORKSPACE"},
	{"path-prefix", "read-base64-parent", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\".\"},\"options\":{\"path_base64\":\"Li4veA==\"}}", "PATH_OUTSIDE_WORKSPACE"},
	{"path-prefix", "write-parent", PROBE_CALL, "{\"tool\":\"write_file\",\"arguments\":{\"path\":\"../x\",\"content\":\"x\"}}", "PATH_OUTSIDE_WORKSPACE"},
	{"path-prefix", "write-absolute", PROBE_CALL, "{\"tool\":\"write_file\",\"arguments\":{\"path\":\"/etc/cron.d/x\",\"content\":\"x\"}}", "PATH_OUTSIDE_WORKSPACE"},
	{"path-prefix", "write-sibling", PROBE_CALL, "{\"tool\":\"write_file\",\"arguments\":{\"path\":\"/workspace-evil/x\",\"content\":\"x\"}}", "PATH_OUTSIDE_WORKSPACE"},
	{"path-prefix", "list-root", PROBE_CALL, "{\"tool\":\"list_directory\",\"arguments\":{\"path\":\"/\"}}", "PATH_OUTSIDE_WORKSPACE"},
	{"path-prefix", "search-root", PROBE_CALL, "{\"tool\":\"search_files\",\"arguments\":{\"pattern\":\"x\",\"path\":\"/\"}}", "PATH_OUTSIDE_WORKSPACE"},
	{"path-prefix", "read-inside", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"/workspace/inside/f\"}}", "OK"},

	{"symlink", "read-link", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"out-file\"}}", "SYMLINK_OUTSIDE_WORKSPACE"},
	{"symlink", "read-through-link", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"out-dir/etc/passwd\"}}", "SYMLINK_OUTSIDE_WORKSPACE"},
	{"symlink", "read-up-link", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"up/etc/passwd\"}}", "SYMLINK_OUTSIDE_WORKSPACE|PATH_OUTSIDE_WORKSPACE"},
	{"symlink", "read-magic-link", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"proc-root/etc/passwd\"}}", "SYMLINK_OUTSIDE_WORKSPACE"},
	{"symlink", "read-sibling-link", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"out-prefix\"}}", "SYMLINK_OUTSIDE_WORKSPACE"},
	{"symlink", "read-loop", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"loop\"}}", "TOO_MANY_LINKS"},
	{"symlink", "read-link-inside", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"in-abs/f\"}}", "OK"},
	{"symlink", "write-link", PROBE_CALL, "{\"tool\":\"write_file\",\"arguments\":{\"path\":\"out-file\",\"content\":\"x\"}}", "SYMLINK_OUTSIDE_WORKSPACE"},
	{"symlink", "write-through-link", PROBE_CALL, "{\"tool\":\"write_file\",\"arguments\":{\"path\":\"out-dir/tmp/x\",\"content\":\"x\"}}", "SYMLINK_OUTSIDE_WORKSPACE"},
	{"symlink", "write-dangling", PROBE_CALL, "{\"tool\":\"write_file\",\"arguments\":{\"path\":\"dangling\",\"content\":\"x\"}}", "SYMLINK_OUTSIDE_WORKSPACE"},
	{"symlink", "write-sibling-link", PROBE_CALL, "{\"tool\":\"write_file\",\"arguments\":{\"path\":\"out-prefix\",\"content\":\"x\"}}", "SYMLINK_OUTSIDE_WORKSPACE"},
	{"symlink", "list-link", PROBE_CALL, "{\"tool\":\"list_directory\",\"arguments\":{\"path\":\"out-dir\"}}", "SYMLINK_OUTSIDE_WORKSPACE"},
	{"symlink", "list-follows-none", PROBE_COUNT, "{\"tool\":\"list_directory\",\"arguments\":{\"path\":\".\",\"recursive\":true,\"pattern\":\"passwd\"}}", "OK 0"},
	{"symlink", "search-link", PROBE_CALL, "{\"tool\":\"search_files\",\"arguments\":{\"pattern\":\"root\",\"path\":\"out-dir\"}}", "SYMLINK_OUTSIDE_WORKSPACE"},
	{"symlink", "search-follows-none", PROBE_COUNT, "{\"tool\":\"search_files\",\"arguments\":{\"pattern\":\"^root:\",\"path\":\".\"}}", "OK 0"},

	{"special-file", "read-fifo", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"fifo\"}}", "NOT_A_REGULAR_FILE"},
	{"special-file", "write-fifo", PROBE_CALL, "{\"tool\":\"write_file\",\"arguments\":{\"path\":\"fifo\",\"content\":\"x\"}}", "NOT_A_REGULAR_FILE"},
	{"special-file", "read-directory", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"inside\"}}", "IS_A_DIRECTORY"},
	{"special-file", "search-fifo", PROBE_CALL, "{\"tool\":\"search_files\",\"arguments\":{\"pattern\":\"x\",\"path\":\"fifo\"}}", "NOT_A_REGULAR_FILE"},
	{"special-file", "mknod", PROBE_PROGRAM, NULL, "EPERM|EACCES"},
	{"special-file", "dev-mem", PROBE_PROGRAM, NULL, "ENOENT"},
	{"special-file", "dev-kmsg", PROBE_PROGRAM, NULL, "ENOENT"},
	{"special-file", "dev-kvm", PROBE_PROGRAM, NULL, "ENOENT"},
	{"special-file", "dev-fuse", PROBE_PROGRAM, NULL, "ENOENT"},
	{"special-file", "dev-net-tun", PROBE_PROGRAM, NULL, "ENOENT"},
	{"special-file", "dev-console", PROBE_PROGRAM, NULL, "ENOENT"},
	{"special-file", "dev-create", PROBE_PROGRAM, NULL, "EROFS"},
	{"special-file", "mounts-nodev", PROBE_PROGRAM, NULL, "all"},

	{"model-cwd", "cwd-argument", PROBE_CALL, "{\"tool\":\"run_command\",\"arguments\":{\"command\":\"pwd\",\"cwd\":\"/\"}}", "INVALID_ARGUMENTS"},
	{"model-cwd", "cwd-parameter", PROBE_CALL, "{\"tool\":\"run_command\",\"arguments\":{\"command\":\"pwd\"},\"cwd\":\"/\"}", "INVALID_PARAMS"},
	{"model-cwd", "cwd-option", PROBE_CALL, "{\"tool\":\"run_command\",\"arguments\":{\"command\":\"pwd\"},\"options\":{\"cwd\":\"/\"}}", "INVALID_PARAMS"},
	{"model-cwd", "root-option", PROBE_CALL, "{\"tool\":\"run_command\",\"arguments\":{\"command\":\"pwd\"},\"options\":{\"root\":\"/\"}}", "INVALID_PARAMS"},
	{"model-cwd", "cwd-leave", PROBE_SHELL, "cd / && pwd", "/"},
	{"model-cwd", "cwd-returns", PROBE_SHELL, "pwd", "/workspace"},
	{"model-cwd", "cwd-files", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"inside/f\"}}", "OK"},
	{"model-cwd", "working-directory", PROBE_PROGRAM, NULL, "/workspace"},

	{"empty-policy", "open-slash", PROBE_OPEN, "/", "FORBIDDEN"},
	{"empty-policy", "open-usr", PROBE_OPEN, "/usr", "FORBIDDEN"},
	{"empty-policy", "open-tmp", PROBE_OPEN, "/tmp", "FORBIDDEN"},
	{"empty-policy", "open-proc", PROBE_OPEN, "/proc", "FORBIDDEN"},
	{"empty-policy", "unknown-tool", PROBE_CALL, "{\"tool\":\"exec\",\"arguments\":{}}", "UNKNOWN_TOOL"},

	{"planted-config", "planted-profile", PROBE_SHELL, "echo \"${PLANTED:-none}\"", "none"},
	{"planted-config", "planted-rc", PROBE_SHELL, "sh -c 'echo \"${PLANTED:-none}\"'", "none"},
	{"planted-config", "planted-path", PROBE_SHELL, "case $(command -v ls) in /usr/*|/bin/*) echo system;; *) echo planted;; esac", "system"},
	{"planted-config", "planted-policy", PROBE_SHELL, "cat cloister.conf >/dev/null && echo \"${PLANTED:-none}\"", "none"},
	{"planted-config", "planted-host-name", PROBE_SHELL, "cat /etc/hostname 2>/dev/null; uname -n", "cloister"},

	{"leaked-descriptor", "extra-descriptors", PROBE_PROGRAM, NULL, "none"},
	{"leaked-descriptor", "descriptor-walk", PROBE_PROGRAM, NULL, "EBADF"},

	{"proc-self-exe", "init-exe", PROBE_PROGRAM, NULL, "EACCES"},
	{"proc-self-exe", "init-exe-write", PROBE_PROGRAM, NULL, "EACCES"},
	{"proc-self-exe", "usr-write", PROBE_PROGRAM, NULL, "EACCES|EROFS"},
	{"proc-self-exe", "usr-unlink", PROBE_PROGRAM, NULL, "EROFS"},
	{"proc-self-exe", "usr-create", PROBE_PROGRAM, NULL, "EROFS"},

	{"mount-race", "mount-tmpfs", PROBE_PROGRAM, NULL, "EPERM"},
	{"mount-race", "mount-bind", PROBE_PROGRAM, NULL, "EPERM"},
	{"mount-race", "mount-remount", PROBE_PROGRAM, NULL, "EPERM"},
	{"mount-race", "mount-proc", PROBE_PROGRAM, NULL, "EPERM"},
	{"mount-race", "mount-overlay", PROBE_PROGRAM, NULL, "EPERM"},
	{"mount-race", "umount", PROBE_PROGRAM, NULL, "EPERM"},
	{"mount-race", "pivot-root", PROBE_PROGRAM, NULL, "EPERM"},
	{"mount-race", "chroot", PROBE_PROGRAM, NULL, "EPERM"},
	{"mount-race", "open-tree", PROBE_PROGRAM, NULL, "EPERM"},
	{"mount-race", "move-mount", PROBE_PROGRAM, NULL, "EPERM"},
	{"mount-race", "fsopen", PROBE_PROGRAM, NULL, "EPERM"},
	{"mount-race", "fspick", PROBE_PROGRAM, NULL, "EPERM"},
	{"mount-race", "mount-setattr", PROBE_PROGRAM, NULL, "EPERM"},
	{"mount-race", "dev-null-replace", PROBE_PROGRAM, NULL, "EROFS|EBUSY"},
	{"mount-race", "visible-root-rename", PROBE_PROGRAM, NULL, "EROFS|EBUSY|EXDEV"},
	{"mount-race", "mounts-readonly", PROBE_PROGRAM, NULL, "all"},
	{"mount-race", "etc-create", PROBE_PROGRAM, NULL, "EROFS"},
	{"mount-race", "root-create", PROBE_PROGRAM, NULL, "EROFS"},

	{"late-mount", "mounts-private", PROBE_PROGRAM, NULL, "all"},

	{"terminal-injection", "tiocsti", PROBE_PROGRAM, NULL, "EPERM"},
	{"terminal-injection", "tiocsti-high", PROBE_PROGRAM, NULL, "EPERM"},
	{"terminal-injection", "tioclinux", PROBE_PROGRAM, NULL, "EPERM"},
	{"terminal-injection", "tiocsetd", PROBE_PROGRAM, NULL, "EPERM"},
	{"terminal-injection", "dev-tty", PROBE_PROGRAM, NULL, "ENXIO"},

	{"setuid", "become-root", PROBE_PROGRAM, NULL, "EINVAL"},
	{"setuid", "become-group-root", PROBE_PROGRAM, NULL, "EINVAL"},
	{"setuid", "set-groups", PROBE_PROGRAM, NULL, "EPERM"},
	{"setuid", "no-new-privileges", PROBE_PROGRAM, NULL, "1"},
	{"setuid", "capabilities", PROBE_PROGRAM, NULL, "none"},
	{"setuid", "bounding-set", PROBE_PROGRAM, NULL, "empty"},
	{"setuid", "raise-capability", PROBE_PROGRAM, NULL, "EPERM"},
	{"setuid", "mounts-nosuid", PROBE_PROGRAM, NULL, "all"},
	{"setuid", "chown-root", PROBE_PROGRAM, NULL, "EINVAL"},
	{"setuid", "mapped-ids", PROBE_PROGRAM, NULL, "1"},

	{"set-user-id", "set-user-id-chmod", PROBE_PROGRAM, NULL, "EPERM"},
	{"set-user-id", "set-group-id-chmod", PROBE_PROGRAM, NULL, "EPERM"},
	{"set-user-id", "set-user-id-chmod-flags", PROBE_PROGRAM, NULL, "EPERM"},
	{"set-user-id", "set-user-id-open", PROBE_PROGRAM, NULL, "EPERM"},
	{"set-user-id", "set-user-id-tmpfile", PROBE_PROGRAM, NULL, "EPERM"},
	{"set-user-id", "set-user-id-mknod", PROBE_PROGRAM, NULL, "EPERM"},
	{"set-user-id", "openat2", PROBE_PROGRAM, NULL, "ENOSYS"},
	{"set-user-id", "file-capability", PROBE_PROGRAM, NULL, "EPERM"},
	{"set-user-id", "set-user-id-shell", PROBE_SHELL, "chmod 4755 set-id 2>/dev/null; chmod g+s set-id 2>/dev/null; stat -c %a set-id", "755"},

	{"abstract-socket", "abstract-list", PROBE_PROGRAM, NULL, "none"},
	{"abstract-socket", "abstract-connect", PROBE_PROGRAM, NULL, "ECONNREFUSED"},
	{"abstract-socket", "docker-socket", PROBE_PROGRAM, NULL, "ENOENT"},
	{"abstract-socket", "dbus-socket", PROBE_PROGRAM, NULL, "ENOENT"},

	{"keyring", "keyctl", PROBE_PROGRAM, NULL, "EPERM"},
	{"keyring", "add-key", PROBE_PROGRAM, NULL, "EPERM"},
	{"keyring", "request-key", PROBE_PROGRAM, NULL, "EPERM"},

	{"core-pattern", "core-pattern", PROBE_PROGRAM, NULL, "EACCES|EROFS"},
	{"core-pattern", "modprobe", PROBE_PROGRAM, NULL, "EACCES|EROFS|ENOENT"},
	{"core-pattern", "sysrq-trigger", PROBE_PROGRAM, NULL, "EACCES|EROFS|ENOENT"},
	{"core-pattern", "binfmt-misc", PROBE_PROGRAM, NULL, "ENOENT|EACCES"},
	{"core-pattern", "uevent-helper", PROBE_PROGRAM, NULL, "ENOENT"},
	{"core-pattern", "core-limit", PROBE_PROGRAM, NULL, "1"},

	{"release-agent", "mount-cgroup", PROBE_PROGRAM, NULL, "EPERM"},
	{"release-agent", "mount-cgroup2", PROBE_PROGRAM, NULL, "EPERM"},
	{"release-agent", "unshare-cgroup", PROBE_PROGRAM, NULL, "EPERM"},
	{"release-agent", "release-agent", PROBE_PROGRAM, NULL, "ENOENT"},
	{"release-agent", "cgroup-procs", PROBE_PROGRAM, NULL, "ENOENT"},

	{"userns-nesting", "unshare-user", PROBE_PROGRAM, NULL, "EPERM"},
	{"userns-nesting", "unshare-mount", PROBE_PROGRAM, NULL, "EPERM"},
	{"userns-nesting", "unshare-net", PROBE_PROGRAM, NULL, "EPERM"},
	{"userns-nesting", "unshare-pid", PROBE_PROGRAM, NULL, "EPERM"},
	{"userns-nesting", "clone-user", PROBE_PROGRAM, NULL, "EPERM"},
	{"userns-nesting", "clone-mount", PROBE_PROGRAM, NULL, "EPERM"},
	{"userns-nesting", "setns", PROBE_PROGRAM, NULL, "EPERM"},
	{"userns-nesting", "sethostname", PROBE_PROGRAM, NULL, "EPERM"},
	{"userns-nesting", "clone3", PROBE_PROGRAM, NULL, "ENOSYS"},
	{"userns-nesting", "max-user-namespaces", PROBE_PROGRAM, NULL, "0"},
	{"userns-nesting", "max-user-namespaces-write", PROBE_PROGRAM, NULL, "EACCES|EROFS"},

	{"supervisor-proc", "init-root", PROBE_PROGRAM, NULL, "EACCES"},
	{"supervisor-proc", "init-cwd", PROBE_PROGRAM, NULL, "EACCES"},
	{"supervisor-proc", "init-mem", PROBE_PROGRAM, NULL, "EACCES"},
	{"supervisor-proc", "init-environ", PROBE_PROGRAM, NULL, "EACCES"},
	{"supervisor-proc", "init-descriptors", PROBE_PROGRAM, NULL, "EACCES"},
	{"supervisor-proc", "init-namespace", PROBE_PROGRAM, NULL, "EACCES"},
	{"supervisor-proc", "init-maps", PROBE_PROGRAM, NULL, "EACCES"},
	{"supervisor-proc", "init-ptrace", PROBE_PROGRAM, NULL, "EPERM"},
	{"supervisor-proc", "init-read-memory", PROBE_PROGRAM, NULL, "EPERM"},
	{"supervisor-proc", "init-limits", PROBE_PROGRAM, NULL, "EPERM"},
	{"supervisor-proc", "init-priority", PROBE_PROGRAM, NULL, "EPERM"},
	{"supervisor-proc", "init-priority-user", PROBE_PROGRAM, NULL, "EPERM"},
	{"supervisor-proc", "init-scheduler", PROBE_PROGRAM, NULL, "EPERM"},
	{"supervisor-proc", "init-affinity", PROBE_PROGRAM, NULL, "EPERM"},
	{"supervisor-proc", "processes-seen", PROBE_PROGRAM, NULL, "own"},
	{"supervisor-proc", "environment-size", PROBE_PROGRAM, NULL, "small"},
	{"supervisor-proc", "init-kill", PROBE_SHELL, "kill -9 1; echo alive", "alive"},
	{"supervisor-proc", "shadow", PROBE_PROGRAM, NULL, "ENOENT"},
	{"supervisor-proc", "host-root-home", PROBE_PROGRAM, NULL, "ENOENT"},
	{"supervisor-proc", "host-var", PROBE_PROGRAM, NULL, "ENOENT"},
	{"supervisor-proc", "host-sys", PROBE_PROGRAM, NULL, "ENOENT"},
	{"supervisor-proc", "host-boot", PROBE_PROGRAM, NULL, "ENOENT"},

	{"io-uring", "io-uring-setup", PROBE_PROGRAM, NULL, "EPERM"},
	{"io-uring", "io-uring-enter", PROBE_PROGRAM, NULL, "EPERM"},
	{"io-uring", "io-uring-register", PROBE_PROGRAM, NULL, "EPERM"},

	{"file-handle", "open-by-handle", PROBE_PROGRAM, NULL, "EPERM"},

	{"memory-of-others", "userfaultfd", PROBE_PROGRAM, NULL, "EPERM"},
	{"memory-of-others", "kcmp", PROBE_PROGRAM, NULL, "EPERM"},
	{"memory-of-others", "pidfd-getfd", PROBE_PROGRAM, NULL, "EPERM"},
	{"memory-of-others", "process-madvise", PROBE_PROGRAM, NULL, "EPERM"},

	{"loader", "loader-variables", PROBE_PROGRAM, NULL, "none"},
	{"loader", "ld-so-preload", PROBE_PROGRAM, NULL, "EROFS"},

	{"kernel-surface", "bpf", PROBE_PROGRAM, NULL, "EPERM"},
	{"kernel-surface", "perf-event-open", PROBE_PROGRAM, NULL, "EPERM"},
	{"kernel-surface", "init-module", PROBE_PROGRAM, NULL, "EPERM"},
	{"kernel-surface", "finit-module", PROBE_PROGRAM, NULL, "EPERM"},
	{"kernel-surface", "delete-module", PROBE_PROGRAM, NULL, "EPERM"},
	{"kernel-surface", "kexec-load", PROBE_PROGRAM, NULL, "EPERM"},
	{"kernel-surface", "reboot", PROBE_PROGRAM, NULL, "EPERM"},
	{"kernel-surface", "swapon", PROBE_PROGRAM, NULL, "EPERM"},
	{"kernel-surface", "acct", PROBE_PROGRAM, NULL, "EPERM"},
	{"kernel-surface", "syslog", PROBE_PROGRAM, NULL, "EPERM"},
	{"kernel-surface", "quotactl", PROBE_PROGRAM, NULL, "EPERM"},
	{"kernel-surface", "clock-settime", PROBE_PROGRAM, NULL, "EPERM"},
	{"kernel-surface", "adjtimex", PROBE_PROGRAM, NULL, "EPERM"},
	{"kernel-surface", "fanotify-init", PROBE_PROGRAM, NULL, "EPERM"},
	{"kernel-surface", "personality", PROBE_PROGRAM, NULL, "EPERM"},
	{"kernel-surface", "iopl", PROBE_PROGRAM, NULL, "EPERM"},
	{"kernel-surface", "modify-ldt", PROBE_PROGRAM, NULL, "EPERM"},
	{"kernel-surface", "unknown-call", PROBE_PROGRAM, NULL, "ENOSYS"},
	{"kernel-surface", "int80", PROBE_PROGRAM, NULL, "SIGSYS"},
	{"kernel-surface", "x32", PROBE_PROGRAM, NULL, "SIGSYS"},
	{"kernel-surface", "kcore", PROBE_PROGRAM, NULL, "EACCES|ENOENT"},
	{"kernel-surface", "kmsg", PROBE_PROGRAM, NULL, "EACCES|EPERM|ENOENT"},
	{"kernel-surface", "timer-list", PROBE_PROGRAM, NULL, "EACCES|ENOENT"},

	{"network", "net-metadata", PROBE_PROGRAM, NULL, "ENETUNREACH"},
	{"network", "net-world", PROBE_PROGRAM, NULL, "ENETUNREACH"},
	{"network", "net-gateway", PROBE_PROGRAM, NULL, "ENETUNREACH"},
	{"network", "socket-packet", PROBE_PROGRAM, NULL, "EPERM"},
	{"network", "socket-netlink", PROBE_PROGRAM, NULL, "EPERM"},
	{"network", "socket-vsock", PROBE_PROGRAM, NULL, "EPERM"},
	{"network", "socket-alg", PROBE_PROGRAM, NULL, "EPERM"},
	{"network", "socket-raw", PROBE_PROGRAM, NULL, "EPERM"},
	{"network", "socket-sctp", PROBE_PROGRAM, NULL, "EPERM"},
	{"network", "socket-mptcp", PROBE_PROGRAM, NULL, "EPERM"},
	{"network", "socket-udplite", PROBE_PROGRAM, NULL, "EPERM"},
	{"network", "socket-upper", PROBE_PROGRAM, NULL, "EPERM"},

	{"egress-metadata", "metadata-connect", PROBE_EGRESS, NULL, "refused"},
	{"egress-metadata", "metadata-http", PROBE_EGRESS, NULL, "refused"},
	{"egress-metadata", "metadata-socks", PROBE_EGRESS, NULL, "refused"},
	{"egress-metadata", "metadata-host", PROBE_EGRESS, NULL, "refused"},

	{"egress-private", "private-connect", PROBE_EGRESS, NULL, "refused"},
	{"egress-private", "private-http", PROBE_EGRESS, NULL, "refused"},
	{"egress-private", "private-socks", PROBE_EGRESS, NULL, "refused"},
	{"egress-private", "private-host", PROBE_EGRESS, NULL, "refused"},

	{"egress-empty", "empty-connect", PROBE_EMPTY, NULL, "refused"},
	{"egress-empty", "empty-http", PROBE_EMPTY, NULL, "refused"},
	{"egress-empty", "empty-socks", PROBE_EMPTY, NULL, "refused"},
	{"egress-empty", "empty-host", PROBE_EMPTY, NULL, "refused"},

	{"egress-names", "names-connect", PROBE_EGRESS, NULL, "refused"},
	{"egress-names", "names-http", PROBE_EGRESS, NULL, "refused"},
	{"egress-names", "names-socks", PROBE_EGRESS, NULL, "refused"},
	{"egress-names", "names-host", PROBE_EGRESS, NULL, "refused"},
	{"egress-names", "names-dns", PROBE_EGRESS, NULL, "refused"},

	{"ipc", "sysv-shm", PROBE_PROGRAM, NULL, "none"},
	{"ipc", "sysv-msg", PROBE_PROGRAM, NULL, "none"},
	{"ipc", "sysv-sem", PROBE_PROGRAM, NULL, "none"},
	{"ipc", "dev-shm", PROBE_SHELL, "ls -A /dev/shm | wc -l", "0"},

	{"exhaustion", "process-limit", PROBE_PROGRAM, NULL, "finite"},
	{"exhaustion", "descriptor-limit", PROBE_PROGRAM, NULL, "finite"},
	{"exhaustion", "file-size-limit", PROBE_PROGRAM, NULL, "finite"},
	{"exhaustion", "locked-memory-limit", PROBE_PROGRAM, NULL, "finite"},

	{"disk-quota", "quota-set", PROBE_PROGRAM, NULL, "EPERM"},
	{"disk-quota", "quota-off", PROBE_PROGRAM, NULL, "EPERM"},
	{"disk-quota", "quota-set-limits", PROBE_PROGRAM, NULL, "EPERM"},
	{"disk-quota", "quota-next", PROBE_PROGRAM, NULL, "EPERM"},

	{"forged-layer", "layer-opaque", PROBE_LAYERS, NULL, "shown"},
	{"forged-layer", "layer-opaque-marks", PROBE_LAYERS, NULL, "shown"},
	{"forged-layer", "layer-redirect", PROBE_LAYERS, NULL, "shown"},
	{"forged-layer", "layer-metacopy", PROBE_LAYERS, NULL, "shown"},
	{"forged-layer", "layer-whiteout-mark", PROBE_LAYERS, NULL, "shown"},
	{"forged-layer", "layer-whiteout", PROBE_LAYERS, NULL, "EPERM|EACCES"},
	{"forged-layer", "layer-handle", PROBE_LAYERS, NULL, "EPERM|EOPNOTSUPP"},
	{"forged-layer", "layer-options", PROBE_LAYERS, NULL, "own"},

	{"layer-of-another", "layer-foreign", PROBE_FOREIGN, NULL, "FORBIDDEN"},

	{"shared-budgets", "inotify-instances", PROBE_PROGRAM, NULL, "16"},
	{"shared-budgets", "inotify-instances-write", PROBE_PROGRAM, NULL, "EACCES|EROFS"},
	{"shared-budgets", "inotify-watches", PROBE_PROGRAM, NULL, "8192"},
	{"shared-budgets", "network-namespaces", PROBE_PROGRAM, NULL, "1"},
	{"shared-budgets", "pending-signals", PROBE_PROGRAM, NULL, "bounded"},
	{"shared-budgets", "queue-bytes", PROBE_PROGRAM, NULL, "bounded"},
	{"shared-budgets", "locked-shared-memory", PROBE_PROGRAM, NULL, "EPERM"},
	{"shared-budgets", "huge-pages", PROBE_PROGRAM, NULL, "ENOMEM"},
	{"shared-budgets", "asynchronous-io", PROBE_PROGRAM, NULL, "ENOSYS"},
	{"shared-budgets", "terminals", PROBE_PROGRAM, NULL, "bounded"},
	{"shared-budgets", "ipc-leave", PROBE_ALONE, NULL, "left"},
	{"shared-budgets", "ipc-gone", PROBE_ALONE, NULL, "gone"},

	{"unread-output", "unread-begins-nothing", PROBE_UNREAD, "{\"tool\":\"run_command\",\"arguments\":{\"command\":\"echo x >unread\",\"timeout_ms\":50}}", "TIMEOUT"},
	{"unread-output", "unread-began-nothing", PROBE_CALL, "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"unread\"}}", "NOT_FOUND"},

	{"survivor", "survivor-leave", PROBE_ALONE, NULL, "left"},
	{"survivor", "survivor-gone", PROBE_ALONE, NULL, "gone"},

	{"id-exhaustion", "make-second", PROBE_MAKE, "second", "QUOTA_EXCEEDED"},

	{"template-of-another", "fork-other", PROBE_FORK, "*", "NOT_FOUND"},
	{"template-of-another", "fork-climb", PROBE_FORK, "../x", "INVALID_ARGUMENTS"},

	{"archive-escape", "archive-write", PROBE_ALONE, NULL, "OK"},
	{"archive-escape", "import-parent", PROBE_IMPORT, "archive-parent", "PATH_OUTSIDE_WORKSPACE"},
	{"archive-escape", "import-parent-inside", PROBE_IMPORT, "archive-parent-inside", "PATH_OUTSIDE_WORKSPACE"},
	{"archive-escape", "import-absolute", PROBE_IMPORT, "archive-absolute", "PATH_OUTSIDE_WORKSPACE"},
	{"archive-escape", "import-link", PROBE_IMPORT, "archive-link", "SYMLINK_OUTSIDE_WORKSPACE"},
	{"archive-escape", "import-link-up", PROBE_IMPORT, "archive-link-up", "SYMLINK_OUTSIDE_WORKSPACE"},
	{"archive-escape", "import-hard-link", PROBE_IMPORT, "archive-hard-link", "PATH_OUTSIDE_WORKSPACE"},
	{"archive-escape", "import-hard-link-up", PROBE_IMPORT, "archive-hard-link-up", "PATH_OUTSIDE_WORKSPACE"},
	{"archive-escape", "import-hard-link-link", PROBE_IMPORT, "archive-hard-link-link", "SYMLINK_OUTSIDE_WORKSPACE"},
	{"archive-escape", "import-device", PROBE_IMPORT, "archive-device", "OK 1"},
	{"archive-escape", "import-set-id", PROBE_IMPORT, "archive-set-id", "OK 1"},
	{"archive-escape", "import-own-state", PROBE_IMPORT, ".", "FORBIDDEN"},

	{"frozen-cgroup", "cgroup-freeze", PROBE_PROGRAM, NULL, "ENOENT"},

	{"file-system-server", "mount-fuse", PROBE_PROGRAM, NULL, "EPERM"},

	{"text-damage", "write-non-ascii", PROBE_CALL, "{\"tool\":\"write_file\",\"arguments\":{\"path\":\"text\",\"content\":\"\303\274\\ud836\\ude00\"}}", "OK"},
	{"text-damage", "written-non-ascii", PROBE_SHELL, "od -An -tx1 <text | tr -d ' '", "c3bcf09da880"},
	{"text-damage", "search-non-ascii", PROBE_COUNT, "{\"tool\":\"search_files\",\"arguments\":{\"pattern\":\"^\\u00fc\360\235\250\200$\",\"path\":\"text\"}}", "OK 1"},
};
/* clang-format on */

const size_t selftest_suite_count = ARRAY_SIZE(selftest_suite);

_Static_assert(ARRAY_SIZE(selftest_suite) <= SELFTEST_PROBES_MAX, "SELFTEST_PROBES_MAX");
