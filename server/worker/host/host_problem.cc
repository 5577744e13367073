#include "server/worker/host/host_problem.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "server/base/memfd.h"
#include "server/base/random.h"
#include "server/base/status.h"
#include "server/worker/host/host_memory.h"
#include "server/worker/host/trial_failure.h"
#include "server/worker/verify/buffer_data.h"
#include "server/worker/verify/data_files.h"
#include "server/worker/verify/fill.h"

namespace tunefarm {
namespace {

// Input sets beside the current one are kept while they take less than this share of the machine's memory.
constexpr uint64_t kKeptInputsDivisor = 4;
// Variants take at most this share of the memory that is available.
constexpr uint64_t kVariantsDivisor = 8;
// Inputs that took longer to build, reference included, get fewer variants, or none.
constexpr Duration kAllVariantsMax = std::chrono::milliseconds(30);
constexpr Duration kOneVariantMax = std::chrono::seconds(1);

Failure MachineryFailure(const absl::Status& status) {
  const bool memory = status.code() == absl::StatusCode::kResourceExhausted;
  return {memory ? v1::OUTCOME_OUT_OF_MEMORY : v1::OUTCOME_LOST, std::string(MessageOf(status)) + "."};
}

double Mebibytes(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

absl::StatusOr<UniqueFd> OpenLibrary(const std::string& artifact) {
  return CreateSealedMemfd("tunefarm-kernel", artifact);
}

Failure HostProblem::Create(std::shared_ptr<const PreparedKernel> kernel, int64_t trial_processes_max,
                            std::unique_ptr<HostProblem>* problem) {
  std::unique_ptr<HostProblem> created(new HostProblem);
  created->trial_processes_max_ = static_cast<uint64_t>(trial_processes_max);
  created->default_config_ = kernel->plan->DefaultConfig(kernel->problem);
  created->tolerance_ = kernel->plan->Tolerance(kernel->problem);
  created->kernel_ = std::move(kernel);
  Failure failure = created->Allocate();
  if (!failure) *problem = std::move(created);
  return failure;
}

Failure HostProblem::Allocate() {
  const absl::StatusOr<std::vector<BufferPlan>> plans =
      kernel_->plan->Buffers(kernel_->problem, default_config_, kernel_->device_class);
  if (!plans.ok()) return DefinitionFailure("The buffers cannot be sized", plans.status());
  uint64_t needed = 0;
  for (const BufferPlan& plan : *plans) {
    const uint64_t bytes = static_cast<uint64_t>(plan.bytes());
    if (!plan.is_constant_symbol) needed += MappedBuffer::FootprintBytes(bytes);
    // The pristine data, and what the reference leaves under each of the two poisons, or what a file says.
    if (StartsWithData(plan)) needed += bytes;
    if (IsOutput(plan)) needed += plan.expected ? bytes : 2 * bytes;
  }
  footprint_bytes_ = static_cast<int64_t>(needed);
  const uint64_t available = AvailableMemoryBytes();
  if (needed > available) {
    return {v1::OUTCOME_OUT_OF_MEMORY,
            fmt::format("The problem needs {:.0f} MiB of memory, but {:.0f} MiB are available.", Mebibytes(needed),
                        Mebibytes(available))};
  }
  for (const BufferPlan& plan : *plans) {
    Buffer buffer;
    buffer.plan = plan;
    if (!plan.is_constant_symbol) {
      absl::StatusOr<MappedBuffer> memory = MappedBuffer::Create(static_cast<size_t>(plan.bytes()));
      if (!memory.ok()) return MachineryFailure(memory.status());
      buffer.memory = *std::move(memory);
    }
    buffers_.push_back(std::move(buffer));
  }
  return {};
}

Failure HostProblem::SelectInputs(uint64_t seed) {
  if (const auto kept = input_sets_.find(seed); kept != input_sets_.end()) {
    current_ = &kept->second;
    return {};
  }
  size_t kept_bytes = 0;
  for (const auto& [kept_seed, set] : input_sets_) kept_bytes += set.bytes;
  if (kept_bytes > PhysicalMemoryBytes() / kKeptInputsDivisor) input_sets_.clear();
  current_ = &input_sets_[seed];
  Failure failure = BuildInputs(seed);
  if (failure) {
    input_sets_.erase(seed);
    current_ = nullptr;
  }
  return failure;
}

Failure HostProblem::BuildVariants() {
  const bool has_symbols = std::any_of(buffers_.begin(), buffers_.end(),
                                       [](const Buffer& buffer) { return buffer.plan.is_constant_symbol; });
  if (has_symbols || !kernel_->plan->HasSequence(Sequence::kReference) || inputs_took_ > kOneVariantMax) return {};
  const int wanted = inputs_took_ > kAllVariantsMax ? 1 : kVariantsMax;
  if (current_->bytes * static_cast<size_t>(wanted) > AvailableMemoryBytes() / kVariantsDivisor) return {};
  const uint64_t seed = current_->seed;
  for (int i = 0; i < wanted; ++i) {
    const uint64_t drawn = NewSeed(EntropySource::Real());
    const Failure failure = SelectInputs(drawn);
    if (failure.sticky) return failure;
    if (failure) break;
    variant_seeds_.push_back(drawn);
  }
  return SelectInputs(seed);
}

int HostProblem::VariantCount() const {
  const bool has_all = std::all_of(variant_seeds_.begin(), variant_seeds_.end(),
                                   [this](uint64_t seed) { return input_sets_.count(seed) > 0; });
  return has_all ? static_cast<int>(variant_seeds_.size()) : 0;
}

void HostProblem::SelectVariant(int variant) { current_ = &input_sets_.at(variant_seed(variant)); }

std::string HostProblem::Note() const {
  for (const Buffer& buffer : buffers_) {
    if (!IsOutput(buffer.plan)) continue;
    const Bytes* const expected = ExpectedOf(buffer.plan, PoisonPattern::kFirst);
    if (expected == nullptr) continue;
    std::optional<PoisonPattern> poison;
    if (IsPoisoned(buffer.plan) && !buffer.plan.expected) poison = PoisonPattern::kFirst;
    const std::optional<double> constant = PassingConstant(buffer.plan.type, *expected, poison, tolerance_);
    if (constant) return ConstantNote(buffer.plan.name, *constant);
  }
  return "";
}

Failure HostProblem::BuildInputs(uint64_t seed) {
  const MonotonicTime start = Clock::Real()->Now();
  current_->seed = seed;
  TUNEFARM_RETURN_IF_FAILED(FillData(seed));
  // The last trial's config may have had a work space of another size.
  const absl::StatusOr<std::vector<BufferPlan>> plans =
      kernel_->plan->Buffers(kernel_->problem, default_config_, kernel_->device_class);
  if (!plans.ok()) return DefinitionFailure("The buffers cannot be sized", plans.status());
  TUNEFARM_RETURN_IF_FAILED(ResizeScratch(*plans));
  TUNEFARM_RETURN_IF_FAILED(RunPrepareSteps());
  if (kernel_->plan->HasSequence(Sequence::kReference)) {
    TUNEFARM_RETURN_IF_FAILED(RunReference(PoisonPattern::kFirst));
    TUNEFARM_RETURN_IF_FAILED(KeepExpected());
  }
  TUNEFARM_RETURN_IF_FAILED(ReadExpected());
  for (const auto& [name, bytes] : current_->data) current_->bytes += bytes.size();
  for (const auto& [name, bytes] : current_->expected_first) current_->bytes += bytes.size();
  for (const auto& [name, bytes] : current_->expected_second) current_->bytes += bytes.size();
  inputs_took_ = Clock::Real()->Now() - start;
  return {};
}

const HostProblem::Bytes& HostProblem::DataOf(const BufferPlan& plan) const {
  return plan.fill.has_file() ? file_data_.at(plan.fill.file().digest()) : current_->data.at(plan.name);
}

const HostProblem::Bytes* HostProblem::ExpectedOf(const BufferPlan& plan, PoisonPattern pattern) const {
  if (plan.expected) return &file_data_.at(plan.expected->digest());
  if (pattern == PoisonPattern::kSecond) {
    const auto second = current_->expected_second.find(plan.name);
    if (second != current_->expected_second.end()) return &second->second;
  }
  const auto first = current_->expected_first.find(plan.name);
  return first == current_->expected_first.end() ? nullptr : &first->second;
}

Failure HostProblem::ReadFile(const BufferPlan& plan, const v1::DataFile& file) {
  DataFileReader reader;
  TUNEFARM_RETURN_IF_FAILED(DataFileReader::Open(*kernel_, file, plan, &reader));
  if (file_data_.count(file.digest()) > 0) return {};
  Bytes data(static_cast<size_t>(plan.bytes()));
  TUNEFARM_RETURN_IF_FAILED(reader.Read(0, data));
  file_data_[file.digest()] = std::move(data);
  return {};
}

Failure HostProblem::ReadExpected() {
  for (const Buffer& buffer : buffers_) {
    if (!IsOutput(buffer.plan) || !buffer.plan.expected) continue;
    TUNEFARM_RETURN_IF_FAILED(ReadFile(buffer.plan, *buffer.plan.expected));
    TUNEFARM_RETURN_IF_FAILED(CheckExpected(buffer.plan, 0, *ExpectedOf(buffer.plan, PoisonPattern::kFirst)));
  }
  return {};
}

Failure HostProblem::FillData(uint64_t seed) {
  for (const Buffer& buffer : buffers_) {
    if (!StartsWithData(buffer.plan)) continue;
    const BufferData from = BufferDataOf(buffer.plan);
    if (from == BufferData::kFile) {
      TUNEFARM_RETURN_IF_FAILED(ReadFile(buffer.plan, buffer.plan.fill.file()));
      TUNEFARM_RETURN_IF_FAILED(CheckIndices(buffer.plan, 0, DataOf(buffer.plan)));
      continue;
    }
    Bytes& data = current_->data[buffer.plan.name];
    data.resize(static_cast<size_t>(buffer.plan.bytes()));
    if (from == BufferData::kPrepareStep) {
      Poison(buffer.plan.type, PoisonPattern::kFirst, data);
      continue;
    }
    const absl::StatusOr<TunefarmFill> fill = PlanFill(buffer.plan.fill, buffer.plan.type, buffer.plan.name, seed);
    if (!fill.ok()) return DefinitionFailure("The inputs cannot be built", fill.status());
    FillElements(*fill, 0, data);
    TUNEFARM_RETURN_IF_FAILED(CheckIndices(buffer.plan, 0, data));
  }
  return {};
}

Failure HostProblem::RunPrepareSteps() {
  if (!kernel_->plan->HasSequence(Sequence::kPreparePerProblem)) return {};
  Reset(PoisonPattern::kFirst);
  TUNEFARM_RETURN_IF_FAILED(RunFromReference(Sequence::kPreparePerProblem, "A prepare step"));
  for (Buffer& buffer : buffers_) {
    if (buffer.plan.is_constant_symbol) continue;
    if (const std::optional<std::string> place = buffer.memory.FindDamage()) {
      return {v1::OUTCOME_OUT_OF_BOUNDS,
              fmt::format("A prepare step wrote {} of buffer {}.", *place, buffer.plan.name)};
    }
    if (BufferDataOf(buffer.plan) != BufferData::kPrepareStep) continue;
    current_->data[buffer.plan.name].assign(buffer.memory.span().begin(), buffer.memory.span().end());
    TUNEFARM_RETURN_IF_FAILED(CheckIndices(buffer.plan, 0, DataOf(buffer.plan)));
  }
  return {};
}

Failure HostProblem::RunReference(PoisonPattern pattern) {
  Reset(pattern);
  TUNEFARM_RETURN_IF_FAILED(RunFromReference(Sequence::kReference, "The reference"));
  if (Failure damage = FindDamage()) {
    return {damage.outcome, "The reference itself is wrong: " + damage.message};
  }
  for (const Buffer& buffer : buffers_) {
    if (!IsOutput(buffer.plan)) continue;
    auto& kept = pattern == PoisonPattern::kFirst ? current_->expected_first : current_->expected_second;
    kept[buffer.plan.name].assign(buffer.memory.span().begin(), buffer.memory.span().end());
  }
  return {};
}

Failure HostProblem::KeepExpected() {
  bool ambiguous = false;
  for (const Buffer& buffer : buffers_) {
    if (!IsOutput(buffer.plan) || !IsPoisoned(buffer.plan)) continue;
    const Bytes& first = current_->expected_first[buffer.plan.name];
    std::vector<std::byte> second = ExpectedUnderSecondPoison(buffer.plan.type, first, &ambiguous);
    if (!std::equal(second.begin(), second.end(), first.begin(), first.end())) {
      current_->expected_second[buffer.plan.name].assign(second.begin(), second.end());
    }
    // It lies in the heap, which forks get a copy of.
    explicit_bzero(second.data(), second.size());
  }
  // Some element equals the poison and may have been written: only a second run tells whether the reference wrote it.
  return ambiguous ? RunReference(PoisonPattern::kSecond) : Failure{};
}

Failure HostProblem::RunFromReference(Sequence sequence, const std::string& what) {
  absl::StatusOr<std::vector<StepPlan>> steps =
      kernel_->plan->Steps(sequence, kernel_->problem, default_config_, kernel_->device_class);
  if (!steps.ok()) return DefinitionFailure(what + " cannot be launched", steps.status());
  TrialProgram program;
  UniqueFd library;
  if (!kernel_->reference_artifact.empty()) {
    absl::StatusOr<UniqueFd> opened = OpenLibrary(kernel_->reference_artifact);
    if (!opened.ok()) return MachineryFailure(opened.status());
    library = *std::move(opened);
    program.library_fd = library.get();
    program.processes_max = trial_processes_max_;
    program.symbols = SymbolCopies();
  }
  const BufferViews views = Views();
  absl::StatusOr<std::vector<HostCall>> calls = PlanCalls(*steps, views, kernel_->reference_lowered_names);
  if (!calls.ok()) {
    return {v1::OUTCOME_LOAD_ERROR, fmt::format("{} could not be loaded: {}.", what, MessageOf(calls.status()))};
  }
  program.sequences.launches = *std::move(calls);
  absl::StatusOr<std::unique_ptr<TrialProcess>> process = TrialProcess::Start(program);
  if (!process.ok()) return TrialNotStarted(process.status());
  TUNEFARM_RETURN_IF_FAILED(FailureOf((*process)->Await(), what, *this));
  TrialCommand launch;
  launch.kind = TrialCommand::kLaunch;
  (*process)->Send(launch);
  return FailureOf((*process)->Await(), what, *this);
}

Failure HostProblem::ResizeScratch(const std::vector<BufferPlan>& plans) {
  for (const BufferPlan& plan : plans) {
    if (!IsScratch(plan)) continue;
    const auto buffer =
        std::find_if(buffers_.begin(), buffers_.end(), [&plan](const Buffer& b) { return b.plan.name == plan.name; });
    if (buffer == buffers_.end()) continue;
    const uint64_t bytes = static_cast<uint64_t>(plan.bytes());
    TUNEFARM_RETURN_IF_FAILED(FillScratch(plan));
    if (buffer->memory.bytes() == bytes) continue;
    buffer->memory = MappedBuffer();
    buffer->plan = plan;
    const uint64_t available = AvailableMemoryBytes();
    absl::StatusOr<MappedBuffer> memory = bytes > available
                                              ? ResourceExhausted("{:.0f} MiB are available", Mebibytes(available))
                                              : MappedBuffer::Create(static_cast<size_t>(bytes));
    if (!memory.ok()) {
      return {v1::OUTCOME_OUT_OF_MEMORY, fmt::format("The config needs a work space {} of {:.0f} MiB: {}.", plan.name,
                                                     Mebibytes(bytes), MessageOf(memory.status()))};
    }
    buffer->memory = *std::move(memory);
  }
  return {};
}

Failure HostProblem::FillScratch(const BufferPlan& plan) {
  if (!StartsWithData(plan)) return {};
  Bytes& data = current_->data[plan.name];
  if (data.size() == static_cast<size_t>(plan.bytes())) return {};
  const absl::StatusOr<TunefarmFill> fill = PlanFill(plan.fill, plan.type, plan.name, current_->seed);
  if (!fill.ok()) return DefinitionFailure("The inputs cannot be built", fill.status());
  data.resize(static_cast<size_t>(plan.bytes()));
  FillElements(*fill, 0, data);
  return {};
}

void HostProblem::ResetBuffer(Buffer* buffer, PoisonPattern pattern) {
  const std::span<std::byte> memory = buffer->memory.span();
  if (buffer->memory.FindDamage()) buffer->memory.RestoreGuards();
  if (StartsWithData(buffer->plan)) {
    const Bytes& data = DataOf(buffer->plan);
    // Inputs are nearly always whole, and comparing is cheaper than dirtying every page.
    if (std::memcmp(memory.data(), data.data(), memory.size()) != 0) {
      std::memcpy(memory.data(), data.data(), memory.size());
    }
  } else if (IsPoisoned(buffer->plan)) {
    Poison(buffer->plan.type, pattern, memory);
  } else {
    std::memset(memory.data(), 0, memory.size());
  }
}

void HostProblem::Reset(PoisonPattern pattern) {
  for (Buffer& buffer : buffers_) {
    if (!buffer.plan.is_constant_symbol && buffer.memory.data() != nullptr) ResetBuffer(&buffer, pattern);
  }
}

Failure HostProblem::FindDamage() const {
  for (const Buffer& buffer : buffers_) {
    if (buffer.plan.is_constant_symbol) continue;
    if (const std::optional<std::string> place = buffer.memory.FindDamage()) {
      return {v1::OUTCOME_OUT_OF_BOUNDS, fmt::format("Buffer {} was written {}.", buffer.plan.name, *place)};
    }
    if (buffer.plan.access != v1::ACCESS_IN) continue;
    const Bytes& data = DataOf(buffer.plan);
    const std::span<const std::byte> memory = buffer.memory.span();
    const auto difference = std::mismatch(memory.begin(), memory.end(), data.begin(), data.end());
    if (difference.first == memory.end()) continue;
    const auto offset = static_cast<size_t>(difference.first - memory.begin());
    return {v1::OUTCOME_OUT_OF_BOUNDS,
            fmt::format("Input buffer {} was changed at byte {} (element {}), but its access is IN.", buffer.plan.name,
                        offset, offset / SizeOf(buffer.plan.type))};
  }
  return {};
}

Failure HostProblem::Verify(PoisonPattern pattern, v1::Verification* verification) const {
  std::vector<BufferComparison> comparisons;
  for (const Buffer& buffer : buffers_) {
    if (!IsOutput(buffer.plan)) continue;
    const Bytes* const expected = ExpectedOf(buffer.plan, pattern);
    if (expected == nullptr) continue;
    std::optional<PoisonPattern> poison;
    if (IsPoisoned(buffer.plan)) poison = pattern;
    comparisons.push_back(Compare(buffer.plan.name, buffer.plan.type, buffer.memory.span(), *expected, poison,
                                  tolerance_, buffer.plan.expected.has_value()));
  }
  Verdict verdict = Judge(comparisons, tolerance_);
  *verification = std::move(verdict.verification);
  if (verdict.passed) return {};
  return {v1::OUTCOME_WRONG_RESULT, verdict.message};
}

BufferViews HostProblem::Views() {
  BufferViews views;
  for (Buffer& buffer : buffers_) {
    if (!buffer.plan.is_constant_symbol) views[buffer.plan.name] = {buffer.plan.type, buffer.memory.span()};
  }
  return views;
}

std::vector<TrialCopy> HostProblem::SymbolCopies() const {
  std::vector<TrialCopy> copies;
  for (const Buffer& buffer : buffers_) {
    if (buffer.plan.is_constant_symbol) {
      const Bytes& data = DataOf(buffer.plan);
      ShareWithForks(data);
      copies.push_back({nullptr, buffer.plan.symbol, data});
    }
  }
  return copies;
}

std::vector<TrialCopy> HostProblem::RestoreCopies() {
  std::vector<TrialCopy> copies;
  for (Buffer& buffer : buffers_) {
    if (buffer.plan.is_constant_symbol || buffer.plan.restore != v1::RESTORE_PER_SAMPLE || IsPoisoned(buffer.plan)) {
      continue;
    }
    // A buffer that starts as zeros has no data of its own yet.
    if (!StartsWithData(buffer.plan)) current_->data[buffer.plan.name].resize(buffer.memory.bytes());
    const Bytes& data = DataOf(buffer.plan);
    ShareWithForks(data);
    copies.push_back({buffer.memory.data(), "", data});
  }
  return copies;
}

std::vector<TrialPoison> HostProblem::PoisonedOutputs() {
  std::vector<TrialPoison> poisons;
  size_t bytes = 0;
  for (Buffer& buffer : buffers_) {
    if (!IsOutput(buffer.plan) || !IsPoisoned(buffer.plan)) continue;
    poisons.push_back({buffer.plan.type, buffer.memory.span()});
    bytes += buffer.memory.bytes();
  }
  if (bytes > kPoisonBytesMax) poisons.clear();
  return poisons;
}

bool HostProblem::IsRepeatable() const {
  return std::all_of(buffers_.begin(), buffers_.end(),
                     [](const Buffer& buffer) { return tunefarm::IsRepeatable(buffer.plan); });
}

std::optional<std::string> HostProblem::Locate(uintptr_t address) const {
  for (const Buffer& buffer : buffers_) {
    if (buffer.plan.is_constant_symbol) continue;
    if (const std::optional<std::string> place = buffer.memory.Locate(address)) {
      return fmt::format("{} of buffer {}", *place, buffer.plan.name);
    }
  }
  return std::nullopt;
}

}  // namespace tunefarm
