"""The reader takes what the C++ writer is held to, and refuses the rest in so many words."""

import copy
import json
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../../../perf/suite"))
import results

with open(os.path.join(HERE, "../result_cases.json"), encoding="utf-8") as stream:
    CASES = json.load(stream)


def patched(document, patch):
    """One RFC 6902 operation of add, replace and remove."""
    changed = copy.deepcopy(document)
    *path, last = patch["path"].strip("/").split("/")
    place = changed
    for key in path:
        place = place[int(key)] if isinstance(place, list) else place[key]
    key = int(last) if isinstance(place, list) else last
    if patch["op"] == "remove":
        del place[key]
    else:
        place[key] = patch["value"]
    return changed


class Results(unittest.TestCase):
    def test_takes_what_is_right(self):
        self.assertEqual(results.from_json(json.dumps(CASES["good"])), CASES["good"])

    def test_refuses_what_is_wrong_by_name(self):
        for case in CASES["bad"]:
            with self.subTest(case["path"], value=case.get("value")):
                with self.assertRaises(results.ResultError) as refused:
                    results.from_json(json.dumps(patched(CASES["good"], case)))
                self.assertEqual(str(refused.exception), case["says"])

    def test_names_the_file_that_cannot_be_used(self):
        for text in ("{", '{"format": NaN}'):
            with self.assertRaisesRegex(results.ResultError, "^not JSON$"):
                results.from_json(text)
        with self.assertRaisesRegex(results.ResultError, "^/nowhere/a.json: cannot be opened$"):
            results.read("/nowhere/a.json")

    def test_writes_only_what_it_would_read(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.json")
            results.write(path, CASES["good"])
            self.assertEqual(results.read(path), CASES["good"])
            with self.assertRaises(results.ResultError):
                results.write(path, dict(CASES["good"], kind="fast"))


if __name__ == "__main__":
    unittest.main()
