#include "tests/unit/plugin/program.h"

namespace mesh::testkit {
namespace {
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> part;
  for (ssize_t got = 0; (got = ::read(fd, part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(got));
  return text;
}

std::vector<char*> null_terminated(std::vector<std::string>& words) {
  std::vector<char*> pointers(words.size() + 1, nullptr);
  std::transform(words.begin(), words.end(), pointers.begin(),
                 [](std::string& word) { return word.data(); });
  return pointers;
}
}  // namespace

Outcome run(std::vector<std::string> command, const std::filesystem::path& root,
            std::vector<std::string> environment) {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) return {};
  std::vector<char*> argv = null_terminated(command);
  std::vector<char*> envp = null_terminated(environment);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(pipe[1], STDOUT_FILENO);
    ::dup2(pipe[1], STDERR_FILENO);
    ::close(pipe[0]);
    if (!root.empty() && (::chroot(root.c_str()) != 0 || ::chdir("/") != 0)) ::_exit(126);
    ::execvpe(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  ::close(pipe[1]);
  Outcome outcome;
  outcome.lines = lines_of(read_all(pipe[0]));
  ::close(pipe[0]);
  int status = 0;
  if (::waitpid(child, &status, 0) == child && WIFEXITED(status))
    outcome.exit_status = WEXITSTATUS(status);
  return outcome;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace mesh::testkit
