# SPDX-License-Identifier: Apache-2.0
"""Metrics, in the format of OpenMetrics 1.0."""

import re

import pytest

from audit_log import audited, config

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABELS = r'(?:\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"(?:,(?!\}))?)+\})?'
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}


def families(text):
    """Parses OpenMetrics text strictly. Returns {name: (type, [(suffix, labels, value)])}."""
    assert text.endswith("# EOF\n") and "# EOF" not in text[:-6]
    found, name, kind = {}, None, None
    for line in text.splitlines()[:-1]:
        if line.startswith("# TYPE "):
            match = re.fullmatch(rf"# TYPE ({NAME}) (\w+)", line)
            name, kind = match[1], match[2]
            # Each family comes once, and no name with a suffix is another family's name.
            assert name not in found and kind in SUFFIXES and not name.endswith(("_total", "_bucket", "_count"))
            found[name] = kind, []
        elif line.startswith("# HELP "):
            assert re.fullmatch(rf"# HELP {name} [^\n]+", line) and not found[name][1], line
        else:
            match = re.fullmatch(rf"({NAME})({LABELS}) (\+Inf|[0-9.e+-]+)", line)
            assert match and match[1].startswith(name), line
            suffix = match[1][len(name):]
            assert suffix in SUFFIXES[kind], line
            sample = suffix, match[2], float(match[3])
            assert sample[:2] not in [other[:2] for other in found[name][1]], line
            assert sample[2] >= 0 and (suffix != "_count" or sample[2].is_integer())
            found[name][1].append(sample)
    for name, (kind, samples) in found.items():
        if kind == "histogram":
            check_histogram(samples)
    return found


def check_histogram(samples):
    """Checks that buckets are ordered and cumulative, that +Inf is the count, and that each has its sum."""
    series = {}
    for suffix, labels, value in samples:
        bound = re.search(r',?le="([^"]+)"', labels)
        assert (bound is not None) == (suffix == "_bucket")
        key = labels.replace(bound[0], "") if bound else labels
        series.setdefault(key, {}).setdefault(suffix, []).append((float(bound[1]) if bound else None, value))
    for parts in series.values():
        assert parts["_bucket"] == sorted(parts["_bucket"]) and parts["_bucket"][-1][0] == float("inf")
        values = [value for _, value in parts["_bucket"]]
        assert values == sorted(values) and values[-1] == parts["_count"][0][1] and len(parts["_sum"]) == 1


def test_metrics_are_openmetrics_and_tell_of_each_tenant(audited):
    def total(name):
        with audited.daemon.control() as control:
            kind, samples = families(control.call("metrics")["text"])[f"cloister_{name}"]
        ((_, labels, value),) = [sample for sample in samples if 'tenant="t"' in sample[1]]
        assert kind == "counter" and labels == '{tenant="t"}'
        return value

    assert total("tenant_calls_ended") == 0
    audited.client.run("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
    audited.client.use("list_directory", path=".")
    audited.client.observe("read_file", {"path": "nothing"})
    assert total("tenant_calls_ended") == 3
    usage = [line["usage"] for line in audited.events("call.ended")]
    cpu = sum(one.get("user_us", 0) + one.get("system_us", 0) for one in usage)
    assert cpu > 0 and total("tenant_command_cpu_seconds") == pytest.approx(cpu / 1e6)
    assert total("tenant_call_seconds") == pytest.approx(sum(one["wall_us"] for one in usage) / 1e6)
    # The counters survive a reload.
    assert audited.daemon.reload(config(audited.area))
    assert total("tenant_calls_ended") == 3
