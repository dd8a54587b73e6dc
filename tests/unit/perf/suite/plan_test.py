"""Tests which runs a sweep plans, and where, and how it reads the answers; nothing is started."""

import contextlib
import io
import os
import shlex
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0,
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../perf/suite"))
import arguments
import collect
import lab_place
import perftest
import places
import plan
import results
import samples


def parsed(*words):
    parser = arguments.parser_of()
    options = parser.parse_args(words)
    return options, plan.runs(arguments.lists_of(parser, options))


class Arguments(unittest.TestCase):
    def refused(self, *words):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as end:
            parsed(*words)
        self.assertEqual(end.exception.code, 2)
        return said.getvalue().strip().splitlines()[-1]

    def test_name_what_is_wrong_and_the_range(self):
        for words, said in ((("--qps", "4,33"), "33 is not a number of 1..32"),
                            (("--hosts", "a,b", "--perftest"), "needs --perftest-device"),
                            (("--via", "1"), "--via needs a --fabric of hosts in a row"),
                            (("--pauses", "0,soon"), "soon is not a number of 0..60000 mill")):
            with self.subTest(words=words):
                self.assertIn(said, self.refused(*words))


class Plan(unittest.TestCase):
    def test_every_combination_is_one_run(self):
        _, runs = parsed("--soft", "--operations", "bandwidth,latency", "--qps", "1,4,default",
                         "--signal-interval", "1,16", "--inline", "0,220",
                         "--channels", "1,2", "--outstanding", "1,8", "--pauses", "0")
        self.assertEqual([sum(run.operation == one for run in runs)
                          for one in ("bandwidth", "latency")],
                         [3 * 2 * 2 * 2 * 2, 3 * 2 * 2], "channels are none of a latency's")
        self.assertEqual(len(set(runs)), len(runs))
        self.assertIn({"NCCL_MESH_QPS": "4", "NCCL_MESH_INLINE": "0",
                       "NCCL_MESH_SIGNAL_INTERVAL": "16"}, [run.environment() for run in runs])

    def test_hosts_on_the_way_are_a_curve_of_what_has_two_ends(self):
        fabric = os.path.join(places.ROOT, "perf/fabrics/line4.json")
        options, runs = parsed("--operations", "bandwidth,all_reduce", "--qps", "4", "--via",
                               "0,2", "--fabric", fabric)
        self.assertEqual([(run.operation, run.setting["via"]) for run in runs],
                         [("bandwidth", 0), ("bandwidth", 2), ("all_reduce", 0)])
        shown = places.Soft(options, "build").show(runs)
        self.assertIn("--hosts a,b", shown[0])
        self.assertIn("--hosts a,d --via b,c", shown[1])
        self.assertNotIn("--via", shown[2])
        _, runs = parsed("--model", "--qps", "4", "--via", "0,1")
        self.assertEqual([run.model_arguments()[-2:] for run in runs],
                         [["--qps", "4"], ["--via", "1"]])

    def test_pauses_are_runs_of_the_smallest_size(self):
        _, runs = parsed("--soft", "--operations", "latency,bandwidth", "--qps", "4", "-e", "64")
        self.assertEqual([shlex.join(run.perf_arguments()) for run in runs],
                         ["latency -b 8 -e 64 -f 4 -n 2000 --min-time 100",
                          "latency -b 8 -e 8 -f 4 -n 2000 --pause 0.1",
                          "latency -b 8 -e 8 -f 4 -n 1000 --pause 1",
                          "latency -b 8 -e 8 -f 4 -n 100 --pause 10",
                          "sendrecv --one-way -b 8 -e 64 -f 4 -n 500 --min-time 100 --channels 1 "
                          "--outstanding 8"])
        self.assertTrue(runs[1].title().endswith(" pause_us 100"))
        _, runs = parsed("--quick", "--operations", "latency")
        self.assertEqual([run.setting["pause_us"] for run in runs], [0])

    def test_iterations_grow_with_time_unless_they_were_given(self):
        for words, grows in ((("--soft",), True), (("--soft", "-n", "7"), False),
                             (("--lab",), False)):
            _, runs = parsed(*words, "--operations", "bandwidth")
            self.assertEqual("--min-time" in runs[0].perf_arguments(), grows, words)

    def test_the_model_gets_flags(self):
        _, runs = parsed("--model", "--qps", "1,4", "--signal-interval", "8", "--", "--gbps", "400")
        self.assertEqual(len(runs), 2)
        self.assertIn("--qps 1 --signal-interval 8 --gbps 400",
                      shlex.join(runs[0].model_arguments()))


class Places(unittest.TestCase):
    def test_real_hosts_get_rank_world_and_rendezvous(self):
        options, runs = parsed("--hosts", "east,west,north", "--operations", "latency,all_reduce",
                               "--qps", "2", "--port", "1234", "--pauses", "0")
        shown = places.Hosts(options, "BUILD").show(runs)
        self.assertEqual(len(shown), 2 + 3)
        last = shown[-1]
        for words in ("ssh -o BatchMode=yes north", "RANK=2", "WORLD_SIZE=3",
                      "MESH_RENDEZVOUS=east:1234", "NCCL_MESH_QPS=2",
                      "mesh_perf all_reduce"):
            self.assertIn(words, last)
        self.assertIn("--json", shown[0])
        self.assertNotIn("--json", shown[1])
        self.assertIn("WORLD_SIZE=2", shown[0])

    def test_the_lab_boots_once_for_all(self):
        options, runs = parsed("--lab", "triangle", "--operations", "latency,all_reduce", "--qps",
                               "1,2", "--perftest")
        shown = lab_place.Lab(options, "BUILD").show(runs)
        self.assertEqual(len(shown), 1)
        for words in ("tests/lab/run triangle", "WORLD_SIZE=2", "NCCL_MESH_QPS=2", "suite: begin 6",
                      "ib_send_lat -d rxe_mesh0"):
            self.assertIn(words, shown[0])


class Perftest(unittest.TestCase):
    def test_tables_become_points(self):
        run = plan.Run("ib_write_bw", (("qps", 1), ("outstanding", 8)), plan.Sizes(8, 64, 8), 40)
        made = perftest.series_of(run, [" 64 40 0.40 0.32 0.000625", " 8 40 0.05 0.04 0.000625",
                                        " 8 words 1 2 3", " 8 40"])
        self.assertEqual([point["bytes"] for point in made["points"]], [8, 64])
        self.assertAlmostEqual(made["points"][1]["bandwidth"]["gbytes_per_s"], 0.04)
        run = plan.Run("ib_send_lat", (("qps", 1), ("outstanding", 1)), plan.Sizes(8, 8, 8), 1000)
        made = perftest.series_of(run, [
            " 8       1000          11.52          98.21        12.90     13.02   2.1   19.33   "
            "98.21"
        ])
        self.assertEqual(made["points"][0]["latency_us"],
                         {"min": 11.52, "median": 12.9, "p99": 19.33, "p99.9": 98.21,
                          "samples": 1000})
        results.check(samples.file([made]))


class Collection(unittest.TestCase):
    def setUp(self):
        self.collection = collect.Collection("perf/run", [], [])
        self.run_of = lambda **settings: plan.Run("bandwidth", tuple(dict(
            {"qps": None, "signal_interval": None, "inline_bytes": None, "channels": 1,
             "outstanding": 8}, **settings).items()), None, 1)

    def test_never_mixes_kinds(self):
        self.collection.add(self.run_of(), samples.file([samples.bandwidth()]), None)
        with self.assertRaisesRegex(results.ResultError, "different kinds: model and soft"):
            self.collection.add(self.run_of(), samples.file([samples.bandwidth()], kind="soft"),
                                None)
        with self.assertRaisesRegex(results.ResultError, "measured different fabrics"):
            self.collection.add(self.run_of(), samples.file([samples.bandwidth()], label="another"),
                                None)

    def test_keeps_each_series_once_under_the_settings_asked_for(self):
        for _ in range(2):
            self.collection.add(self.run_of(qps=4),
                                samples.file([samples.bandwidth(), samples.latency()]), None)
        self.assertEqual([(one["operation"], one["qps"])
                          for one in self.collection.value()["series"]],
                         [("sendrecv one way", 4), ("latency", 4)])

    def test_knows_a_ceiling_only_where_nobody_else_does(self):
        known, unknown = samples.bandwidth(12.25, qps=1), samples.bandwidth(12.25, qps=2)
        for point in unknown["points"]:
            point["bandwidth"]["ceiling_gbytes_per_s"] = None
        self.collection.add(self.run_of(), samples.file([known, unknown]), 24.5)
        self.assertEqual([one["points"][0]["bandwidth"]["ceiling_gbytes_per_s"]
                          for one in self.collection.value()["series"]],
                         [12.25, 24.5])

    def test_sees_wrong_data_and_emptiness(self):
        self.assertIsNone(self.collection.value())
        wrong = samples.bandwidth()
        wrong["points"][-1]["verified"] = False
        self.collection.add(self.run_of(), samples.file([wrong]), None)
        self.assertTrue(self.collection.wrong())


if __name__ == "__main__":
    unittest.main()
