#include "perf/model/options.h"

#include "perf/driver/command_line.h"

#include <algorithm>

namespace mesh::model {
namespace {

constexpr std::int64_t kBytesLimit = std::int64_t{1} << 34;
constexpr const char* kFooter =
    "Every figure is the model's: the plugin's engine itself, on computed wires, NICs and call "
    "times, with a clock of its own.\nEqual arguments give equal figures on any machine, and none "
    "of them is a measurement.\nperf/model/fabric_spec.h has the sources of the defaults, and "
    "perf/fabrics/model-*.json are examples for --fabric.";

CLI::Option* add_size(CLI::App& app, const std::string& name, std::size_t& to,
                      const std::string& text) {
  return app.add_option(name, to, text)
      ->transform(driver::size_in(1, kBytesLimit))
      ->option_text("SIZE");
}

void add_load(CLI::App& app, Options& options) {
  app.option_defaults()->group("Sizes");
  add_size(app, "-b,--minbytes", options.bytes_min,
           "Smallest size; K, M, G are powers of 1024 (default 8)");
  add_size(app, "-e,--maxbytes", options.bytes_max, "Largest size (default 1M)");
  app.add_option("-f,--stepfactor", options.step_factor, "Factor between one size and the next")
      ->check(driver::in_range(2, 1024))
      ->capture_default_str();
  app.option_defaults()->group("Load");
  app.add_option("-n,--iters", options.iterations,
                 "Messages per size and channel (default: by size, 100 to 2000)")
      ->check(driver::in_range(2, 1000000));
  app.add_option("--outstanding", options.outstanding,
                 "Messages in flight per channel, for the bandwidth")
      ->check(driver::in_range(1, 32))
      ->capture_default_str();
  app.add_option("--receives", options.receives,
                 "Receives posted in advance per channel, like NCCL's 8 steps")
      ->check(driver::in_range(1, 32))
      ->capture_default_str();
  app.add_option("--channels", options.channels, "Channels, each with the whole load")
      ->check(driver::in_range(1, 64))
      ->capture_default_str();
  app.add_flag("--one-way", options.one_way, "Only the first host sends");
  add_size(app, "--beside", options.beside_bytes,
           "Latency while another channel sends one message of this size");
}

void add_fabric(CLI::App& app, Options& options) {
  app.option_defaults()->group("Fabric");
  FabricSpec& spec = options.spec;
  app.add_option("--gbps", spec.paths,
                 "The cable's rate in Gb/s (default 100); several rates are paths, as in --paths")
      ->delimiter(',')
      ->check(driver::in_range(0.001, 10000.0));
  app.add_option("--paths", spec.paths, "Rates of several paths in Gb/s, separated by commas")
      ->delimiter(',')
      ->check(driver::in_range(0.001, 10000.0));
  app.add_option("--mtu", spec.mtu, "Path MTU in bytes")
      ->check(driver::one_of_numbers({256, 512, 1024, 2048, 4096}));
  app.add_option("--delay-ns", spec.delay_ns, "Delay one way, of NICs and cable")
      ->check(driver::in_range(0, 100000000))
      ->capture_default_str();
  app.add_option(
         "--qp-cap", spec.qp_cap,
         "Most that one queue pair can use: Gb/s, or up to 1 as a share of the first path's rate")
      ->check(driver::in_range(0.001, 10000.0));
  app.add_option("--halves", spec.half,
                 "Serve the cable by two NICs of this rate in Gb/s, each below the cable's; 109 is "
                 "PCIe Gen5 x4")
      ->expected(0, 1)
      ->default_str("109")
      ->check(driver::in_range(0.001, 10000.0));
  app.add_option(
         "--port", spec.port,
         "Rate in Gb/s that every port reports, whatever it carries (default: its real rate)")
      ->check(driver::in_range(0.001, 10000.0));
  app.add_flag("--sites", options.sites,
               "Give each host a site of its own, as NCCL_MESH_SITE does");
  app.add_option("--via", spec.via,
                 "Middle hosts, in a row with one cable each, that carry the messages")
      ->check(driver::in_range(0u, kViaMax));
  add_size(app, "--quantum", spec.quantum_bytes, "Bytes of a queue pair's turn (default 16K)");
  app.add_option("--fabric", options.fabric_file,
                 "Fabric file instead of the options above: its first two hosts, or with --via a "
                 "row of its hosts");
}

void add_costs(CLI::App& app, Options& options) {
  app.option_defaults()->group("Costs");
  const auto add = [&](const char* name, std::uint64_t& to, const char* text) {
    app.add_option(name, to, text)->check(driver::in_range(0, 1000000))->capture_default_str();
  };
  add("--fetch-ns", options.spec.fetch_ns,
      "Time until the NIC has read a work request that is not inline");
  add("--post-ns", options.spec.post_ns, "CPU time of a posted work request");
  add("--doorbell-ns", options.spec.doorbell_ns, "CPU time of a doorbell");
  add("--completion-ns", options.spec.completion_ns, "CPU time of a polled completion");
  add("--start-ns", options.calls.start_ns, "CPU time of our own code in isend and irecv");
  add("--test-ns", options.calls.test_ns, "CPU time of our own code in test");
  add("--end-ns", options.calls.end_ns, "Additional time of each of these calls with --via");
  add("--copy-ps", options.calls.copy_ps, "With --groups: picoseconds a byte of a copy");
  add("--add-ps", options.calls.add_ps, "With --groups: picoseconds a byte of a sum's input");
  add("--chain-ns", options.calls.chain_ns,
      "Time of a middle host's thread for each chain of a turn");
  add("--moved-ns", options.calls.moved_ns,
      "Time of a middle host's thread for each work request that it passes on");
}

void add_settings(CLI::App& app, Options& options) {
  app.option_defaults()->group("Settings of the plugin (its environment is not read)");
  app.add_option("--qps", options.settings.qps,
                 "Bulk queue pairs per path (default: 4, of halves 2)")
      ->check(driver::in_range(1, 32));
  app.add_option("--signal-interval", options.settings.signal_interval,
                 "Signal every n-th work request")
      ->check(driver::in_range(1, 64))
      ->capture_default_str();
  app.add_option("--inline", options.settings.inline_bytes,
                 "Largest message written inline (default: 220)")
      ->check(driver::in_range(0, 512));
  app.add_option("--stripe-bytes", options.settings.stripe_bytes, "Smallest stripe")
      ->transform(driver::size_in(128, 1 << 30))
      ->capture_default_str();
}

// Returns the mistake; empty if there is none.
std::string settle(Options& options) {
  FabricSpec& spec = options.spec;
  if (options.bytes_max < options.bytes_min)
    return "--maxbytes " + std::to_string(options.bytes_max) + " is below --minbytes " +
           std::to_string(options.bytes_min);
  if (std::string why = driver::unwritable(options.json_file); !why.empty()) return why;
  if (spec.paths.size() > 8)
    return "--paths: " + std::to_string(spec.paths.size()) + " paths are not in 1..8";
  if (spec.half > 0 && spec.paths.size() != 1)
    return "--halves: the two halves share one cable, and --paths names several";
  if (spec.via > 0 && (spec.half > 0 || spec.paths.size() != 1))
    return "--via: each host has one cable to the next, so it excludes --halves and several "
           "--paths";
  if ((options.relays || options.both_ways) && spec.via > 0)
    return "--relays and --both-ways choose their middle hosts; omit --via";
  if ((options.relays || options.both_ways) && (spec.half > 0 || spec.paths.size() != 1))
    return "--relays and --both-ways: each host has one cable to the next; omit --halves, and name "
           "one path";
  if (options.groups && (spec.via > 0 || spec.half > 0 || spec.paths.size() != 1))
    return "--groups chooses its cables; omit --via and --halves, and name one path";
  if (spec.half > 0 && spec.half >= spec.paths[0])
    return "--halves: " + std::to_string(spec.half) + " Gb/s is not below the cable's " +
           std::to_string(spec.paths[0]);
  if (spec.qp_cap > 0 && spec.qp_cap <= 1) spec.qp_cap *= spec.paths[0];
  if (options.settings.stripe_bytes % 128 != 0)
    return "--stripe-bytes: " + std::to_string(options.settings.stripe_bytes) +
           " is not a multiple of 128";
  return {};
}

}  // namespace

bool parse_options(int argc, char** argv, Options& options, int* exit_code) {
  CLI::App app(
      "Runs the plugin's engine on modelled links and prints bandwidth and latency by size, like "
      "mesh_perf sendrecv.",
      "mesh_model");
  app.footer(kFooter);
  app.add_flag("--relays", options.relays,
               "Instead of sizes, measure what middle hosts cost, compared with formulas, and the "
               "rate that remains for their own messages");
  app.add_flag("--both-ways", options.both_ways,
               "Instead of sizes, measure how much faster rings of three and four hosts are with "
               "NCCL_MESH_BOTH_WAYS, compared with formulas; takes minutes");
  app.add_flag("--groups", options.groups,
               "Instead of sizes, time one-shot all-reduces of two to eight hosts");
  app.add_option("--json", options.json_file,
                 "Write the results to this file too (format: perf/results/README.md)");
  add_load(app, options);
  add_fabric(app, options);
  add_costs(app, options);
  add_settings(app, options);
  app.option_defaults()->group("Options");
  if (const auto end = driver::parse(app, argc, argv)) {
    *exit_code = *end;
    return false;
  }
  if (app.count("--maxbytes") == 0)
    options.bytes_max = std::max(options.bytes_max, options.bytes_min);
  return driver::settled("mesh_model", settle(options), exit_code);
}

}  // namespace mesh::model
