# SPDX-License-Identifier: Apache-2.0
"""packaging/fleets: engines accept the manifests, pods run as the manifests describe, and clients reach the sockets."""

import copy
import json
import os
import re
import shutil
import socket
import subprocess

import pytest

from daemon import BUILD, ROOT, is_sanitized
import procfs
from npm import Packages
from pod import Pod, reason_against

pytestmark = pytest.mark.deep("slow")

FLEETS = ROOT / "packaging" / "fleets"
SCRIPT = ROOT / "tests" / "lib" / "manifests.mjs"
PINNED = {"@kubernetes/client-node": "2.0.1", "kubernetes-models": "4.5.1", "yaml": "2.9.1"}
FILES = [FLEETS / "kubernetes" / "sidecar.yaml", FLEETS / "kubernetes" / "daemonset.yaml",
         FLEETS / "kubernetes" / "statefulset.yaml", FLEETS / "kubernetes" / "agent-sandbox.yaml"]
UNCONFINED = "seccompProfile: {type: Unconfined}"
needs_pods = pytest.mark.skipif(reason_against() is not None, reason=str(reason_against()))


@pytest.fixture(scope="module")
def packages(area):
    return Packages(area.new_directory("npm"), PINNED, least=18)


def parsed(packages, area, *files):
    return packages.run(area.account, area.home, SCRIPT, *files)


@pytest.fixture(scope="module")
def manifests(packages, area):
    # A checkout may be in a directory that the user cannot enter, so the files are copied.
    place = area.new_directory("manifests")
    done = parsed(packages, area, *[shutil.copy(file, place) for file in FILES])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def of_kind(objects, kind):
    (found,) = [thing for thing in objects if thing["kind"] == kind]
    return found


@pytest.mark.parametrize("right, wrong, said", [
    ("hostUsers: false", "hostUsers: \"no\"", "hostUsers must be boolean"),
    ("            procMount:", "            procMounts:", 'has no field "procMounts"'),
    ("      containers:", "      contaners:", "containers"),
])
def test_what_the_api_would_not_take_is_seen(packages, area, right, wrong, said):
    text = FILES[1].read_text()
    assert right in text
    broken = area.new_directory("broken") / "daemonset.yaml"
    broken.write_text(text.replace(right, wrong, 1))
    done = parsed(packages, area, broken)
    assert done.returncode == 1 and said in done.stderr, done


@pytest.mark.parametrize("right, wrong, said", [
    ("hostUsers: false", "hostUsers: \"no\"", "hostUsers"),
    ("      containers:", "      contaners:", "contaners"),
    ("volumeClaimTemplatesPolicy: Disallowed", "volumeClaimTemplatesPolicy: Never", "none of Allowed"),
    ("sandboxTemplateRef:", "templateRef:", 'has no field "templateRef"'),
    ("kind: SandboxWarmPool", "kind: SandboxPool", "no schema for extensions.agents.x-k8s.io/v1beta1"),
])
def test_what_agent_sandbox_would_not_take_is_seen(packages, area, right, wrong, said):
    text = FILES[3].read_text()
    broken = area.new_directory("broken") / "agent-sandbox.yaml"
    assert right in text
    broken.write_text(text.replace(right, wrong, 1))
    done = parsed(packages, area, broken)
    assert done.returncode == 1 and said in done.stderr, done.stderr


def test_the_sandbox_template_has_the_sidecar_s_pod(manifests):
    """What the sidecar's tests show holds for agent-sandbox too: the same pod, with one agent."""
    template = of_kind(manifests["agent-sandbox.yaml"], "SandboxTemplate")["spec"]["podTemplate"]["spec"]
    own, other = copy.deepcopy(template), copy.deepcopy(of_kind(manifests["sidecar.yaml"], "Pod")["spec"])
    (agent,) = own.pop("containers")
    writer = other.pop("containers")[0]
    assert {**agent, "name": "writer"} == writer
    for spec in own, other:
        for volume in spec["volumes"]:
            volume.get("configMap", {}).pop("name", None)
    assert own == other
    pool = of_kind(manifests["agent-sandbox.yaml"], "SandboxWarmPool")
    assert pool["spec"]["sandboxTemplateRef"]["name"] == of_kind(manifests["agent-sandbox.yaml"], "SandboxTemplate")["metadata"]["name"]


@pytest.mark.parametrize("file, kind", [("daemonset.yaml", "DaemonSet"), ("statefulset.yaml", "StatefulSet")])
def test_a_pods_end_leaves_calls_their_time(manifests, file, kind):
    """The grace period covers the configured drain_time and the 20 s in which cloisterd ends what is left."""
    config = of_kind([thing for thing in manifests[file] if "cloister.conf" in thing.get("data", {})], "ConfigMap")
    (drain,) = re.findall(r"(?m)^drain_time = (\d+)s$", config["data"]["cloister.conf"])
    spec = of_kind(manifests[file], kind)["spec"]["template"]["spec"]
    assert 0 < int(drain) <= spec["terminationGracePeriodSeconds"] - 20


def test_the_stateful_set_has_the_daemon_sets_pods(manifests):
    """What holds for a pod of the DaemonSet holds for one of the StatefulSet: they differ in where the state is, who gets
    the metrics' file, and where the pod runs."""
    daemons, own = manifests["daemonset.yaml"], manifests["statefulset.yaml"]
    specs = []
    for objects, kind in (daemons, "DaemonSet"), (own, "StatefulSet"):
        spec = copy.deepcopy(of_kind(objects, kind)["spec"]["template"]["spec"])
        for key in ("nodeSelector", "tolerations", "topologySpreadConstraints", "priorityClassName"):
            spec.pop(key, None)
        spec["volumes"] = [volume for volume in spec["volumes"] if volume["name"] != "state"]
        (keeper,) = [container for container in spec["containers"] if container["name"] == "keeper"]
        keeper["command"][2] = keeper["command"][2].replace('"/metrics/$HOSTNAME.new"', "/metrics/cloister.new").replace(
            '"/metrics/$HOSTNAME.prom"', "/metrics/cloister.prom")
        specs.append(spec)
    assert specs[0] == specs[1]
    for kind in "Namespace", "ConfigMap", "NetworkPolicy":
        assert of_kind(daemons, kind) == of_kind(own, kind)


def test_the_stateful_set_keeps_names_and_state(manifests):
    objects = manifests["statefulset.yaml"]
    spec = of_kind(objects, "StatefulSet")["spec"]
    service, budget = of_kind(objects, "Service"), of_kind(objects, "PodDisruptionBudget")["spec"]
    (claim,) = spec["volumeClaimTemplates"]
    mounted = {mount["name"]: mount["mountPath"] for mount in spec["template"]["spec"]["containers"][0]["volumeMounts"]}
    assert mounted[claim["metadata"]["name"]] == "/var/lib/cloister" and claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
    assert set(spec["persistentVolumeClaimRetentionPolicy"].values()) == {"Retain"}
    # A headless service whose selector, port and name are the pods'.
    labels = spec["template"]["metadata"]["labels"]
    assert spec["serviceName"] == service["metadata"]["name"] and service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == spec["selector"]["matchLabels"] == budget["selector"]["matchLabels"] == labels
    # A headless service maps no ports: its own is the one that sshd listens at.
    offered = {port["targetPort"]: port["port"] for port in service["spec"]["ports"]}
    assert offered == {port["name"]: port["containerPort"] for container in all_containers(spec["template"]["spec"])
                       for port in container.get("ports", [])}
    assert budget["maxUnavailable"] == 1
    assert spec["template"]["spec"]["priorityClassName"] == of_kind(objects, "PriorityClass")["metadata"]["name"]


def all_containers(spec):
    return spec["initContainers"] + spec["containers"]


def script_of_the_keeper(manifests):
    (keeper,) = [container for container in daemon_set(manifests)[0]["containers"] if container["name"] == "keeper"]
    shell, option, script = keeper["command"]
    return shell, option, script


def test_the_keeper_reloads_once_for_each_change(manifests, tmp_path):
    """The keeper reloads at its start, after each change of the link, and again after a reload that was refused."""
    for name in ("etc", "metrics", "bin"):
        (tmp_path / name).mkdir()
    (tmp_path / "etc/..data").symlink_to("..1")
    (tmp_path / "bin/cloisterctl").write_text(f"""#!/bin/sh
        cd {tmp_path}
        case $3 in
        reload) echo "reload $(readlink etc/..data)" >>calls; [ "$(readlink etc/..data)" != ..2 ] || [ -e mended ] ;;
        metrics) echo "a_metric 1" ;;
        esac
        """)
    # There are five turns. In the third one the kubelet has replaced the link; later the mistake is corrected.
    (tmp_path / "bin/sleep").write_text(f"""#!/bin/sh
        cd {tmp_path}
        echo turn >>calls
        case $(grep -c turn calls) in
        3) ln -s ..2 etc/..data_tmp && mv -T etc/..data_tmp etc/..data ;;
        4) touch mended ;;
        6) exit 1 ;;
        esac
        """)
    for program in (tmp_path / "bin").iterdir():
        program.chmod(0o755)
    shell, option, script = script_of_the_keeper(manifests)
    assert script.count("/etc/cloister/") == 1 and script.count("/metrics/") == 3
    script = script.replace("/etc/cloister/", f"{tmp_path}/etc/").replace(" /metrics/", f" {tmp_path}/metrics/").replace(
        ">/metrics/", f">{tmp_path}/metrics/")
    subprocess.run([shell, option, script], env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}, check=True, timeout=60)
    assert (tmp_path / "calls").read_text().split("\n")[:-1] == [
        "turn", "reload ..1", "turn", "turn", "reload ..2", "turn", "reload ..2", "turn", "turn"]
    assert (tmp_path / "metrics/cloister.prom").read_text() == "a_metric 1\n"


# The fields of kustomization that concern a base of files (kubectl.docs.kubernetes.io); kustomize refuses unknown ones.
KUSTOMIZATION = {"apiVersion", "kind", "resources", "images"}


def test_the_base_for_kustomize(manifests):
    yaml = pytest.importorskip("yaml") if os.environ.get("CI") != "true" else __import__("yaml")
    directory = FLEETS / "kubernetes"
    base = yaml.safe_load((directory / "kustomization.yaml").read_text())
    assert set(base) <= KUSTOMIZATION
    assert (base["apiVersion"], base["kind"]) == ("kustomize.config.k8s.io/v1beta1", "Kustomization")
    assert base["resources"] and all((directory / name).is_file() for name in base["resources"])
    used = set(re.findall(r"(?m)^ *image: (\S+)$", "".join((directory / name).read_text() for name in base["resources"])))
    assert {f"{image['name']}:{image['newTag']}" for image in base["images"]} == used
    # kustomize refuses a base with two objects of one kind and name.
    names = [(thing["kind"], thing["metadata"].get("namespace"), thing["metadata"]["name"])
             for name in base["resources"] for thing in manifests[name]]
    assert len(names) == len(set(names))


@pytest.fixture
def start_pod(area):
    started = []
    os.chmod(area.path, 0o755)

    def start(spec, container, objects):
        maps = {thing["metadata"]["name"]: thing["data"] for thing in objects if thing["kind"] == "ConfigMap"}
        started.append(Pod(area.new_directory("pod"), spec, container, maps, area.bin))
        return started[-1]

    yield start
    for pod in started:
        pod.stop()


def sidecar(manifests):
    objects = copy.deepcopy(manifests["sidecar.yaml"])
    spec = of_kind(objects, "Pod")["spec"]
    return spec, spec["initContainers"][0], objects


def daemon_set(manifests):
    objects = copy.deepcopy(manifests["daemonset.yaml"])
    spec = of_kind(objects, "DaemonSet")["spec"]["template"]["spec"]
    return spec, spec["containers"][0], objects


def passes(pod, uid):
    done = pod.ctl(uid, "selftest")
    assert done.returncode == 0 and "the walls: passed" in done.stdout, (done, pod.log())


def succeeds(done):
    assert done.returncode == 0, done
    return json.loads(done.stdout)["output"]


@needs_pods
def test_the_sidecar(start_pod, manifests):
    """The sidecar has no capability. The agents' containers are told apart by their runAsUser."""
    pod = start_pod(*sidecar(manifests))
    assert pod.serves, pod.log()
    passes(pod, 900)
    for uid, name in (1001, "writer"), (1002, "reviewer"):
        succeeds(pod.call(uid, "write_file", "path=who", f"content={name}"))
    assert succeeds(pod.call(1001, "run_command", "command=cat who"))["stdout"] == "writer"
    stranger = pod.call(1003, "list_directory", "path=.")
    assert stranger.returncode == 3 and "FORBIDDEN" in stranger.stderr, stranger


@needs_pods
def test_the_sandbox_template(start_pod, manifests):
    """One claim is one pod, and its agent has many sandboxes: workspaces."""
    objects = copy.deepcopy(manifests["agent-sandbox.yaml"])
    spec = of_kind(objects, "SandboxTemplate")["spec"]["podTemplate"]["spec"]
    pod = start_pod(spec, spec["initContainers"][0], objects)
    assert pod.serves, pod.log()
    passes(pod, 900)
    for number in range(20):
        succeeds(pod.call(1001, "write_file", "path=who", f"content={number}", workspace=f"w{number}"))
    for number in range(20):
        assert succeeds(pod.call(1001, "run_command", "command=cat who", workspace=f"w{number}"))["stdout"] == str(number)


@needs_pods
def test_the_daemon_set(start_pod, manifests):
    """The DaemonSet runs in system mode: each workspace has an id of its own, and cloisterd keeps no capability."""
    pod = start_pod(*daemon_set(manifests))
    assert pod.serves, pod.log()
    passes(pod, 0)
    owners = set()
    for uid in 1001, 1002:
        succeeds(pod.call(uid, "run_command", "command=touch here"))
    for tenant in "blue", "green":
        owners.add((pod.volumes.paths["state"] / "state/workspaces" / tenant / "w").stat().st_uid)
    assert len(owners) == 2 and all(owner > pod.volumes.base + 2000 for owner in owners), owners
    status = pod.run(0, "sh", "-c", "grep -l '^Name:.cloisterd' /proc/[0-9]*/status | xargs grep -hE '^(Uid|Cap(Prm|Eff))'")
    assert "Uid:\t900\t900\t900\t900" in status.stdout, status
    assert "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000" in status.stdout, status


@needs_pods
def test_probes_and_a_changed_config_map(start_pod, manifests):
    """The kubelet's probes and the keeper's command, run in the pod: it serves, is not ready while it drains, and
    accepts a new tenant."""
    spec, container, objects = daemon_set(manifests)
    pod = start_pod(spec, container, objects)

    def probe(name):
        return pod.run(0, *container[name]["exec"]["command"]).returncode

    assert pod.serves, pod.log()
    assert procfs.eventually(lambda: probe("readinessProbe") == 0, 60), pod.log()
    assert probe("livenessProbe") == 0
    assert pod.ctl(0, "drain").returncode == 0
    assert probe("readinessProbe") != 0 and probe("livenessProbe") == 0
    assert pod.ctl(0, "resume").returncode == 0 and probe("readinessProbe") == 0
    place = pod.volumes.paths["config"]
    (place / "..2").mkdir()
    for file in (place / "..1").iterdir():
        (place / "..2" / file.name).write_text(file.read_text() + ("[tenant red]\nusers = 1003\nmanaged = yes\n"
                                                                 if file.name == "cloister.conf" else ""))
    (place / "new").symlink_to("..2")
    for path in [place / "new", place / "..2", *(place / "..2").iterdir()]:
        os.lchown(path, pod.volumes.base, pod.volumes.base)
    (place / "new").rename(place / "..data")
    shell, option, script = script_of_the_keeper(manifests)
    assert "while sleep 10;" in script
    done = pod.run(0, shell, option, script.replace("while sleep 10;", "for once in 1;").replace("/metrics/", "/run/cloister/"))
    assert done.returncode == 0 and "3 tenants" in done.stdout, done
    assert "cloister_commands_running" in pod.run(0, "cat", "/run/cloister/cloister.prom").stdout
    succeeds(pod.call(1003, "list_directory", "path=."))


def without(setting, value=None):
    def change(_, context):
        if value is None:
            del context[setting]
        else:
            context[setting] = value
    return change


def capabilities(*names):
    return lambda _, context: context["capabilities"].update(add=list(names))


def default_profile_with_admin(spec, context):
    """CAP_SYS_ADMIN widens the runtime's default profile, but not enough."""
    without("seccompProfile")(spec, context)
    capabilities("SYS_ADMIN")(spec, context)


def as_root(_, context):
    context.update(runAsUser=0, runAsGroup=0)


def without_user(objects):
    """The DaemonSet's configuration without `user`, so that cloisterd stays the pod's root."""
    data = of_kind(objects, "ConfigMap")["data"]
    data["cloister.conf"] = data["cloister.conf"].replace("user = cloister\n", "")


@needs_pods
@pytest.mark.parametrize("change, said", [
    (without("procMount"), ["the configuration requires fresh_proc", "procMount: Unmasked (Kubernetes)"]),
    (without("seccompProfile"), ["the configuration requires system_calls", "clone3", UNCONFINED]),
    (default_profile_with_admin, ["requires system_calls: these system calls are refused: pivot_root, keyctl:", UNCONFINED]),
    (as_root, ["CAP_SETFCAP", "runAsUser: in Kubernetes"]),
], ids=["procMount", "seccompProfile", "SYS_ADMIN", "runAsUser"])
def test_each_setting_of_the_sidecar_is_needed(start_pod, manifests, change, said):
    spec, container, objects = sidecar(manifests)
    change(spec, container["securityContext"])
    pod = start_pod(spec, container, objects)
    assert not pod.serves
    assert all(words in pod.log() for words in said), pod.log()


@needs_pods
@pytest.mark.parametrize("change, said", [
    (without("procMount"), ["the configuration requires fresh_proc"]),
    (without("seccompProfile"), ["the configuration requires system_calls", UNCONFINED]),
    (capabilities(), ["cannot become the user: cloisterd needs CAP_SETUID and CAP_SETGID"]),
    (capabilities("SETGID"), ["cannot become the user: cloisterd needs CAP_SETUID and CAP_SETGID"]),
    (capabilities("SETUID"), ["cannot become the user: cloisterd needs CAP_SETUID and CAP_SETGID"]),
], ids=["procMount", "seccompProfile", "capabilities", "SETUID", "SETGID"])
def test_each_setting_of_the_daemon_set_is_needed(start_pod, manifests, change, said):
    spec, container, objects = daemon_set(manifests)
    change(spec, container["securityContext"])
    pod = start_pod(spec, container, objects)
    assert not pod.serves
    assert all(words in pod.log() for words in said), pod.log()


def test_the_profile_is_that_of_the_sources():
    made = subprocess.run([FLEETS / "make-seccomp"], capture_output=True, text=True, check=True).stdout
    assert made == (FLEETS / "cloister-seccomp.json").read_text(), "run packaging/fleets/make-seccomp"
    (rule,) = json.loads(made)["syscalls"]
    probed = re.findall(r'(?m)^\t\{"(\w+)", ', (ROOT / "supervisor/host/calls_probe.c").read_text())
    assert len(probed) > 10 and set(probed) <= set(rule["names"])
    assert not {"bpf", "init_module", "kexec_load", "io_uring_setup", "open_by_handle_at", "perf_event_open", "userfaultfd", "reboot",
                "swapon", "settimeofday", "add_key", "request_key", "acct"} & set(rule["names"])


@needs_pods
@pytest.mark.parametrize("kind", [sidecar, daemon_set], ids=["sidecar", "daemon_set"])
def test_the_profile_in_place_of_unconfined(start_pod, manifests, kind):
    spec, container, objects = kind(manifests)
    container["securityContext"]["seccompProfile"] = {"type": "Localhost", "localhostProfile": "cloister-seccomp.json"}
    pod = start_pod(spec, container, objects)
    assert pod.serves, pod.log()
    passes(pod, 900 if kind is sidecar else 0)
    assert succeeds(pod.call(1001, "run_command", "command=echo a | tr a b; sleep 0.1 & wait"))["stdout"] == "b\n"
    # A call that only the profile refuses: ENOSYS, not EPERM.
    done = pod.run(0, "python3", "-c", "import ctypes; l = ctypes.CDLL(None, use_errno=True); l.syscall(323, 0); print(ctypes.get_errno())")
    assert done.stdout in ("38\n", ""), done


@needs_pods
def test_system_mode_is_no_containers_roots(start_pod, manifests):
    spec, container, objects = daemon_set(manifests)
    without_user(objects)
    pod = start_pod(spec, container, objects)
    assert not pod.serves and "name the user to become (user = in the configuration)" in pod.log()


def test_the_image_has_what_the_programs_link():
    """The image installs Debian 12's packages of all libraries that the programs are linked with."""
    if "VERSION_ID=\"12\"" not in open("/etc/os-release", encoding="utf-8").read() or is_sanitized():
        pytest.skip("the image is Debian 12, and not of sanitized programs")
    programs = [file for file in (BUILD / "bin").iterdir() if os.access(file, os.X_OK)]
    loaded = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=True).stdout
    libraries = {line.split()[0] for line in loaded.splitlines() if "=> /" in line}
    listed = (FLEETS / "runtime-packages").read_text().split()
    there = subprocess.run(["dpkg", "-L", *listed], capture_output=True, text=True, check=True).stdout
    names = {line.rsplit("/", 1)[1] for line in there.splitlines() if "/" in line}
    # Every image has these. libtinfo comes with libncursesw.
    assert libraries - names <= {"libc.so.6", "libm.so.6", "libresolv.so.2", "libtinfo.so.6", "libgcc_s.so.1"}


def test_the_image_has_the_manifests_users(manifests):
    recipe = (FLEETS / "Containerfile").read_text()
    for line in "useradd --uid 900 --gid 900 ", 'TENANTS="blue green"', "number=1001;", "cloister:2000:60000":
        assert line in recipe
    (sshd,) = [container for container in daemon_set(manifests)[0]["initContainers"] if container["name"] == "sshd"]
    assert sshd["securityContext"]["capabilities"]["add"] == ["SETUID", "SETGID", "SYS_CHROOT"]
    for container in all_containers(daemon_set(manifests)[0]) + [sidecar(manifests)[1]]:
        assert container["image"] in ("cloister:0.1.0", "cloister-ssh:0.1.0")
        assert f"podman build -t {container['image']} " in recipe


SLURM = FLEETS / "slurm"


def rollouts(tmp_path, *words, **variables):
    """Runs the batch script without Slurm."""
    return subprocess.run(["bash", SLURM / "rollouts.sbatch", *words], capture_output=True, text=True, timeout=60, check=False,
                          env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "LOCAL": str(tmp_path / "local"), **variables})


@pytest.fixture
def rollout_place(tmp_path):
    for name in ("bin", "local", "tree"):
        (tmp_path / name).mkdir()
    (tmp_path / "tree/from").write_text("template")
    subprocess.run(["tar", "-C", tmp_path / "tree", "-cf", tmp_path / "template.tar", "from"], check=True)
    return tmp_path


def program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_a_rollout_has_its_copy_of_the_template(rollout_place):
    own = rollout_place / "local" / f"rollouts.{os.getuid()}"
    script = 'cat "$WORKSPACE/from"; echo changed >"$WORKSPACE/from"; echo " $ROLLOUT $1"; exit 7'
    for number in ("3", "4"):
        done = rollouts(rollout_place, "sh", "-c", script, "sh", "word", TEMPLATE=str(rollout_place / "template.tar"), SLURM_ARRAY_TASK_ID=number)
        assert (done.returncode, done.stdout, done.stderr) == (7, f"template {number} word\n", "")
        assert sorted(name.suffix == ".lock" for name in own.iterdir()) == [False, True]  # the template and its lock
    (rollout_place / "template.tar").unlink()
    assert rollouts(rollout_place, "true", TEMPLATE=str(rollout_place / "template.tar")).returncode != 0
    assert not list(own.glob("workspace.*"))


@pytest.mark.parametrize("kind", ["nfs", "lustre", "fuseblk", "UNKNOWN (0x1234)"])
def test_a_rollout_refuses_a_network_file_system(rollout_place, kind):
    program(rollout_place / "bin/stat", f"echo '{kind}'")
    done = rollouts(rollout_place, "true")
    assert done.returncode == 2 and f"network file system ({kind}): set LOCAL" in done.stderr and not list((rollout_place / "local").iterdir())


def test_a_rollout_believes_no_directory_of_others(rollout_place):
    own = rollout_place / "local" / f"rollouts.{os.getuid()}"
    (rollout_place / "elsewhere").mkdir(mode=0o700)
    own.symlink_to(rollout_place / "elsewhere")
    done = rollouts(rollout_place, "true")
    assert done.returncode == 2 and "is not a directory of yours" in done.stderr
    own.unlink()
    own.mkdir()
    own.chmod(0o777)
    assert rollouts(rollout_place, "true").returncode == 2
    assert rollouts(rollout_place).returncode == 2


def test_a_rollout_that_cannot_unpack_is_none(rollout_place):
    (rollout_place / "broken.tar").write_text("no archive")
    for _ in "first", "again":
        done = rollouts(rollout_place, "touch", str(rollout_place / "ran"), TEMPLATE=str(rollout_place / "broken.tar"))
        assert done.returncode != 0 and not (rollout_place / "ran").exists()


# The node's state before, what doctor lacks, what `health` exits with (None: no service), and what scontrol is told.
CHECKS = [
    ("IDLE", None, None, None),
    ("IDLE", "namespaces", None, "State=DRAIN Reason=cloister: cloisterd --doctor lacks namespaces"),
    ("IDLE", "fresh_proc", None, "State=DRAIN Reason=cloister: cloisterd --doctor lacks fresh_proc"),
    ("IDLE", None, 0, None),
    ("IDLE", None, 1, "State=DRAIN Reason=cloister: health of the service: disk: full"),
    ("IDLE", "disk", None, "State=DRAIN Reason=cloister: / has N MiB left"),
    ("IDLE", None, 3, "State=DRAIN Reason=cloister: health of the service: no service"),
    ("IDLE+DRAIN Reason=cloister: x", None, 0, "State=RESUME"),
    ("IDLE+DRAIN Reason=cloister: x", "namespaces", None, None),
    ("IDLE+DRAIN Reason=upgrade", "namespaces", None, None),
    ("IDLE+DRAIN Reason=upgrade", None, 0, None),
]


@pytest.mark.parametrize("state, lacks, health, told", CHECKS)
def test_the_health_check_of_slurm(tmp_path, state, lacks, health, told):
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    program(bin_ / "scontrol", f"""case $1 in show) echo 'NodeName=n State={state}' ;; *) shift; echo "$@" >>{tmp_path}/told ;; esac""")
    program(bin_ / "setpriv", 'while [ "${1#--}" != "$1" ]; do shift; done; exec "$@"')
    program(bin_ / "cloisterd", "".join(
        f"echo '{'missing ' if name == lacks else 'ok      '} {name}';" for name in ("landlock", "system_calls", "namespaces", "fresh_proc")))
    program(bin_ / "cloisterctl", {1: "printf 'UNHEALTHY\\ndisk: full\\n'; exit 1", 3: "echo 'no service' >&2; exit 3"}.get(health, "echo healthy"))
    socket_path = tmp_path / "control.sock"
    if health is not None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(socket_path))
    done = subprocess.run([SLURM / "healthcheck"], capture_output=True, text=True, timeout=60, check=False, env={
        "PATH": f"{bin_}:{os.environ['PATH']}", "SLURMD_NODENAME": "n", "CLOISTER_CONTROL": str(socket_path), "CLOISTER_LOCAL": "/",
        "CLOISTER_LOCAL_FREE": "999999999" if lacks == "disk" else "1"})
    assert done.returncode == 0 and not done.stderr, done
    said = re.sub(r"\d+ MiB", "N MiB", (tmp_path / "told").read_text()).splitlines() if (tmp_path / "told").exists() else []
    assert said == ([f"NodeName=n {told}"] if told else [])
