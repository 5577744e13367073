#include "server/worker/cuda/cuda_problem.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "server/base/status.h"
#include "server/worker/verify/buffer_data.h"
#include "server/worker/verify/data_files.h"
#include "server/worker/verify/expected_file.h"
#include "server/worker/verify/fill.h"

namespace tunefarm::cuda {
namespace {

bool NeedsPristine(const BufferPlan& plan) { return StartsWithData(plan) && !IsInput(plan); }

// Whether something says what the outputs of a kernel must be: a reference, or a file for this one.
bool HasExpected(const KernelPlan& kernel, const BufferPlan& plan) {
  return IsOutput(plan) && (plan.expected.has_value() || kernel.HasSequence(Sequence::kReference));
}

uint64_t BytesOf(const BufferPlan& plan) { return static_cast<uint64_t>(plan.bytes()); }
uint64_t ElementsOf(const BufferPlan& plan) { return static_cast<uint64_t>(plan.length); }

// Poisoning so much takes some microseconds, a part of what a flush takes.
constexpr uint64_t kPoisonBytesMax = uint64_t{4} << 20;

double Mebibytes(double bytes) { return bytes / (1 << 20); }

}  // namespace

CudaProblem::CudaProblem(const RunTools& tools, std::shared_ptr<const PreparedKernel> kernel)
    : tools_(tools),
      kernel_(std::move(kernel)),
      default_config_(kernel_->plan->DefaultConfig(kernel_->problem)),
      tolerance_(kernel_->plan->Tolerance(kernel_->problem)) {}

Failure CudaProblem::Create(const RunTools& tools, std::shared_ptr<const PreparedKernel> kernel,
                            std::unique_ptr<CudaProblem>* problem) {
  std::unique_ptr<CudaProblem> created(new CudaProblem(tools, std::move(kernel)));
  TUNEFARM_RETURN_IF_FAILED(created->Allocate());
  *problem = std::move(created);
  return {};
}

Failure CudaProblem::Allocate() {
  const absl::StatusOr<std::vector<BufferPlan>> plans =
      kernel_->plan->Buffers(kernel_->problem, default_config_, kernel_->device_class);
  if (!plans.ok()) return DefinitionFailure("The buffers cannot be sized", plans.status());
  double needed = 0;  // double: sums of hostile lengths must not wrap
  for (const BufferPlan& plan : *plans) {
    const double bytes = static_cast<double>(GuardedBuffer::FootprintBytes(BytesOf(plan)));
    needed += bytes * (1 + (NeedsPristine(plan) ? 1 : 0) + (HasExpected(*kernel_->plan, plan) ? 1 : 0));
  }
  uint64_t free = 0, total = 0;
  TUNEFARM_RETURN_IF_FAILED(tools_.gpu.FreeBytes(&free, &total));
  if (kernel_->standby && (needed > static_cast<double>(total) / 4 || needed > static_cast<double>(free) / 2)) {
    return {
        v1::OUTCOME_OUT_OF_MEMORY,
        fmt::format("The problem needs {:.0f} MiB; {:.0f} of {:.0f} MiB are free, and a standby leaves room for as "
                    "much again.",
                    Mebibytes(needed), Mebibytes(static_cast<double>(free)), Mebibytes(static_cast<double>(total)))};
  }
  if (needed > static_cast<double>(free)) {
    return {v1::OUTCOME_OUT_OF_MEMORY,
            fmt::format("The problem needs {:.0f} MiB of device memory, but {:.0f} MiB are free.", Mebibytes(needed),
                        Mebibytes(static_cast<double>(free)))};
  }
  footprint_bytes_ = static_cast<int64_t>(needed);
  for (const BufferPlan& plan : *plans) {
    Buffer buffer;
    buffer.plan = plan;
    TUNEFARM_RETURN_IF_FAILED(AllocateBuffer(&buffer));
    if (HasExpected(*kernel_->plan, plan)) TUNEFARM_RETURN_IF_FAILED(AllocateGuarded(BytesOf(plan), &buffer.expected));
    buffers_.push_back(std::move(buffer));
  }
  return {};
}

Failure CudaProblem::AllocateGuarded(uint64_t bytes, GuardedBuffer* buffer) {
  TUNEFARM_RETURN_IF_FAILED(GuardedBuffer::Allocate(tools_.gpu, bytes, buffer));
  return tools_.harness.FillGuards(*buffer);
}

Failure CudaProblem::AllocateBuffer(Buffer* buffer) {
  TUNEFARM_RETURN_IF_FAILED(AllocateGuarded(BytesOf(buffer->plan), &buffer->memory));
  return NeedsPristine(buffer->plan) ? AllocateGuarded(BytesOf(buffer->plan), &buffer->pristine) : Failure{};
}

Failure CudaProblem::SelectInputs(uint64_t seed, const std::function<void()>& between) {
  if (seed_ == seed) return {};
  seed_.reset();
  TUNEFARM_RETURN_IF_FAILED(BuildInputs(seed, between));
  seed_ = seed;
  return {};
}

Failure CudaProblem::Pause(const std::function<void()>& between) {
  if (!between) return {};
  TUNEFARM_RETURN_IF_FAILED(tools_.gpu.Synchronize("Building the inputs failed"));
  between();
  return {};
}

Failure CudaProblem::BuildInputs(uint64_t seed, const std::function<void()>& between) {
  TUNEFARM_RETURN_IF_FAILED(ForgetChangedFiles());
  sealed_.clear();
  const absl::StatusOr<std::vector<BufferPlan>> plans =
      kernel_->plan->Buffers(kernel_->problem, default_config_, kernel_->device_class);
  if (!plans.ok()) return DefinitionFailure("The buffers cannot be sized", plans.status());
  seed_ = seed;  // for work space that starts with data
  Failure failure = ResizeScratch(*plans);
  seed_.reset();
  if (failure) return failure;
  for (Buffer& buffer : buffers_) {
    if (!StartsWithData(buffer.plan)) continue;
    TUNEFARM_RETURN_IF_FAILED(FillData(&buffer, seed, between));
    TUNEFARM_RETURN_IF_FAILED(Pause(between));
  }
  bool taken = false;
  TUNEFARM_RETURN_IF_FAILED(TakeReference(seed, &taken));
  TUNEFARM_RETURN_IF_FAILED(Pause(between));
  std::unique_ptr<LoadedModule> module;
  if (!taken || kernel_->plan->HasSequence(Sequence::kPreparePerProblem)) {
    TUNEFARM_RETURN_IF_FAILED(LoadReference(&module));
    TUNEFARM_RETURN_IF_FAILED(RunPrepareSteps(module.get()));
    TUNEFARM_RETURN_IF_FAILED(Pause(between));
  }
  if (!taken) TUNEFARM_RETURN_IF_FAILED(BuildReference(module.get(), between));
  TUNEFARM_RETURN_IF_FAILED(Pause(between));
  return Seal();
}

Failure CudaProblem::LoadReference(std::unique_ptr<LoadedModule>* module) {
  if (kernel_->reference_artifact.empty()) return {};
  Failure failure = LoadedModule::Load(tools_.gpu, *kernel_->plan, kernel_->reference_artifact,
                                       kernel_->reference_lowered_names, module);
  if (!failure) failure = WriteSymbols(module->get());
  if (failure) failure.message = "The reference's binary: " + failure.message;
  return failure;
}

Failure CudaProblem::BuildReference(LoadedModule* module, const std::function<void()>& between) {
  for (Buffer& buffer : buffers_) {
    if (!IsOutput(buffer.plan) || !buffer.plan.expected || buffer.holds_expected) continue;
    TUNEFARM_RETURN_IF_FAILED(
        ReadFile(*buffer.plan.expected, buffer.plan, CheckExpected, buffer.expected.data(), between));
    buffer.holds_expected = true;
  }
  if (!kernel_->plan->HasSequence(Sequence::kReference)) return {};
  TUNEFARM_RETURN_IF_FAILED(RunReference(PoisonPattern::kFirst, module));
  bool ambiguous = false;
  TUNEFARM_RETURN_IF_FAILED(FindAmbiguity(&ambiguous));
  return ambiguous ? RunReference(PoisonPattern::kSecond, module) : Failure{};
}

std::string CudaProblem::ReferenceKey(uint64_t seed) const {
  return fmt::format("{}|{}|{}", kernel_->plan->kernel_id(), kernel_->problem.key, seed);
}

std::string CudaProblem::PackReference(uint64_t bytes_max) {
  // What files say, every worker reads itself.
  if (!seed_.has_value() || !kernel_->plan->HasSequence(Sequence::kReference)) return "";
  uint64_t bytes = 0;
  for (const Buffer& buffer : buffers_) bytes += buffer.expected.bytes() + buffer.expected_second.bytes();
  if (bytes == 0 || bytes + (1 << 16) > bytes_max) return "";
  std::vector<std::string> blocks;
  for (const auto kept : {&Buffer::expected, &Buffer::expected_second}) {
    for (const Buffer& buffer : buffers_) {
      const GuardedBuffer& memory = buffer.*kept;
      if (memory.empty()) continue;
      std::string& block = blocks.emplace_back(memory.bytes(), '\0');
      // What cannot be read now is found out by the first trial.
      if (tools_.gpu.CopyToHost(memory.data(), block.data(), block.size())) return "";
    }
  }
  return PackExpected(ReferenceKey(*seed_), blocks);
}

std::string CudaProblem::Note() const {
  constexpr uint64_t kBytesMax = uint64_t{8} << 20;
  for (const Buffer& buffer : buffers_) {
    if (!IsOutput(buffer.plan) || buffer.expected.empty()) continue;
    std::vector<std::byte> expected(std::min(BytesOf(buffer.plan), kBytesMax));
    if (tools_.gpu.CopyToHost(buffer.expected.data(), expected.data(), expected.size())) return "";
    std::optional<PoisonPattern> poison;
    if (IsPoisoned(buffer.plan) && !buffer.plan.expected) poison = PoisonPattern::kFirst;
    const std::optional<double> constant = PassingConstant(buffer.plan.type, expected, poison, tolerance_);
    if (constant) return ConstantNote(buffer.plan.name, *constant);
  }
  return "";
}

Failure CudaProblem::TakeReference(uint64_t seed, bool* taken) {
  if (kernel_->expected_outputs.empty()) return {};
  const auto blocks = UnpackExpected(kernel_->expected_outputs, ReferenceKey(seed));
  std::vector<Buffer*> outputs;
  for (Buffer& buffer : buffers_) {
    buffer.expected_second = GuardedBuffer();
    if (!buffer.expected.empty()) outputs.push_back(&buffer);
  }
  // Under one poison, or under both.
  if (!blocks || outputs.empty() || (blocks->size() != outputs.size() && blocks->size() != 2 * outputs.size()))
    return {};
  for (size_t i = 0; i < blocks->size(); ++i) {
    if ((*blocks)[i].size() != BytesOf(outputs[i % outputs.size()]->plan)) return {};
  }
  for (size_t i = 0; i < blocks->size(); ++i) {
    Buffer& buffer = *outputs[i % outputs.size()];
    GuardedBuffer* const kept = i < outputs.size() ? &buffer.expected : &buffer.expected_second;
    if (kept->empty()) TUNEFARM_RETURN_IF_FAILED(AllocateGuarded(BytesOf(buffer.plan), kept));
    TUNEFARM_RETURN_IF_FAILED(tools_.gpu.CopyToDevice((*blocks)[i].data(), kept->data(), (*blocks)[i].size()));
  }
  *taken = true;
  return {};
}

Failure CudaProblem::ReadFile(const v1::DataFile& file, const BufferPlan& plan,
                              Failure (*check)(const BufferPlan&, uint64_t, std::span<const std::byte>),
                              CUdeviceptr target, const std::function<void()>& between) {
  DataFileReader reader;
  TUNEFARM_RETURN_IF_FAILED(DataFileReader::Open(*kernel_, file, plan, &reader));
  std::vector<std::byte> part;
  for (uint64_t offset = 0; offset < BytesOf(plan); offset += part.size()) {
    part.resize(std::min<uint64_t>(kDataFilePartBytes, BytesOf(plan) - offset));
    TUNEFARM_RETURN_IF_FAILED(reader.Read(offset, part));
    TUNEFARM_RETURN_IF_FAILED(check(plan, offset / SizeOf(plan.type), part));
    TUNEFARM_RETURN_IF_FAILED(tools_.gpu.CopyToDevice(part.data(), target + offset, part.size()));
    TUNEFARM_RETURN_IF_FAILED(Pause(between));
  }
  return {};
}

// Other inputs are built within a trial, whose deadlines do not count the reading of large files. What was not sealed
// to its end may be anything, and a prepare step may write what a file filled.
Failure CudaProblem::ForgetChangedFiles() {
  bool are_whole = !sealed_.empty() && !kernel_->plan->HasSequence(Sequence::kPreparePerProblem);
  if (are_whole) {
    std::vector<bool> whole;
    TUNEFARM_RETURN_IF_FAILED(CheckSealed(&whole));
    are_whole = std::find(whole.begin(), whole.end(), false) == whole.end();
  }
  if (are_whole) return {};
  for (Buffer& buffer : buffers_) buffer.holds_data = buffer.holds_expected = false;
  return {};
}

Failure CudaProblem::CheckIndicesOnDevice(const BufferPlan& plan, CUdeviceptr data) {
  if (!plan.index_limit) return {};
  std::vector<std::byte> part;
  for (uint64_t offset = 0; offset < BytesOf(plan); offset += part.size()) {
    part.resize(std::min<uint64_t>(kDataFilePartBytes, BytesOf(plan) - offset));
    TUNEFARM_RETURN_IF_FAILED(tools_.gpu.CopyToHost(data + offset, part.data(), part.size()));
    TUNEFARM_RETURN_IF_FAILED(CheckIndices(plan, offset / SizeOf(plan.type), part));
  }
  return {};
}

Failure CudaProblem::FillData(Buffer* buffer, uint64_t seed, const std::function<void()>& between) {
  const CUdeviceptr target = buffer->pristine.empty() ? buffer->memory.data() : buffer->pristine.data();
  const BufferData data = BufferDataOf(buffer->plan);
  if (data == BufferData::kFile) {
    if (buffer->holds_data) return {};
    TUNEFARM_RETURN_IF_FAILED(ReadFile(buffer->plan.fill.file(), buffer->plan, CheckIndices, target, between));
    buffer->holds_data = !IsScratch(buffer->plan);  // work space is not sealed
    return {};
  }
  if (data == BufferData::kPrepareStep) {
    return tools_.harness.Poison(buffer->plan.type, PoisonPattern::kFirst, target, ElementsOf(buffer->plan));
  }
  const absl::StatusOr<TunefarmFill> fill = PlanFill(buffer->plan.fill, buffer->plan.type, buffer->plan.name, seed);
  if (!fill.ok()) return DefinitionFailure("The inputs cannot be built", fill.status());
  TUNEFARM_RETURN_IF_FAILED(tools_.harness.Fill(*fill, target, ElementsOf(buffer->plan)));
  return CheckIndicesOnDevice(buffer->plan, target);
}

Failure CudaProblem::RunPrepareSteps(LoadedModule* module) {
  if (!kernel_->plan->HasSequence(Sequence::kPreparePerProblem)) return {};
  TUNEFARM_RETURN_IF_FAILED(Reset(PoisonPattern::kFirst));
  TUNEFARM_RETURN_IF_FAILED(RunFromReference(Sequence::kPreparePerProblem, module, "A prepare step"));
  if (Failure damage = FindGuardDamage()) {
    damage.message = "A prepare step is wrong: " + damage.message;
    return damage;
  }
  for (const Buffer& buffer : buffers_) {
    if (BufferDataOf(buffer.plan) != BufferData::kPrepareStep) continue;
    TUNEFARM_RETURN_IF_FAILED(CheckIndicesOnDevice(buffer.plan, buffer.memory.data()));
    if (buffer.pristine.empty()) continue;
    TUNEFARM_RETURN_IF_FAILED(Copy(buffer.memory.data(), buffer.pristine.data(), BytesOf(buffer.plan)));
  }
  return {};
}

Failure CudaProblem::RunReference(PoisonPattern pattern, LoadedModule* module) {
  TUNEFARM_RETURN_IF_FAILED(Seal());
  TUNEFARM_RETURN_IF_FAILED(Reset(pattern));
  TUNEFARM_RETURN_IF_FAILED(RunFromReference(Sequence::kReference, module, "The reference"));
  if (Failure damage = FindDamage()) {
    damage.message = "The reference itself is wrong: " + damage.message;
    return damage;
  }
  return KeepExpected(pattern);
}

Failure CudaProblem::KeepExpected(PoisonPattern pattern) {
  for (Buffer& buffer : buffers_) {
    if (!IsOutput(buffer.plan)) continue;
    GuardedBuffer* kept = &buffer.expected;
    if (pattern == PoisonPattern::kSecond) {
      kept = &buffer.expected_second;
      if (kept->empty()) TUNEFARM_RETURN_IF_FAILED(AllocateGuarded(BytesOf(buffer.plan), kept));
    }
    TUNEFARM_RETURN_IF_FAILED(Copy(buffer.memory.data(), kept->data(), BytesOf(buffer.plan)));
  }
  return {};
}

// Whether some element that may have been written equals the poison: only a second run tells whether the reference
// wrote it.
Failure CudaProblem::FindAmbiguity(bool* ambiguous) {
  for (Buffer& buffer : buffers_) {
    buffer.expected_second = GuardedBuffer();
    if (!IsOutput(buffer.plan) || !IsPoisoned(buffer.plan) || !MayEqualPoison(buffer.plan.type) || *ambiguous) continue;
    TUNEFARM_RETURN_IF_FAILED(tools_.harness.HasBits(buffer.plan.type,
                                                     PoisonBits(buffer.plan.type, PoisonPattern::kFirst),
                                                     buffer.expected.data(), ElementsOf(buffer.plan), ambiguous));
  }
  return {};
}

Failure CudaProblem::RunFromReference(Sequence sequence, LoadedModule* module, const std::string& what) {
  const auto run = [&]() -> Failure {
    std::vector<StepPlan> steps;
    TUNEFARM_RETURN_IF_FAILED(EvaluateSteps(tools_.gpu, *kernel_, sequence, default_config_, module, &steps));
    LaunchSequence launches(tools_.gpu);
    TUNEFARM_RETURN_IF_FAILED(launches.Build(steps, Views(), module, &tools_.cublas));
    TUNEFARM_RETURN_IF_FAILED(launches.Enqueue());
    return tools_.gpu.Synchronize("It crashed");
  };
  Failure failure = run();
  if (failure) failure.message = fmt::format("{} failed: {}", what, failure.message);
  return failure;
}

// From here on, these must not change.
Failure CudaProblem::Seal() {
  sealed_.clear();
  for (const Buffer& buffer : buffers_) {
    const auto seal = [&](const GuardedBuffer& memory, const std::string& what) {
      if (!memory.empty()) sealed_.push_back({what, {memory.data(), memory.bytes()}, 0});
    };
    if (IsInput(buffer.plan))
      seal(buffer.memory, fmt::format("Input buffer {} was changed, but its access is IN", buffer.plan.name));
    if (!IsScratch(buffer.plan))
      seal(buffer.pristine, fmt::format("The worker's copy of the data of {} was changed", buffer.plan.name));
    seal(buffer.expected, fmt::format("The worker's copy of the reference's {} was changed", buffer.plan.name));
    seal(buffer.expected_second, fmt::format("The worker's copy of the reference's {} was changed", buffer.plan.name));
  }
  std::vector<ByteRange> ranges;
  for (const Sealed& sealed : sealed_) ranges.push_back(sealed.range);
  std::vector<uint64_t> checksums;
  TUNEFARM_RETURN_IF_FAILED(tools_.harness.Checksums(ranges, &checksums));
  for (size_t i = 0; i < sealed_.size(); ++i) sealed_[i].checksum = checksums[i];
  return {};
}

Failure CudaProblem::CheckSealed(std::vector<bool>* whole) {
  std::vector<ByteRange> ranges;
  for (const Sealed& sealed : sealed_) ranges.push_back(sealed.range);
  std::vector<uint64_t> checksums;
  TUNEFARM_RETURN_IF_FAILED(tools_.harness.Checksums(ranges, &checksums));
  whole->clear();
  for (size_t i = 0; i < sealed_.size(); ++i) whole->push_back(checksums[i] == sealed_[i].checksum);
  return {};
}

Failure CudaProblem::ResizeScratch(const std::vector<BufferPlan>& plans) {
  for (const BufferPlan& plan : plans) {
    if (!IsScratch(plan)) continue;
    const auto buffer =
        std::find_if(buffers_.begin(), buffers_.end(), [&plan](const Buffer& b) { return b.plan.name == plan.name; });
    if (buffer == buffers_.end() || (BytesOf(buffer->plan) == BytesOf(plan) && !buffer->memory.empty())) continue;
    buffer->memory = GuardedBuffer();  // first: both may not fit
    buffer->pristine = GuardedBuffer();
    buffer->plan = plan;
    if (Failure failure = AllocateBuffer(&*buffer)) {
      failure.message = fmt::format("The config needs a work space {} of {:.0f} MiB: {}", plan.name,
                                    Mebibytes(static_cast<double>(plan.bytes())), failure.message);
      return failure;
    }
    if (StartsWithData(plan)) TUNEFARM_RETURN_IF_FAILED(FillData(&*buffer, seed_.value_or(1), {}));
  }
  return {};
}

Failure CudaProblem::Copy(CUdeviceptr from, CUdeviceptr to, uint64_t bytes) {
  const Driver& driver = tools_.gpu.driver();
  return driver.Check(driver.cuMemcpyDtoDAsync(to, from, bytes, tools_.gpu.stream()), "A copy on the device failed");
}

Failure CudaProblem::ResetBuffer(const Buffer& buffer, PoisonPattern pattern) {
  if (!buffer.pristine.empty()) return Copy(buffer.pristine.data(), buffer.memory.data(), BytesOf(buffer.plan));
  if (IsPoisoned(buffer.plan)) {
    return tools_.harness.Poison(buffer.plan.type, pattern, buffer.memory.data(), ElementsOf(buffer.plan));
  }
  const Driver& driver = tools_.gpu.driver();
  return driver.Check(driver.cuMemsetD8Async(buffer.memory.data(), 0, BytesOf(buffer.plan), tools_.gpu.stream()),
                      "A buffer could not be set to zero");
}

Failure CudaProblem::Reset(PoisonPattern pattern) {
  for (const Buffer& buffer : buffers_) {
    // A work space that could not be had leaves its buffer empty.
    if (IsInput(buffer.plan) || buffer.memory.empty()) continue;
    TUNEFARM_RETURN_IF_FAILED(ResetBuffer(buffer, pattern));
  }
  return {};
}

bool CudaProblem::has_restores() const {
  return std::any_of(buffers_.begin(), buffers_.end(), [](const Buffer& buffer) {
    return buffer.plan.restore == v1::RESTORE_PER_SAMPLE && !IsInput(buffer.plan) && !IsPoisoned(buffer.plan);
  });
}

Failure CudaProblem::Restore() {
  for (const Buffer& buffer : buffers_) {
    const BufferPlan& plan = buffer.plan;
    if (plan.restore != v1::RESTORE_PER_SAMPLE || IsInput(plan) || IsPoisoned(plan)) continue;
    TUNEFARM_RETURN_IF_FAILED(ResetBuffer(buffer, PoisonPattern::kFirst));
  }
  return {};
}

Failure CudaProblem::PoisonOutputs() {
  for (const Buffer& buffer : buffers_) {
    if (!IsOutput(buffer.plan) || !IsPoisoned(buffer.plan)) continue;
    TUNEFARM_RETURN_IF_FAILED(ResetBuffer(buffer, PoisonPattern::kSecond));
  }
  return {};
}

bool CudaProblem::has_poisonable_outputs() const {
  uint64_t bytes = 0;
  for (const Buffer& buffer : buffers_) {
    if (IsOutput(buffer.plan) && IsPoisoned(buffer.plan)) bytes += BytesOf(buffer.plan);
  }
  return bytes > 0 && bytes <= kPoisonBytesMax;
}

bool CudaProblem::is_repeatable() const {
  return std::all_of(buffers_.begin(), buffers_.end(), [](const Buffer& buffer) { return IsRepeatable(buffer.plan); });
}

Failure CudaProblem::FindGuardDamage() {
  std::vector<CUdeviceptr> zones;
  std::vector<std::pair<const Buffer*, const GuardedBuffer*>> owners;
  for (const Buffer& buffer : buffers_) {
    for (const GuardedBuffer* memory : {&buffer.memory, &buffer.pristine, &buffer.expected, &buffer.expected_second}) {
      if (memory->empty()) continue;
      zones.push_back(memory->guard_before());
      zones.push_back(memory->guard_after());
      owners.emplace_back(&buffer, memory);
    }
  }
  std::vector<std::optional<GuardDamage>> damages;
  TUNEFARM_RETURN_IF_FAILED(tools_.harness.CheckGuards(zones, &damages));
  Failure found;
  for (size_t i = 0; i < damages.size(); ++i) {
    if (!damages[i]) continue;
    const auto& [buffer, memory] = owners[i / 2];
    TUNEFARM_RETURN_IF_FAILED(tools_.harness.FillGuards(*memory));
    if (found) continue;
    const std::string place = i % 2 == 0 ? fmt::format("{} bytes before its start", kGuardBytes - damages[i]->last)
                                         : fmt::format("{} bytes past its end", damages[i]->first);
    const char* const which = memory == &buffer->memory ? "" : "the worker's copy of ";
    found = {v1::OUTCOME_OUT_OF_BOUNDS,
             fmt::format("Memory around {}buffer {} was written, {}.", which, buffer->plan.name, place)};
  }
  return found;
}

Failure CudaProblem::FindDamage() {
  TUNEFARM_RETURN_IF_FAILED(tools_.gpu.Synchronize("The kernel crashed"));
  const Failure guards = FindGuardDamage();
  if (guards.sticky || (guards && guards.outcome != v1::OUTCOME_OUT_OF_BOUNDS)) return guards;
  std::vector<bool> whole;
  TUNEFARM_RETURN_IF_FAILED(CheckSealed(&whole));
  for (size_t i = 0; i < sealed_.size(); ++i) {
    if (whole[i]) continue;
    seed_.reset();
    if (!guards) return {v1::OUTCOME_OUT_OF_BOUNDS, sealed_[i].what + "."};
  }
  return guards;
}

Failure CudaProblem::Verify(PoisonPattern pattern, v1::Verification* verification) {
  std::vector<BufferComparison> comparisons;
  for (const Buffer& buffer : buffers_) {
    if (!IsOutput(buffer.plan) || buffer.expected.empty()) continue;
    const bool second = pattern == PoisonPattern::kSecond && !buffer.expected_second.empty();
    Harness::CompareInput input;
    input.buffer = buffer.plan.name;
    input.type = buffer.plan.type;
    input.elements = ElementsOf(buffer.plan);
    input.actual = buffer.memory.data();
    input.expected = second ? buffer.expected_second.data() : buffer.expected.data();
    if (IsPoisoned(buffer.plan)) {
      input.pattern = pattern;
      // A file was under no poison.
      if (!buffer.plan.expected) input.expected_pattern = second ? PoisonPattern::kSecond : PoisonPattern::kFirst;
    }
    BufferComparison comparison;
    TUNEFARM_RETURN_IF_FAILED(tools_.harness.Compare(input, tolerance_, &comparison));
    comparisons.push_back(std::move(comparison));
  }
  Verdict verdict = Judge(comparisons, tolerance_);
  *verification = std::move(verdict.verification);
  if (verdict.passed) return {};
  return {v1::OUTCOME_WRONG_RESULT, verdict.message};
}

Failure CudaProblem::WriteSymbols(LoadedModule* module) {
  for (const Buffer& buffer : buffers_) {
    if (!buffer.plan.is_constant_symbol) continue;
    CUdeviceptr address = 0;
    TUNEFARM_RETURN_IF_FAILED(module->Symbol(buffer.plan.symbol, BytesOf(buffer.plan), &address));
    TUNEFARM_RETURN_IF_FAILED(Copy(buffer.memory.data(), address, BytesOf(buffer.plan)));
  }
  return {};
}

DeviceViews CudaProblem::Views() const {
  DeviceViews views;
  for (const Buffer& buffer : buffers_) {
    if (!buffer.plan.is_constant_symbol) {
      views[buffer.plan.name] = {buffer.memory.data(), buffer.memory.bytes(), buffer.plan.type};
    }
  }
  return views;
}

}  // namespace tunefarm::cuda
