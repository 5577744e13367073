#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/base/clock.h"
#include "server/base/file.h"
#include "server/base/file_set.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/source_includes.h"
#include "server/exec/frame_limits.h"
#include "server/worker/backend.h"
#include "server/worker/host/host_toolchain.h"

namespace tunefarm {
namespace {

using tunefarm::worker::v1::Result;

constexpr size_t kLogBytesMax = 32 * 1024;
constexpr size_t kLineBytesMax = 1024;
constexpr uint64_t kRuleBytesMax = 4 << 20;

bool Contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// The first line that says what is wrong; else the first line.
std::string FirstError(const std::string& log) {
  std::string first;
  size_t begin = 0;
  while (begin < log.size()) {
    const size_t end = std::min(log.find('\n', begin), log.size());
    const std::string line = log.substr(begin, std::min(end - begin, kLineBytesMax));
    if (Contains(line, "error: ") || Contains(line, " Error: ") || Contains(line, "undefined reference")) return line;
    if (first.empty()) first = line;
    begin = end + 1;
  }
  return first;
}

// What a compiler that did not succeed died of, from how it ended and what it said.
void SetFailure(const CommandResult& command, const std::string& log, Result* result) {
  const auto says = [&log](std::initializer_list<std::string_view> texts) {
    return std::any_of(texts.begin(), texts.end(), [&log](std::string_view text) { return Contains(log, text); });
  };
  if (says({"out of memory", "virtual memory exhausted", "annot allocate memory", "std::bad_alloc"})) {
    result->set_outcome(v1::OUTCOME_OUT_OF_MEMORY);
    result->set_message("The compiler ran out of memory: " + FirstError(log));
    return;
  }
  if (says({"CPU time limit exceeded signal terminated"})) {
    result->set_outcome(v1::OUTCOME_COMPILE_TIMEOUT);
    result->set_message("The compiler used more processor time than it may: " + FirstError(log));
    return;
  }
  if (says({"Bad system call signal terminated", "File size limit exceeded signal terminated"})) {
    result->set_outcome(v1::OUTCOME_SANDBOX_VIOLATION);
    result->set_message("The compiler did what the sandbox forbids: " + FirstError(log));
    return;
  }
  // Of GCC's driver, its linker's, and clang's.
  if (says({"Killed signal terminated", "terminated with signal 9", "unable to execute command: Killed"}) ||
      (!command.exit.exited && command.exit.signal == SIGKILL)) {
    result->set_is_killed(true);
    result->set_outcome(v1::OUTCOME_COMPILE_CRASH);
    result->set_message("The compiler was ended by SIGKILL.");
    return;
  }
  // The driver survives its compiler's death and says so; exit codes above 128 are a shell's (or clang's) way to say
  // it.
  const bool crashed = !command.exit.exited || command.exit.exit_code > 128 ||
                       says({"internal compiler error", "signal terminated program", "PLEASE submit a bug report"});
  if (crashed) {
    result->set_outcome(v1::OUTCOME_COMPILE_CRASH);
    result->set_message(fmt::format("The compiler crashed ({}): {}", command.exit.ToString(), FirstError(log)));
    return;
  }
  result->set_outcome(v1::OUTCOME_COMPILE_ERROR);
  const std::string error = FirstError(log);
  result->set_message(error.empty() ? fmt::format("The compiler ended with {}.", command.exit.ToString()) : error);
}

// The absolute paths among the prerequisites of a rule for make. A list that cannot be read gives a path that is none,
// so that its set is never unchanged.
std::vector<std::string> DependenciesIn(const std::string& path) {
  const absl::StatusOr<std::string> rule = ReadFile(path, kRuleBytesMax);
  if (!rule.ok()) return {""};
  std::vector<std::string> paths;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty() && word.front() == '/') paths.push_back(word);
    word.clear();
  };
  for (size_t i = 0; i < rule->size(); ++i) {
    const char c = (*rule)[i];
    const char next = i + 1 < rule->size() ? (*rule)[i + 1] : '\0';
    if (c == '\\' && next == '\n') {
      ++i;
      end_word();
    } else if ((c == '\\' && (next == ' ' || next == '#')) || (c == '$' && next == '$')) {
      word += next;
      ++i;
    } else if (c == ' ' || c == '\n') {
      end_word();
    } else {
      word += c;
    }
  }
  end_word();
  return paths;
}

// Unlike WriteFileAtomically without a sync: the directory is gone before a power cut could matter.
absl::Status WriteScratchFile(const std::string& path, const std::string& bytes) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return ErrnoStatus(errno, "cannot create {}", path);
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t wrote = write(fd.get(), bytes.data() + done, bytes.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return ErrnoStatus(errno, "cannot write {}", path);
    done += static_cast<size_t>(wrote);
  }
  return absl::OkStatus();
}

// A relative path with nothing that could lead out of the directory. Definitions are checked for this before; what
// lands on the disk is worth a second look.
bool IsInside(const std::string& path) {
  if (path.empty() || path.front() == '/' || Contains(path, "\\") || path.find('\0') != std::string::npos) return false;
  return !Contains("/" + path + "/", "/../");
}

class HostCompileBackend final : public CompileBackend {
 public:
  HostCompileBackend(HostToolchain toolchain, const WorkerOptions& options)
      : toolchain_(std::move(toolchain)),
        scratch_directory_(options.scratch_directory),
        compile_seconds_(options.compile_seconds) {}

  std::string toolchain() const override { return toolchain_.Description(); }

  Result Compile(const PreparedKernel& kernel, const Config& config, PhaseReporter* reporter,
                 std::string* artifact) override {
    reporter->Begin(v1::PHASE_COMPILE);
    const MonotonicTime start = Clock::Real()->Now();
    Result result;
    result.set_phase(v1::PHASE_COMPILE);
    const std::string directory = fmt::format("{}/compile-{}", scratch_directory_, ++compiles_);
    const absl::Status status = CompileIn(directory, kernel, config, &result, artifact);
    if (!status.ok()) {
      // Disk, not config: the daemon tries again elsewhere.
      result.set_outcome(v1::OUTCOME_LOST);
      result.set_message(std::string(MessageOf(status)));
    }
    if (const absl::Status removed = RemoveTree(directory); !removed.ok()) {
      // The next worker begins with an empty directory.
      fmt::print(stderr, "the files of a compile cannot be removed: {}\n", MessageOf(removed));
      result.set_worker_is_damaged(true);
    }
    result.set_compile_ms(std::chrono::duration<double, std::milli>(Clock::Real()->Now() - start).count());
    return result;
  }

 private:
  // Errors are our machinery's; what the config did is in *result.
  absl::Status CompileIn(const std::string& directory, const PreparedKernel& kernel, const Config& config,
                         Result* result, std::string* artifact) {
    const auto constants = kernel.plan->Constants(kernel.problem, config, kernel.device_class);
    if (!constants.ok()) {
      result->set_outcome(v1::OUTCOME_COMPILE_ERROR);
      result->set_message(std::string(MessageOf(constants.status())));
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(WriteSources(directory, kernel, *constants));
    const std::string output = directory + "/kernel.so";
    const int64_t begun_ms = Clock::Real()->WallMs();
    const std::vector<std::string> arguments = Arguments(kernel);
    for (size_t i = 1; i < arguments.size(); ++i) result->add_compile_options(arguments[i]);
    ASSIGN_OR_RETURN(CommandResult command,
                     RunCommand(arguments, directory + "/src", "..", kLogBytesMax, compile_seconds_));
    std::string log = std::move(command.output);
    if (command.truncated) log += "\n(the log is longer; the rest was cut)\n";
    if (!command.exit.ok()) {
      SetFailure(command, log, result);
      if (result->outcome() == v1::OUTCOME_COMPILE_ERROR) {
        *result->mutable_message() += HintOfConstantsInLibraries(kernel.plan->kernel(), *constants, log);
      }
      result->set_log(std::move(log));
      return absl::OkStatus();
    }
    result->set_log(std::move(log));
    absl::StatusOr<std::string> library = ReadFile(output, kArtifactBytesMax);
    if (absl::IsNotFound(library.status())) {
      result->set_outcome(v1::OUTCOME_COMPILE_CRASH);
      result->set_message("The compiler said that all is well, but left no library.");
      return absl::OkStatus();
    }
    if (absl::IsResourceExhausted(library.status())) {
      result->set_outcome(v1::OUTCOME_COMPILE_ERROR);
      result->set_message(
          fmt::format("The binary has more than {} MiB, the most that is taken; give large data at run "
                      "time, as an argument.",
                      kArtifactBytesMax >> 20));
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(library.status());
    *artifact = *std::move(library);
    result->set_outcome(v1::OUTCOME_OK);
    result->set_has_artifact(true);
    std::vector<std::string> inputs = DependenciesIn(directory + "/kernel.d");
    inputs.push_back(toolchain_.path);  // A compiler of the same version may have been built differently.
    SetInputs(ReadFileSet(std::move(inputs), begun_ms), result->mutable_inputs());
    result->mutable_resources()->set_binary_bytes(static_cast<int64_t>(artifact->size()));
    for (const Sequence sequence : {Sequence::kLaunches, Sequence::kPreparePerProblem, Sequence::kPreparePerConfig,
                                    Sequence::kReference, Sequence::kBaseline}) {
      for (const std::string& entry : kernel.plan->Entries(sequence)) (*result->mutable_lowered_names())[entry] = entry;
    }
    return absl::OkStatus();
  }

  absl::Status WriteSources(const std::string& directory, const PreparedKernel& kernel,
                            const std::vector<std::pair<std::string, std::string>>& constants) {
    RETURN_IF_ERROR(MakeDirectories(directory + "/src", 0700));
    RETURN_IF_ERROR(WriteScratchFile(directory + "/tunefarm_config.h", ConfigHeader(kernel.plan->kernel(), constants)));
    for (const v1::SourceFile& source : kernel.plan->kernel().sources()) {
      if (!IsInside(source.path())) return InvalidArgument("the source path '{}' leaves its directory", source.path());
      const std::string path = directory + "/src/" + source.path();
      RETURN_IF_ERROR(MakeDirectories(path.substr(0, path.rfind('/')), 0700));
      RETURN_IF_ERROR(WriteScratchFile(path, source.content()));
    }
    return absl::OkStatus();
  }

  // Relative to the sources, so that the log shows no path of this machine.
  std::vector<std::string> Arguments(const PreparedKernel& kernel) const {
    std::vector<std::string> arguments = {toolchain_.path,
                                          "-x",
                                          "c++",
                                          "-std=c++20",
                                          "-O2",
                                          "-fPIC",
                                          "-shared",
                                          "-fdiagnostics-color=never",
                                          "-I",
                                          ".",
                                          "-MD",
                                          "-MF",
                                          "../kernel.d",
                                          "-include",
                                          "../tunefarm_config.h"};
    const auto& options = kernel.plan->kernel().compile_options();
    arguments.insert(arguments.end(), options.begin(), options.end());
    arguments.insert(arguments.end(), kernel.compile_options.begin(), kernel.compile_options.end());
    arguments.insert(arguments.end(), {"-o", "../kernel.so", "./" + kernel.plan->kernel().sources(0).path()});
    return arguments;
  }

  const HostToolchain toolchain_;
  const std::string scratch_directory_;
  const int compile_seconds_;
  int64_t compiles_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CompileBackend>> MakeHostCompileBackend(const WorkerOptions& options) {
  ASSIGN_OR_RETURN(HostToolchain toolchain, FindHostToolchain(options.host_compiler));
  if (options.scratch_directory.empty()) return FailedPrecondition("the host compiler needs a scratch directory");
  return std::make_unique<HostCompileBackend>(std::move(toolchain), options);
}

}  // namespace tunefarm
