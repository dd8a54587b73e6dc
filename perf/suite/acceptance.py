"""The report of perf/accept: what every step gave, as JSON and as one HTML page that needs no other
file."""

from html import escape

STYLE = """
body { font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; color: #1a1a1a; background: #f4f5f7; }
main { max-width: 1100px; margin: 0 auto; padding: 20px; }
table { border-collapse: collapse; background: #fff; margin: 10px 0; }
th, td { border: 1px solid #dcdfe4; padding: 4px 12px; text-align: left; vertical-align: top; }
th { background: #eceff3; } .bad { color: #b00020; font-weight: 700; }
.good { color: #1b6e3c; font-weight: 700; } pre { white-space: pre-wrap; margin: 0; }
"""
PRIVATE = ("kernel_command_line",)
POINTERS = ((1, "host"), (2, "GPU by peer memory"), (4, "GPU by DMA buffers"))
# mesh_doctor says in its report what is wrong, and every rank but the first ends with 0 or 1.
DOCTOR_GOOD = (0, 4)


def without_private(value):
    if isinstance(value, dict):
        return {key: without_private(one) for key, one in value.items() if key not in PRIVATE}
    return [without_private(one) for one in value] if isinstance(value, list) else value


def is_wrong(outcome):
    points = [point for series in outcome.get("result", {}).get("series", ())
              for point in series["points"]]
    if any(point.get("verified") is False for point in points):
        return True
    good = DOCTOR_GOOD if outcome["step"] == "doctor" else (0,)
    return outcome["code"] not in good


def report_of(outcomes, world, settings):
    silent = sorted(set(range(world)) - {outcome["rank"] for outcome in outcomes})
    wrong = ["%s on rank %d" % (outcome["step"], outcome["rank"]) for outcome in outcomes
             if is_wrong(outcome)]
    wrong += ["rank %d told nothing" % rank for rank in silent]
    return {"format": "nccl-mesh-acceptance", "version": 1,
            "verdict": "not accepted" if wrong else "accepted", "wrong": wrong, "ranks": world,
            "settings": settings, "steps": without_private(outcomes)}


def table(head, rows):
    cells = "".join("<th>%s</th>" % escape(one) for one in head)
    body = "\n".join("<tr>%s</tr>" % "".join("<td>%s</td>" % one for one in row) for row in rows)
    return "<table><tr>%s</tr>\n%s</table>" % (cells, body)


def result_of(report, step):
    for outcome in report["steps"]:
        if outcome["step"] == step and "result" in outcome:
            return outcome["result"]
    return None


def hosts_part(doctor):
    rows = []
    for host in doctor["hosts"]:
        for rail in host["rails"]:
            kinds = [name for bit, name in POINTERS if rail["pointers"] & bit]
            rows.append([escape(host["host"]), escape(host["plugin_version"]), escape(rail["name"]),
                         "%g" % (rail["speed_mbps"] / 1000), str(rail["mtu"]),
                         escape(rail["gid_type"]), escape(", ".join(kinds)),
                         str(len(host["machine"]["gpus"]))])
    return "<h2>Hosts</h2>" + table(["host", "nccl-mesh", "rail", "Gb/s", "MTU", "GID",
                                     "memory that it reads", "GPUs"], rows)


def findings_part(doctor):
    rows = [[escape(one["severity"]), escape(one["name"]), escape(one["host"]),
             escape(one["evidence"]), escape(one["remedy"])] for one in doctor["findings"]]
    if not rows:
        return "<h2>Findings</h2><p>mesh_doctor has none.</p>"
    return "<h2>Findings</h2>" + table(["", "finding", "host", "evidence", "remedy"], rows)


def cables_part(doctor):
    rows = []
    for cable in doctor.get("cables", ()):
        ends = ", ".join("%s -- %s" % (half["a"], half["b"]) for half in cable["halves"])
        for seen in cable["measured"]:
            rows.append([escape(ends), "yes" if seen["passed"] else '<b class="bad">no</b>',
                         "%.1f" % (seen["a_to_b_gbps"] or 0), "%.1f" % (seen["b_to_a_gbps"] or 0),
                         "%.1f" % (seen["latency_us"] or 0)])
    return "<h2>Cables</h2>" + table(["cable", "carries", "Gb/s to the second", "Gb/s to the first",
                                      "us one way"], rows)


def curves_part(report, doctor):
    """Returns the bandwidth by size and queue pairs, and each one's share of the ports' speed."""
    speeds = [rail["speed_mbps"] for host in doctor["hosts"] for rail in host["rails"]]
    speed = min(speeds) / 1000 if speeds else 0
    by_size, heads = {}, []
    for outcome in report["steps"]:
        if not outcome["step"].endswith(" queue pairs") or "result" not in outcome:
            continue
        heads.append(outcome["step"])
        for point in outcome["result"]["series"][0]["points"]:
            gbps = point["bandwidth"]["bus_gbytes_per_s"] * 8
            share = " (%.0f %%)" % (100 * gbps / speed) if speed else ""
            by_size.setdefault(point["bytes"], {})[outcome["step"]] = "%.1f%s" % (gbps, share)
    rows = [[str(size)] + [ways.get(head, "") for head in heads]
            for size, ways in sorted(by_size.items())]
    return "<h2>Bandwidth</h2><p>Gb/s of payload that a rank sends, and the share of the slowest " \
           "port's %g Gb/s.</p>" % speed + table(["bytes"] + heads, rows)


def latency_part(result):
    rows = [[str(point["bytes"]), "%.2f" % point["latency_us"]["median"],
             "%.2f" % point["latency_us"]["p99"]] for point in result["series"][0]["points"]]
    return "<h2>Latency</h2>" + table(["bytes", "us one way, median", "p99"], rows)


def steps_part(report):
    rows = []
    for outcome in report["steps"]:
        bad = is_wrong(outcome)
        rows.append([escape(outcome["step"]), str(outcome["rank"]), '<b class="%s">%s</b>' % (
            ("bad", "exit status %s" % outcome["code"]) if bad else ("good", "good")),
                     "%.1f" % outcome["seconds"],
                     "<pre>%s</pre>" % escape("\n".join(outcome["said"]))])
    return "<h2>Steps</h2>" + table(["step", "rank", "result", "s", "last words"], rows)


def page_of(report):
    kind = "good" if report["verdict"] == "accepted" else "bad"
    parts = ['<h1>nccl-mesh on %d hosts: <span class="%s">%s</span></h1>' %
             (report["ranks"], kind, report["verdict"])]
    parts += ["<p>%s</p>" % escape("; ".join(report["wrong"]))] if report["wrong"] else []
    doctor = result_of(report, "doctor")
    if doctor:
        parts += [hosts_part(doctor), findings_part(doctor), cables_part(doctor),
                  curves_part(report, doctor)]
    latency = result_of(report, "latency")
    parts += [latency_part(latency)] if latency else []
    parts.append(steps_part(report))
    parts.append("<h2>Settings</h2>" + table(["variable", "value"], [
        [escape(name), escape(value)] for name, value in report["settings"].items()]))
    return '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>nccl-mesh: %s</title>' \
           '<style>%s</style><main>%s</main></html>\n' % (report["verdict"], STYLE,
                                                          "\n".join(parts))
