# SPDX-License-Identifier: Apache-2.0
"""A container of a Kubernetes pod without Kubernetes: an OCI runtime gets what containerd would make of the manifest.

Emulated are the pod's user namespace (hostUsers), the masked and read-only paths (procMount), the capabilities (only root
gets any), no_new_privs, the part of the runtime's default system call filter that matters to cloister, ConfigMaps as
links into a directory that root owns, and emptyDirs. AppArmor and idmapped mounts are not emulated."""

import json
import os
import shutil
import subprocess

import procfs
import pytest
from daemon import ROOT
from npm import unavailable

BASE, IDS = 1_900_000_000, 65536  # like the kubelet's: 65536 ids that no other pod has
MASKED = ["/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
          "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware"]
READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
USERS = {"root": 0, "cloister": 900, "blue": 1001, "green": 1002, "nobody": 65534}
# System calls that containerd's default profile allows only with CAP_SYS_ADMIN, and those that it never allows.
WITH_ADMIN = ["bpf", "fsconfig", "fsmount", "fsopen", "fspick", "mount", "mount_setattr", "move_mount", "open_tree",
              "perf_event_open", "sethostname", "setns", "umount2", "unshare"]
NEVER = ["add_key", "keyctl", "pivot_root", "request_key", "userfaultfd"]
NAMESPACE_FLAGS = [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]
# crun refuses a mixture of cgroup v1 and v2, and the tests need no limits of pods.
PLAIN_CGROUPS = 'umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup; exec "$@"'


def reason_against():
    if os.getuid() != 0:
        return "running a container's runtime as Kubernetes does needs root"
    return None


def runtime():
    if reason_against():
        pytest.skip(reason_against())
    if not shutil.which("crun"):
        unavailable("crun is not installed")
    return ["unshare", "--mount", "sh", "-c", PLAIN_CGROUPS, "sh", "crun", "--cgroup-manager=disabled"]


def default_profile(capabilities):
    """Returns the part of containerd's default profile that matters to cloister: contrib/seccomp in containerd."""
    admin = "SYS_ADMIN" in capabilities

    def refuse(names, error, **more):
        return {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": error, **more}
    rules = [refuse(NEVER if admin else NEVER + WITH_ADMIN, 1)]
    if not admin:
        rules.append(refuse(["clone3"], 38))
        rules += [refuse(["clone"], 1, args=[{"index": 0, "value": flag, "valueTwo": flag, "op": "SCMP_CMP_MASKED_EQ"}])
                  for flag in NAMESPACE_FLAGS]
    return {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules}


class Volumes:
    """Makes directories as the kubelet does. @paths has them by their names in the pod."""

    def __init__(self, path, spec, config_maps, base):
        self.paths, self.base = {}, base
        path.mkdir()
        for volume in spec["volumes"]:
            place = self.paths[volume["name"]] = path / volume["name"]
            place.mkdir()
            place.chmod(0o777 if "emptyDir" in volume else 0o755)
            if "configMap" in volume:
                self.fill(place, config_maps.get(volume["configMap"]["name"], {}))
            for name in [place, *place.rglob("*")]:
                os.lchown(name, base, base)

    @staticmethod
    def fill(place, data):
        """Makes a ConfigMap's files as links through one more link, by which the kubelet changes all of them at once."""
        (place / "..1").mkdir()
        (place / "..data").symlink_to("..1")
        for name, text in data.items():
            (place / "..1" / name).write_text(text)
            (place / name).symlink_to(f"..data/{name}")


def image(path, base):
    """Makes the root of a container: this system's /usr, and what the image's recipe adds to /etc."""
    for name in ("usr", "etc", "proc", "sys", "dev", "tmp", "run/cloister", "var/lib/cloister", "opt/cloister"):
        (path / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (path / name).symlink_to(f"usr/{name}")
    (path / "etc/passwd").write_text("".join(f"{name}:x:{n}:{n}::/:/bin/sh\n" for name, n in USERS.items()))
    (path / "etc/group").write_text("".join(f"{name}:x:{n}:\n" for name, n in USERS.items()))
    for name in ("subuid", "subgid"):
        (path / "etc" / name).write_text("cloister:2000:60000\n")
    shutil.copy("/etc/ld.so.cache", path / "etc")
    (path / "tmp").chmod(0o1777)
    for name in [path, *path.rglob("*")]:
        os.lchown(name, base, base)


def mounts(container, volumes, programs):
    hidden = ["nosuid", "noexec", "nodev"]
    yield {"destination": "/proc", "type": "proc", "source": "proc", "options": hidden}
    yield {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]}
    yield {"destination": "/dev/pts", "type": "devpts", "source": "devpts",
           "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]}
    yield {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": [*hidden, "mode=1777"]}
    yield {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": [*hidden, "ro"]}
    binds = [("/usr", "/usr", True), (programs, "/opt/cloister", True)]
    binds += [(volumes.paths[mount["name"]], mount["mountPath"], mount.get("readOnly"))
              for mount in container["volumeMounts"]]
    for source, destination, read_only in binds:
        yield {"destination": destination, "type": "bind", "source": str(source),
               "options": ["rbind", *(["ro"] if read_only else [])]}


def process(container, words):
    context = container["securityContext"]
    uid = context["runAsUser"]
    capabilities = [f"CAP_{name}" for name in context["capabilities"].get("add", [])]
    sets = ("bounding", "effective", "permitted") if uid == 0 else ("bounding",)
    return {"terminal": False, "user": {"uid": uid, "gid": context["runAsGroup"]}, "args": words, "cwd": "/",
            "env": ["PATH=/opt/cloister:/usr/sbin:/usr/bin", "ASAN_OPTIONS=detect_leaks=0"],
            "noNewPrivileges": not context["allowPrivilegeEscalation"],
            "capabilities": {name: capabilities for name in sets}}


def namespaces(context, host_users):
    kinds = ["pid", "network", "ipc", "uts", "mount", "cgroup"] + ([] if host_users else ["user"])
    linux = {"namespaces": [{"type": kind} for kind in kinds]}
    if not host_users:
        linux["uidMappings"] = linux["gidMappings"] = [{"containerID": 0, "hostID": BASE, "size": IDS}]
    if context.get("procMount") != "Unmasked":
        linux |= {"maskedPaths": MASKED, "readonlyPaths": READ_ONLY}
    profile = context.get("seccompProfile", {})
    if profile.get("type") == "Localhost":
        linux["seccomp"] = json.loads((ROOT / "packaging/fleets" / profile["localhostProfile"]).read_text())
        linux["seccomp"]["architectures"] = linux["seccomp"]["architectures"][:1] if os.uname().machine == "x86_64" else ["SCMP_ARCH_AARCH64"]
    elif profile.get("type") != "Unconfined":
        linux["seccomp"] = default_profile(context["capabilities"].get("add", []))
    return linux


class Pod:
    """cloister's container of a pod. @serves says whether cloisterd runs; otherwise it has ended."""

    started = 0

    def __init__(self, place, spec, container, config_maps, programs):
        Pod.started += 1
        self.name = f"cloister-test-{os.getpid()}-{Pod.started}"
        self.runtime = runtime()
        host_users = spec.get("hostUsers", True)
        base = 0 if host_users else BASE
        bundle = place / self.name
        bundle.mkdir()
        image(bundle / "root", base)
        self.volumes = Volumes(bundle / "volumes", spec, config_maps, base)
        self.make_ready(spec, container)
        context = container["securityContext"]
        (bundle / "config.json").write_text(json.dumps({
            "ociVersion": "1.0.2", "process": process(container, ["/opt/cloister/cloisterd", *container["args"]]),
            "root": {"path": "root", "readonly": context["readOnlyRootFilesystem"]}, "hostname": "pod",
            "mounts": list(mounts(container, self.volumes, programs)),
            "linux": namespaces(context, host_users)}))
        self.log_path = bundle / "log"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen([*self.runtime, "run", "--bundle", str(bundle), self.name],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.serves = procfs.eventually(
            lambda: "listening" in self.log() or self.process.poll() is not None, 120) and self.process.poll() is None

    def make_ready(self, spec, container):
        """Does what the DaemonSet's init container does."""
        if "initContainers" in spec and container not in spec["initContainers"]:
            state = self.volumes.paths["state"] / "state"
            state.mkdir(mode=0o700)
            os.chown(state, self.volumes.base + 900, self.volumes.base + 900)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def run(self, uid, *words):
        """Runs a program in the pod as another container would, and returns it completed."""
        return subprocess.run(
            [*self.runtime, "exec", "--user", f"{uid}:{uid}", self.name, *words],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)

    def ctl(self, uid, *words):
        return self.run(uid, "/opt/cloister/cloisterctl", "--socket", "/run/cloister/control.sock", *words)

    def call(self, uid, tool, *words, workspace="w"):
        return self.run(uid, "/opt/cloister/cloister", "--socket", "/run/cloister/agent.sock", "--create", "--workspace",
                        workspace, "call", tool, *words)

    def stop(self):
        if self.process.poll() is None:
            subprocess.run([*self.runtime, "kill", self.name, "TERM"], capture_output=True, check=False)
            self.process.wait(60)
