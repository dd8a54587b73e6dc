// mesh_top shows what running jobs say of themselves in the files that NCCL_MESH_STATS names.
#include "perf/driver/command_line.h"
#include "perf/mesh_top/view.h"
#include "src/base/version.h"

#include <CLI/CLI.hpp>

#include <glob.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <system_error>
#include <vector>

namespace {

namespace fs = std::filesystem;
using mesh::top::Page;
using mesh::top::Process;

constexpr const char* kFooter =
    "FILE is the value of NCCL_MESH_STATS, quoted, with %h and %p for any host and process, or a "
    "folder of such files:\n  NCCL_MESH_STATS=/dev/shm/mesh-%h-%p.prom:1 torchrun ... &   mesh_top "
    "'/dev/shm/mesh-%h-%p.prom'\nA rate is taken between the last two pages of a process. Ctrl-C "
    "ends mesh_top.";

struct Options {
  std::vector<std::string> files;
  double interval_s = 1;
  bool once = false;
};

volatile sig_atomic_t g_over = 0;
void on_signal(int) { g_over = 1; }

// Returns a pattern for the setting's own syntax: a period may follow, and %h and %p are anything.
std::string pattern_of(std::string file) {
  std::error_code none;  // what cannot be looked at is no folder
  if (fs::is_directory(file, none)) return file + "/*.prom";
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
  return pattern;
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
  // Reads every page there is. A file that cannot be read is named once on stderr.
  void look(const std::vector<std::string>& files) {
    for (const std::string& file : files) {
      std::ifstream stream(file);
      const std::string text((std::istreambuf_iterator<char>(stream)), {});
      std::string why;
      auto page = mesh::top::parse_page(text, &why);
      if (page.ok()) {
        take(file, std::move(*page));
      } else if (complained_[file]++ == 0) {
        std::fprintf(stderr, "mesh_top: %s: %s\n", file.c_str(), why.c_str());
      }
    }
  }
  std::vector<Process> processes() const {
    std::vector<Process> all;
    for (const auto& [file, process] : known_) all.push_back(process);
    return all;
  }

 private:
  void take(const std::string& file, Page page) {
    const auto found = known_.find(file);
    if (found == known_.end() || found->second.now.process() != page.process()) {
      known_[file] = {.now = std::move(page), .before = {}};
      return;
    }
    constexpr const char* kTime = "mesh_page_time_seconds";
    Process& process = found->second;
    if (page.value(kTime) > process.now.value(kTime)) process.before = std::move(process.now);
    process.now = std::move(page);
  }

  std::map<std::string, Process> known_;
  std::map<std::string, int> complained_;
};

void show(const std::vector<Process>& processes, bool screen) {
  const std::string text = mesh::top::view(
      processes, {.now_s = static_cast<std::uint64_t>(::time(nullptr)), .colour = screen});
  std::printf("%s%s", screen ? "\033[H\033[J" : "", text.c_str());
  std::fflush(stdout);
}

int run(const Options& options) {
  std::vector<std::string> patterns;
  for (const std::string& file : options.files) patterns.push_back(pattern_of(file));
  Watch watch;
  const bool screen = !options.once && ::isatty(STDOUT_FILENO) == 1;
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
      std::fprintf(stderr, "mesh_top: no page of metrics matches %s\n", patterns.front().c_str());
      return 1;
    }
    show(processes, screen);
    if (options.once) break;
    ::nanosleep(&pause, nullptr);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Shows the links, paths and rates of running jobs from their metrics files.",
               "mesh_top");
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("nccl-mesh ") + mesh::version());
  app.add_option("FILE", options.files, "Metrics files, or folders of them")->required();
  app.add_option("-n,--interval", options.interval_s, "Seconds between two tables")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  app.add_flag("--once", options.once, "Print one table and exit");
  if (const auto end = mesh::driver::parse(app, argc, argv)) return *end;
  return run(options);
}
