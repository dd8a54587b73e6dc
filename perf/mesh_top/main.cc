// mesh_top shows what running jobs say of themselves in the snapshots that NCCL_MESH_STATS asks
// for.
#include "perf/driver/command_line.h"
#include "perf/mesh_top/view.h"
#include "src/base/setting_grammar.h"
#include "src/base/small_file.h"

#include <CLI/CLI.hpp>

#include <glob.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <vector>

namespace {

namespace fs = std::filesystem;
using mesh::top::Process;

constexpr const char* kFooter =
    "FILE is the value of NCCL_MESH_STATS, quoted, with %h and %p for any host and process, or a "
    "folder of such files; mesh_top reads the snapshots (.json) beside the pages of metrics "
    "(.prom):\n  NCCL_MESH_STATS=/dev/shm/mesh-%h-%p.prom:1 torchrun ... &   mesh_top "
    "'/dev/shm/mesh-%h-%p.prom'\nA rate is taken between the last two snapshots of a process. "
    "Ctrl-C ends mesh_top.";

struct Options {
  std::vector<std::string> files;
  double interval_s = 1;
  bool once = false;
  bool as_json = false;
};

volatile sig_atomic_t g_over = 0;
void on_signal(int) { g_over = 1; }

// Returns a pattern of snapshots for the setting's own syntax: a period may follow, and %h and %p
// are anything.
std::string pattern_of(std::string file) {
  std::error_code none;  // what cannot be looked at is no folder
  if (fs::is_directory(file, none)) return file + "/*.json";
  const std::size_t colon = file.rfind(':');
  if (colon != std::string::npos && colon + 1 < file.size() &&
      file.find_first_not_of("0123456789", colon + 1) == std::string::npos)
    file.resize(colon);
  std::string pattern;
  for (std::size_t i = 0; i < file.size(); ++i) {
    const bool place =
        file[i] == '%' && i + 1 < file.size() && (file[i + 1] == 'h' || file[i + 1] == 'p');
    pattern += place ? '*' : file[i];
    if (place) ++i;
  }
  return pattern.ends_with(".json") ? pattern : mesh::snapshot_file_name(pattern);
}

std::vector<std::string> files_of(const std::vector<std::string>& patterns) {
  std::vector<std::string> files;
  for (const std::string& pattern : patterns) {
    glob_t found{};
    if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
      files.insert(files.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
    ::globfree(&found);
  }
  return files;
}

class Watch {
 public:
  // Reads every snapshot there is. A file that cannot be read is named once on stderr.
  void look(const std::vector<std::string>& files) {
    for (const std::string& file : files) {
      const auto text = mesh::read_short_file(file, mesh::kSnapshotBytesMax);
      std::string why = text.ok() ? "" : mesh::errc_name(text.code());
      auto snapshot = text.ok() ? mesh::snapshot_from(*text, &why) : text.status();
      if (snapshot.ok()) {
        take(file, std::move(*snapshot));
      } else if (complained_.insert(file).second) {
        std::fprintf(stderr, "mesh_top: %s: %s\n", file.c_str(), why.c_str());
      }
    }
  }
  bool has_complained() const { return !complained_.empty(); }
  std::vector<Process> processes() const {
    std::vector<Process> all;
    for (const auto& [file, process] : known_) all.push_back(process);
    return all;
  }

 private:
  void take(const std::string& file, mesh::Snapshot snapshot) {
    const auto found = known_.find(file);
    if (found == known_.end() || found->second.now.process.process != snapshot.process.process) {
      known_[file] = {.now = std::move(snapshot), .before = {}};
      return;
    }
    Process& process = found->second;
    if (snapshot.process.now_s > process.now.process.now_s) process.before = std::move(process.now);
    process.now = std::move(snapshot);
  }

  std::map<std::string, Process> known_;
  std::set<std::string> complained_;
};

void show(const std::vector<Process>& processes, const Options& options) {
  const auto now_s = static_cast<std::uint64_t>(::time(nullptr));
  const bool screen = !options.once && !options.as_json && ::isatty(STDOUT_FILENO) == 1;
  const std::string text = options.as_json
                               ? mesh::top::json(processes, now_s)
                               : mesh::top::view(processes, {.now_s = now_s, .colour = screen});
  std::printf("%s%s", screen ? "\033[H\033[J" : "", text.c_str());
  std::fflush(stdout);
}

int run(const Options& options) {
  std::vector<std::string> patterns;
  for (const std::string& file : options.files) patterns.push_back(pattern_of(file));
  Watch watch;
  struct sigaction action {};
  action.sa_handler = on_signal;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  const auto whole = static_cast<time_t>(options.interval_s);
  const timespec pause{
      .tv_sec = whole,
      .tv_nsec = static_cast<long>((options.interval_s - static_cast<double>(whole)) * 1e9)};
  while (g_over == 0) {
    watch.look(files_of(patterns));
    const std::vector<Process> processes = watch.processes();
    // A job that is about to start is waited for if its file has a place for host or process.
    const bool waits = patterns.front().find('*') != std::string::npos;
    if (processes.empty() && (options.once || !waits)) {
      if (!watch.has_complained())
        std::fprintf(stderr, "mesh_top: no snapshot matches %s\n", patterns.front().c_str());
      return 1;
    }
    show(processes, options);
    if (options.once) break;
    ::nanosleep(&pause, nullptr);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Shows the links, paths and rates of running jobs from their snapshots.",
               "mesh_top");
  app.footer(kFooter);
  app.add_option("FILE", options.files, "Files as NCCL_MESH_STATS names them, or folders")
      ->required();
  app.add_option("-n,--interval", options.interval_s, "Seconds between two tables")
      ->check(mesh::driver::in_range(0.1, 3600.0))
      ->capture_default_str();
  app.add_flag("--once", options.once, "Print one table and exit");
  app.add_flag("--json", options.as_json, "Print JSON, one line for each look");
  if (const auto end = mesh::driver::parse(app, argc, argv)) return *end;
  return run(options);
}
