# SPDX-License-Identifier: Apache-2.0
"""The metrics as text for Prometheus, in both formats, checked with promtool."""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import procfs
import pytest

from cloister_client import RpcError
from daemon import BUILD, ROOT, environment

MONITORING = ROOT / "packaging" / "monitoring"
RULES = MONITORING / "cloister.rules.yml"
DASHBOARD = MONITORING / "grafana-dashboard.json"

def need(tool):
    """Skips the test without the tool. In CI it fails."""
    if shutil.which(tool):
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"{tool} is not installed")
    pytest.skip(f"{tool} is not installed")


def promtool(*words, text=None):
    need("promtool")
    return subprocess.run(["promtool", *words], input=text, text=True, capture_output=True, check=False, timeout=60)


@pytest.fixture
def watched(start_daemon, area):
    """A daemon with an audit log and two tenants. Its agent has made calls that succeeded, failed and were refused."""
    directory = area.new_directory("audit")
    directory.chmod(0o700)
    account = area.account
    daemon = start_daemon(config=f"""[cloister]
admin_group = {account.gid}
audit = on
audit_file = {directory}/log
[tenant first]
users = {account.uid}
managed = yes
[tenant second.name-2]
managed = yes
""")
    with daemon.connect() as client:
        client.call("workspace.open", {"workspace": "w"})
        client.run("true")
        client.fail("read_file", path="absent")
        client.fail("read_file", path="/etc/passwd")
    return daemon


def text_of(daemon, *words):
    done = daemon.ctl("metrics", *words)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def series(text):
    """Returns the names and labels of all samples, without values."""
    return sorted(line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#"))


def families(text):
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))


def test_promtool_accepts_the_metrics(watched):
    done = promtool("check", "metrics", text=text_of(watched, "--format=prometheus"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_promtool_refuses_the_other_format(watched):
    """promtool refuses OpenMetrics, in which a counter's family has no "_total": in Prometheus's text format such a
    counter has no family."""
    done = promtool("check", "metrics", text=text_of(watched))
    assert done.returncode != 0 and "cloister_calls_total no help text" in done.stderr


def test_both_formats_have_the_same_samples(watched):
    prometheus, openmetrics = (text_of(watched, *words) for words in (("--format=prometheus",), ()))
    assert series(prometheus) == series(openmetrics)
    assert text_of(watched, "--format=openmetrics").splitlines()[-1] == "# EOF" == openmetrics.splitlines()[-1]
    assert "# EOF" not in prometheus
    named = {name + ("_total" if kind == "counter" else ""): kind for name, kind in families(openmetrics).items()}
    assert named == families(prometheus) and len(named) > 30
    # Every sample has the name of its family.
    for name in series(prometheus):
        name = re.sub(r"\{.*", "", name)
        assert name in named or re.sub(r"_(bucket|count|sum)$", "", name) in named, name


def test_another_format_is_refused(watched):
    done = watched.ctl("metrics", "--format=json")
    assert done.returncode == 2 and not done.stdout
    assert 'format must be "openmetrics" or "prometheus"' in done.stderr.decode()
    with watched.control() as control:
        for wrong in ("", "Prometheus", 1, None):
            with pytest.raises(RpcError) as caught:
                control.call("metrics", {"format": wrong})
            assert caught.value.code == -32602


def test_what_was_built_and_when_it_started(watched):
    text = text_of(watched, "--format=prometheus")
    with watched.control() as control:
        status = control.call("status")
    assert f'cloister_build_info{{version="{status["version"]}"}} 1\n' in text
    (started,) = re.findall(r"^cloister_start_time_seconds (\S+)$", text, re.MULTILINE)
    boot = float(re.search(r"^btime (\d+)$", pathlib.Path("/proc/stat").read_text(), re.M)[1])
    ticks = procfs.started(watched.pid) / os.sysconf("SC_CLK_TCK")
    assert float(started) == pytest.approx(boot + ticks, abs=60)
    assert status["uptime_ms"] > 0
    # The start time does not change while cloisterd runs.
    assert f"cloister_start_time_seconds {started}\n" in text_of(watched)


def test_workspaces_make_no_series(watched):
    """The number of series does not depend on the number of workspaces and commands."""
    before = series(text_of(watched))
    with watched.connect() as client:
        for i in range(5):
            client.call("workspace.open", {"workspace": f"other{i}"})
            client.wait(client.begin("run_command", {"command": f"true {i}"}, workspace=f"other{i}"))
    assert series(text_of(watched)) == before


# The rules and the dashboard


def names_in(expressions):
    return {name for expression in expressions for name in re.findall(r"\bcloister_[a-z_]+\b", expression)}


def rule_expressions():
    return re.findall(r"^ +expr: (.*)$", RULES.read_text(), re.MULTILINE)


def panels():
    return json.loads(DASHBOARD.read_text())["panels"]


def dashboard_expressions():
    return [target["expr"] for panel in panels() for target in panel["targets"]]


def labels_of(text):
    """{metric: names of its labels}"""
    found = {}
    for name in series(text):
        metric, _, rest = name.partition("{")
        found.setdefault(metric, set()).update(re.findall(r'(\w+)="', rest))
    return found


@pytest.mark.parametrize("expressions", [rule_expressions, dashboard_expressions])
def test_what_is_asked_for_exists(watched, expressions):
    """Each metric of an expression, and each label that it is selected or grouped by, is one that cloisterd gives."""
    there = labels_of(text_of(watched, "--format=prometheus"))
    asked = expressions()
    assert len(asked) >= 10 and names_in(asked) <= set(there), names_in(asked) - set(there)
    for expression in asked:
        labels = set(re.findall(r'(\w+)(?:=|!=|=~)"', expression))
        for group in re.findall(r"by \(([^)]*)\)", expression):
            labels |= set(group.split(", "))
        known = set().union(*(there[name] for name in names_in([expression])), {"instance", "file"})
        assert labels <= known, (expression, labels - known)


def test_every_refusal_or_loss_that_is_counted_alerts():
    """A new metric of something lost gets an alert, or is named here with a reason."""
    counted = set(re.findall(r'"(\w+_lost|refused)"', (ROOT / "supervisor/control/control_metrics.c").read_text()))
    assert len(counted) >= 5
    # A spare cell that is lost costs no call; another one is made.
    asked = names_in(rule_expressions())
    assert {f"cloister_{name}_total" for name in counted - {"spare_cells_lost"}} <= asked


def test_promtool_accepts_the_rules():
    done = promtool("check", "rules", str(RULES))
    assert done.returncode == 0 and f"{len(rule_expressions())} rules found" in done.stdout, done


# What makes each alert fire: series with their values at 0, 1, 2 ... minutes, as `promtool test rules` writes them.
FIRING = {
    "CloisterMetricsOld": {'node_textfile_mtime_seconds{file="/x/cloister.prom"}': "0x30"},
    "CloisterRestarted": {"cloister_start_time_seconds": "100x10 700x20"},
    "CloisterSelftestFailed": {'cloister_selftest_probes{result="failed"}': "1x30"},
    "CloisterUnhealthy": {'cloister_unhealthy{reason="disk"}': "1x30"},
    "CloisterAuditNotWritable": {"cloister_audit_writable": "0x30"},
    "CloisterAuditLinesLost": {"cloister_audit_lines_lost_total": "0x15 1x15"},
    "CloisterCellsLost": {"cloister_cells_lost_total": "0+1x30", "cloister_files_processes_lost_total": "0x30"},
    "CloisterWorkspaceHeld": {'cloister_workspaces{state="quarantined"}': "1x30"},
    "CloisterCallsWait": {'cloister_calls_in_flight{state="waiting"}': "3x30"},
    "CloisterRefuses": {'cloister_refused_total{limit="calls"}': "0+600x30"},
    "CloisterSharedBudgetShort": {'cloister_shared_budget_enough_for{budget="terminals"}': "4x30",
                                  'cloister_workspaces{state="open"}': "5x30"},
    "CloisterLogLinesLost": {"cloister_log_lines_lost_total": "0x15 9x15"},
    "CloisterVersionsDiffer": {'cloister_build_info{version="1",instance="a"}': "1x1500",
                               'cloister_build_info{version="2",instance="b"}': "1x1500"},
}
# The same series where nothing is wrong.
QUIET = {
    "CloisterMetricsOld": {'node_textfile_mtime_seconds{file="/x/cloister.prom"}': "0+60x30"},
    "CloisterRestarted": {"cloister_start_time_seconds": "100x30"},
    "CloisterSelftestFailed": {'cloister_selftest_probes{result="failed"}': "0x30",
                               'cloister_selftest_probes{result="skipped"}': "3x30"},
    "CloisterUnhealthy": {'cloister_unhealthy{reason="disk"}': "0x30", 'cloister_unhealthy{reason="commands"}': "1x30"},
    "CloisterAuditNotWritable": {"cloister_audit_writable": "1x30"},
    "CloisterAuditLinesLost": {"cloister_audit_lines_lost_total": "7x30"},
    "CloisterCellsLost": {"cloister_cells_lost_total": "5x30", "cloister_files_processes_lost_total": "1x30"},
    "CloisterWorkspaceHeld": {'cloister_workspaces{state="quarantined"}': "0x30",
                              'cloister_workspaces{state="open"}': "9x30"},
    "CloisterCallsWait": {'cloister_calls_in_flight{state="waiting"}': "3 3 0 3 3 3 3 0 3 3 3 3 3 3 0x20"},
    "CloisterRefuses": {'cloister_refused_total{limit="calls"}': "0+6x30"},
    "CloisterSharedBudgetShort": {'cloister_shared_budget_enough_for{budget="terminals"}': "4096x30",
                                  'cloister_workspaces{state="open"}': "5x30"},
    "CloisterLogLinesLost": {"cloister_log_lines_lost_total": "9x30"},
    "CloisterVersionsDiffer": {'cloister_build_info{version="1",instance="a"}': "1x1500",
                               'cloister_build_info{version="1",instance="b"}': "1x1500"},
}


def with_instance(name):
    if "instance=" in name:
        return name
    return name[:-1] + ',instance="a"}' if name.endswith("}") else name + '{instance="a"}'


def alerts(tmp_path, alert, values):
    """Which alerts fire at the end. promtool compares them with none, and names what it got instead."""
    minutes = 1500 if alert == "CloisterVersionsDiffer" else 24
    test = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [{
        "interval": "1m",
        "input_series": [{"series": with_instance(name), "values": value} for name, value in values.items()],
        "alert_rule_test": [{"eval_time": f"{minutes}m", "alertname": alert, "exp_alerts": []}]}]}
    path = tmp_path / "test.yml"
    path.write_text(json.dumps(test))
    done = promtool("test", "rules", str(path))
    assert done.returncode == 0 or f"alertname: {alert}" in done.stderr + done.stdout, done
    return done.returncode != 0


@pytest.mark.deep("slow", only=["CloisterVersionsDiffer"])
@pytest.mark.parametrize("alert", re.findall(r"alert: (\w+)", RULES.read_text()))
def test_each_alert_fires_when_it_should(tmp_path, alert):
    assert alerts(tmp_path, alert, FIRING[alert])
    assert not alerts(tmp_path, alert, QUIET[alert])


def test_the_dashboard_can_be_imported():
    """Panels have their own numbers and places, and the data source is the one that is chosen."""
    shown = panels()
    assert len({panel["id"] for panel in shown}) == len(shown) > 15
    places = [(place["x"] + dx, place["y"] + dy) for panel in shown for place in [panel["gridPos"]]
              for dx in range(place["w"]) for dy in range(place["h"])]
    assert len(places) == len(set(places)) and max(x for x, _ in places) < 24
    sources = re.findall(r'"uid": "([^"]*)"', DASHBOARD.read_text())
    assert set(sources) == {"${datasource}", "cloister"}


def test_expressions_of_the_dashboard_are_promql(tmp_path):
    """As rules, which promtool parses; Grafana's variables stand for what they can be."""
    groups = {"groups": [{"name": "dashboard", "rules": [
        {"record": f"panel:{i}", "expr": expression.replace("$__rate_interval", "5m")}
        for i, expression in enumerate(dashboard_expressions())]}]}
    path = tmp_path / "dashboard.yml"
    path.write_text(json.dumps(groups))
    done = promtool("check", "rules", str(path))
    assert done.returncode == 0, done
    groups["groups"][0]["rules"][0]["expr"] = "sum(("
    path.write_text(json.dumps(groups))
    assert promtool("check", "rules", str(path)).returncode != 0


def test_what_the_timer_runs(watched, area):
    """The command of cloister-metrics.service leaves one whole file, which promtool accepts; it keeps the old one where
    cloisterd does not answer."""
    (line,) = re.findall(r"^ExecStart=(.*)$", (BUILD / "packaging/systemd/cloister-metrics.service").read_text(), re.MULTILINE)
    shell, option, script = shlex.split(line)
    script = re.sub(r"\S*/cloisterctl", f"{area.bin}/cloisterctl", script)
    directory = area.new_directory("textfile")

    def run(socket):
        return area.start([shell, option, script], cwd=directory, stderr=subprocess.PIPE,
                          env={**environment(area.home), "CLOISTER_CONTROL_SOCKET": str(socket)})

    with run(watched.control_socket) as process:
        assert process.wait(60) == 0
    assert os.listdir(directory) == ["cloister.prom"]
    text = (directory / "cloister.prom").read_text()
    assert series(text) == series(text_of(watched))
    assert promtool("check", "metrics", text=text).returncode == 0
    with run("/nowhere") as process:
        assert process.wait(60) != 0
    assert (directory / "cloister.prom").read_text() == text
