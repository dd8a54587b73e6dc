"""Collects the results of many runs in one file. Pure."""

import results


class Collection:
    """The series of runs of one kind. Failures become notes."""

    def __init__(self, tool, arguments, notes):
        self._value = {"format": results.FORMAT, "version": results.VERSION, "kind": None,
                       "label": "", "tool": tool,
                       "arguments": arguments, "place": None, "notes": list(notes), "series": []}
        self._keys = set()

    def add(self, run, outcome, ceiling):
        """outcome: a result file, or only {"series": [...]} of a program that is not ours. ceiling:
        GB/s, for points that have no ceiling of their own."""
        if "kind" in outcome:
            if self._value["kind"] not in (None, outcome["kind"]):
                raise results.ResultError("the runs have figures of different kinds: %s and %s" %
                                          (self._value["kind"], outcome["kind"]))
            self._value["kind"] = outcome["kind"]
            if not self._value["label"]:
                self._value["label"], self._value["place"] = outcome["label"], outcome["place"]
            elif self._value["label"] != outcome["label"]:
                raise results.ResultError("the runs measured different fabrics: %s and %s" %
                                          (self._value["label"], outcome["label"]))
            self._value["place"]["ranks"] = max(self._value["place"]["ranks"],
                                                outcome["place"]["ranks"])
        for series in outcome["series"]:
            self._add_series(run, series, ceiling)

    def _add_series(self, run, series, ceiling):
        # A tool may report a default and an explicit setting alike; we know which was given.
        for key in ("qps", "signal_interval", "inline_bytes"):
            if run.setting[key] is not None:
                series[key] = run.setting[key]
        key = (series["operation"],) + tuple(
            series.get(name, 0) for name in results.SETTINGS + results.LEFT_OUT)
        if key in self._keys or not series["points"]:
            return
        self._keys.add(key)
        for point in series["points"]:
            if ceiling and point.get("bandwidth") and point["bandwidth"].get(
                "ceiling_gbytes_per_s") is None:
                point["bandwidth"]["ceiling_gbytes_per_s"] = ceiling
        self._value["series"].append(series)

    def note(self, text):
        self._value["notes"].append(text)

    def wrong(self):
        """Returns whether some series holds wrong data."""
        return any(point.get("verified") is False for series in self._value["series"]
                   for point in series["points"])

    def value(self):
        """Returns the file's content, or None if there is no result at all."""
        if self._value["kind"] is None:
            return None
        results.check(self._value)
        return self._value
