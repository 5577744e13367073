// Makes a kernel definition of a T1: see KernelOfT1. Private to this folder.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/interchange/t1.h"
#include "server/interchange/t1_sources.h"

namespace tunefarm::interchange {

// What is wrong with Python text, at its place in the file.
absl::Status InText(const T1Text& text, const absl::Status& status);

// Used once: Run. One thread. Refers to what it is made of, which must outlive it.
class KernelMaker {
 public:
  KernelMaker(const T1& t1, const T1KernelOptions& options, const ReadSource& read_source)
      : t1_(t1), options_(options), read_source_(read_source) {}

  absl::StatusOr<ImportedKernel> Run();

 private:
  v1::Kernel& kernel() { return made_.kernel; }
  bool is_cuda() { return kernel().language() == v1::LANGUAGE_CUDA; }
  void Note(std::string note) { made_.notes.push_back(std::move(note)); }
  bool HasParameter(std::string_view name) const {
    return std::any_of(t1_.parameters.begin(), t1_.parameters.end(),
                       [&](const T1Parameter& p) { return p.name == name; });
  }

  absl::Status SetLanguage();
  void SetNames();

  // ProblemSize[i] becomes a dim of one value: the sizes in the file and in its source belong together.
  absl::Status AddProblem();

  // Python text over parameters and the problem, in our language.
  absl::StatusOr<std::string> Translated(const T1Text& text) const;

  // The same for a count: what divides with "/" is cut to an int, as the other tools do.
  absl::StatusOr<std::string> TranslatedInt(const T1Text& text) const;
  absl::Status AddSpace();

  // The declared defaults, or the valid config nearest to them.
  absl::StatusOr<Config> ChooseDefaults(const Space& space);
  absl::Status AddCompileOptions();
  void AddMacro(const std::string& name, const std::string& expression);
  absl::Status AddLaunchFormulas();

  // Whether the outputs' expected values are given by the file: then only its targets are checked.
  void PlanReference();

  // Elements of a vector: an expression over the problem. Parameters in it mean the lists of their values.
  absl::StatusOr<std::string> Length(const T1Argument& argument) const;
  absl::Status AddArguments();
  absl::Status AddScalar(const T1Argument& argument);

  // The data of a vector. An empty fill means the definition's default.
  absl::StatusOr<v1::Fill> FillOf(const T1Argument& argument, const std::string& length);

  // A function of the generated source that sets every element of the argument; a prepare step, or `step` where given.
  absl::StatusOr<std::string> AddElementStep(const T1Argument& argument, const T1Text& generator,
                                             const std::string& verb, const std::string& length, v1::Step* step);
  absl::Status AddBuffer(const T1Argument& argument);
  absl::Status AddSymbol(const T1Argument& argument);
  void AddLaunch(v1::Step* step);
  absl::Status AddReference();
  void SetTolerance();
  absl::Status AddSources();

  // What the checker of definitions refuses is blamed on the place of the T1 that it came from.
  absl::Status Blame(const absl::Status& status) const;
  absl::StatusOr<ImportedKernel> Finish();

  const T1& t1_;
  const T1KernelOptions& options_;
  const ReadSource& read_source_;
  ImportedKernel made_;
  std::vector<std::string> problem_;       // what ProblemSize[i] is written as
  std::vector<std::string> grid_, block_;  // three each
  std::vector<std::string> passed_;        // arguments in the order of the call
  std::vector<ElementFunction> functions_;
  std::set<std::string> counts_;   // scalars with a vector's length that exist
  std::set<std::string> targets_;  // vectors with expected values from the file
  std::map<std::string, std::string> lengths_;
  bool has_output_ = false;
};

}  // namespace tunefarm::interchange
