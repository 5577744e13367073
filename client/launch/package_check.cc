#include "client/launch/package_check.h"

#define XXH_INLINE_ALL
#include <elf.h>
#include <xxhash.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "client/launch/failure.h"
#include "server/driver_step/data_type.h"

namespace tunefarm::launch {

using namespace tunefarm::package;  // NOLINT: the records
using driver_step::IsDataType;
using expression::Cell;

namespace {

// Of texts that ought to be equal. Those of files that tunefarm writes are the same record.
constexpr uint64_t kComparedBytesMax = 256 << 20;

// The driver and the loader of programs read as far as an image says that it is: it must not say more than there is.
// Adds the headers of sections and segments that were looked at to *headers.
bool IsWholeElf(std::span<const std::byte> bytes, uint64_t* headers) {
  Elf64_Ehdr header;
  if (bytes.size() < sizeof(header)) return false;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) return false;
  const auto lies_within = [&](uint64_t offset, uint64_t size) {
    return offset <= bytes.size() && size <= bytes.size() - offset;
  };
  *headers += uint64_t{header.e_shnum} + header.e_phnum;
  if (header.e_shnum > 0) {
    if (header.e_shentsize != sizeof(Elf64_Shdr)) return false;
    if (!lies_within(header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr))) return false;
    for (unsigned i = 0; i < header.e_shnum; ++i) {
      Elf64_Shdr section;
      std::memcpy(&section, bytes.data() + header.e_shoff + i * sizeof(section), sizeof(section));
      // Types of a processor's own, such as a GPU's shared memory, may have no bytes, either.
      const bool has_bytes =
          section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL && section.sh_type < SHT_LOPROC;
      if (has_bytes && !lies_within(section.sh_offset, section.sh_size)) return false;
    }
  }
  if (header.e_phnum > 0) {
    if (header.e_phentsize != sizeof(Elf64_Phdr)) return false;
    if (!lies_within(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr))) return false;
    for (unsigned i = 0; i < header.e_phnum; ++i) {
      Elf64_Phdr segment;
      std::memcpy(&segment, bytes.data() + header.e_phoff + i * sizeof(segment), sizeof(segment));
      if (!lies_within(segment.p_offset, segment.p_filesz)) return false;
    }
  }
  return true;
}

bool IsTime(double value) { return std::isfinite(value) && value >= 0; }

}  // namespace

tunefarm_status PackageCheck::Damaged(const char* what) {
  return Fail(error_, TUNEFARM_BAD_PACKAGE, "%s is no package that can be read: %s; export it again.", name_, what);
}

tunefarm_status PackageCheck::Check() {
  Header& header = package_.header_;
  std::memcpy(&header, package_.data_, sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) return Damaged("it does not begin like one");
  if (header.version != kVersion) {
    return Fail(error_, TUNEFARM_BAD_PACKAGE,
                "%s is a package of version %u, this library reads version %u; export it with a tunefarm of the same "
                "version.",
                name_, header.version, kVersion);
  }
  if (header.header_bytes != sizeof(Header)) return Damaged("its header has another size");
  if (header.file_bytes != package_.size_) {
    return Damaged(header.file_bytes > package_.size_ ? "it is cut off" : "it has bytes that do not belong to it");
  }
  if (header.checksum != XXH3_64bits(package_.data_ + kChecksumFrom, package_.size_ - kChecksumFrom)) {
    return Damaged("its checksum is wrong");
  }
  if (!SectionsLieWithin()) return Damaged("its sections do not lie within it");
  if (!StringsAreGood()) return Damaged("its texts do not lie within it");
  if (!ValuesAreGood()) return Damaged("it has a value that is none");
  if (!FormulasAreGood()) return Damaged("it has a formula that cannot be run");
  if (!BinariesAreGood()) return Damaged("it has a binary that is none");
  for (const ClassRecord& device_class : package_.classes()) {
    if (!IsString(device_class.id) || !IsString(device_class.name)) return Damaged("a device class has no name");
    for (const int64_t property : device_class.properties) {
      if (property < 0) return Damaged("a device class has a negative property");
    }
  }
  if (header.choices.count > kChoicesMax) return Damaged("it has too many choices");
  if (header.kernels.count > kChoicesMax) return Damaged("it has too many kernels");
  uint64_t choices = 0;
  for (const KernelRecord& kernel : package_.kernels()) {
    if (!KernelIsGood(kernel)) return Damaged("a kernel or one of its dims contradicts itself");
    choices += kernel.choices;
    if (choices > header.choices.count) return Damaged("kernels share choices");
    for (const ChoiceRecord& choice : package_.choices().subspan(kernel.first_choice, kernel.choices)) {
      const bool is_good = ChoiceIsGood(kernel, choice);
      if (references_ > kReferencesMax) return Damaged("its configs have too many buffers, steps and arguments");
      if (!is_good) {
        return Fail(error_, TUNEFARM_BAD_PACKAGE,
                    "%s is no package that can be read: a config of %s contradicts itself; export it again.", name_,
                    package_.String(kernel.name));
      }
    }
  }
  return TUNEFARM_OK;
}

bool PackageCheck::SectionsLieWithin() const {
  const Header& header = package_.header_;
  const uint64_t size = package_.size_;
  const auto lies_within = [size](const Section& section, size_t record_bytes, uint64_t alignment) {
    if (section.count == 0) return section.offset <= size;
    if (section.offset % alignment != 0 || section.offset < sizeof(Header) || section.offset > size) return false;
    return section.count <= (size - section.offset) / record_bytes;
  };
  return lies_within(header.strings, sizeof(StringRecord), 8) && lies_within(header.text, 1, 8) &&
         lies_within(header.kernels, sizeof(KernelRecord), 8) && lies_within(header.dims, sizeof(DimRecord), 8) &&
         lies_within(header.values, sizeof(ValueRecord), 8) && lies_within(header.choices, sizeof(ChoiceRecord), 8) &&
         lies_within(header.pairs, sizeof(PairRecord), 8) && lies_within(header.buffers, sizeof(BufferRecord), 8) &&
         lies_within(header.steps, sizeof(StepRecord), 8) && lies_within(header.arguments, sizeof(ArgumentRecord), 8) &&
         lies_within(header.tensor_maps, sizeof(TensorMapRecord), 8) &&
         lies_within(header.formulas, sizeof(FormulaRecord), 8) &&
         lies_within(header.instructions, sizeof(InstructionRecord), 8) &&
         lies_within(header.classes, sizeof(ClassRecord), 8) && lies_within(header.binaries, sizeof(BinaryRecord), 8) &&
         lies_within(header.data, 1, 64) && header.reserved_section.count == 0;
}

bool PackageCheck::StringsAreGood() const {
  const Section& text = package_.header_.text;
  for (const StringRecord& string : package_.All<StringRecord>(package_.header_.strings)) {
    const uint64_t end = uint64_t{string.offset} + string.bytes;
    if (string.bytes > kStringBytesMax || end >= text.count) return false;
    if (package_.data_[text.offset + end] != std::byte{0}) return false;
  }
  return true;
}

bool PackageCheck::ValuesAreGood() {
  const auto records = package_.All<ValueRecord>(package_.header_.values);
  package_.values_.reserve(records.size());
  for (const ValueRecord& value : records) {
    Cell cell = Cell::Int(static_cast<int64_t>(value.payload));
    switch (value.kind) {
      case kBool:
        if (value.payload > 1) return false;
        cell = Cell::Bool(value.payload == 1);
        break;
      case kInt:
        break;
      case kFloat:
        cell = Cell::Float(std::bit_cast<double>(value.payload));
        break;
      case kString: {
        if (value.payload >= package_.header_.strings.count) return false;
        const auto number = static_cast<uint32_t>(value.payload);
        const StringRecord& string = package_.All<StringRecord>(package_.header_.strings)[number];
        cell = Cell::String(package_.String(number), string.bytes);
        break;
      }
      default:
        return false;
    }
    package_.values_.push_back(cell);
  }
  return true;
}

bool PackageCheck::FormulasAreGood() {
  const auto code = package_.All<InstructionRecord>(package_.header_.instructions);
  const auto formulas = package_.All<FormulaRecord>(package_.header_.formulas);
  // Formulas may share instructions, but not so that checking them takes forever.
  const uint64_t walked_max = 16 * uint64_t{code.size()} + kInstructionsMax;
  uint64_t walked = 0;
  std::vector<int32_t> depths;
  slots_.reserve(formulas.size());
  for (const FormulaRecord& formula : formulas) {
    walked += formula.instructions;
    if (!IsString(formula.text) || walked > walked_max ||
        !IsRange(package_.header_.instructions, formula.first_instruction, formula.instructions)) {
      return false;
    }
    uint32_t slots = 0;
    if (!IsProgram(code.data() + formula.first_instruction, formula.instructions, package_.values_.size(), &slots,
                   &depths)) {
      return false;
    }
    slots_.push_back(slots);
  }
  package_.code_.reserve(code.size());
  for (const InstructionRecord& record : code) {
    expression::Instruction instruction;
    instruction.op = static_cast<expression::Op>(record.operation);
    instruction.sub = static_cast<expression::Op>(record.sub);
    instruction.argument = record.argument;
    package_.code_.push_back(instruction);
  }
  return true;
}

bool PackageCheck::BinariesAreGood() const {
  // Binaries may share bytes, but not so that checking them takes forever. A header takes 56 bytes at least.
  const uint64_t headers_max = package_.header_.data.count / 4 + 65'536;
  uint64_t headers = 0;
  for (const BinaryRecord& binary : package_.binaries()) {
    if (binary.kind != kCubin && binary.kind != kSharedObject) return false;
    if (!IsString(binary.digest) || !IsString(binary.toolchain) || binary.is_specific > 1) return false;
    const uint64_t bytes = package_.header_.data.count;
    if (binary.offset % 64 != 0 || binary.offset > bytes || binary.bytes > bytes - binary.offset) return false;
    if (!IsWholeElf(package_.Bytes(binary), &headers) || headers > headers_max) return false;
  }
  return true;
}

bool PackageCheck::DimIsGood(const DimRecord& dim) const {
  if (!IsString(dim.name) || dim.kind > kString || (dim.bind != kBaked && dim.bind != kRun)) return false;
  if (dim.rule < kExact || dim.rule > kProduct || dim.min > dim.max) return false;
  if (dim.values > kDimValuesMax || dim.bounds > kDimValuesMax) return false;
  const Section& values = package_.header_.values;
  if (!IsRange(values, dim.first_value, dim.values) || !IsRange(values, dim.first_bound, dim.bounds)) return false;
  for (uint32_t i = 0; i < dim.values; ++i) {
    if (static_cast<uint32_t>(package_.ValueOf(dim.first_value + i).type) != dim.kind) return false;
  }
  for (uint32_t i = 0; i < dim.bounds; ++i) {
    const Cell& bound = package_.ValueOf(dim.first_bound + i);
    if (bound.type != ValueType::kInt) return false;
    if (i > 0 && bound.int_value <= package_.ValueOf(dim.first_bound + i - 1).int_value) return false;
  }
  if (dim.default_value == kNone) return true;
  return dim.default_value < values.count &&
         static_cast<uint32_t>(package_.ValueOf(dim.default_value).type) == dim.kind;
}

bool PackageCheck::KernelIsGood(const KernelRecord& kernel) const {
  const Header& header = package_.header_;
  if (!IsString(kernel.name) || !IsString(kernel.kernel_id) || !IsString(kernel.program_digest)) return false;
  if (kernel.language != kCuda && kernel.language != kHost) return false;
  if (kernel.dims > kDimsMax || !IsRange(header.dims, kernel.first_dim, kernel.dims)) return false;
  if (!IsRange(header.choices, kernel.first_choice, kernel.choices)) return false;
  if (!IsTime(kernel.lookup_distance_max)) return false;
  for (const DimRecord& dim : package_.dims().subspan(kernel.first_dim, kernel.dims)) {
    if (!DimIsGood(dim)) return false;
  }
  return true;
}

bool PackageCheck::IsSameText(uint32_t a, uint32_t b) {
  if (a == b) return true;
  compared_bytes_ += package_.All<StringRecord>(package_.header_.strings)[a].bytes;
  return compared_bytes_ <= kComparedBytesMax && std::strcmp(package_.String(a), package_.String(b)) == 0;
}

bool PackageCheck::ChoiceIsGood(const KernelRecord& kernel, const ChoiceRecord& choice) {
  const Header& header = package_.header_;
  if (choice.kind != kTuned && choice.kind != kDefault) return false;
  if (choice.device_class >= header.classes.count || !IsTime(choice.median_ns)) return false;
  if (!IsRange(header.values, choice.first_dim_value, kernel.dims)) return false;
  for (uint32_t i = 0; i < kernel.dims; ++i) {
    const DimRecord& dim = package_.dims()[kernel.first_dim + i];
    if (static_cast<uint32_t>(package_.ValueOf(choice.first_dim_value + i).type) != dim.kind) return false;
  }
  if (!IsRange(header.pairs, choice.first_parameter, choice.parameters) || choice.parameters > kParametersMax) {
    return false;
  }
  for (const PairRecord& pair : package_.pairs().subspan(choice.first_parameter, choice.parameters)) {
    if (!IsString(pair.name) || pair.value >= header.values.count) return false;
  }
  if (choice.binary != kNone) {
    if (choice.binary >= header.binaries.count) return false;
    const uint32_t kind = package_.binaries()[choice.binary].kind;
    if ((kind == kCubin) != (kernel.language == kCuda)) return false;
  }
  if (choice.buffers > kBuffersMax || !IsRange(header.buffers, choice.first_buffer, choice.buffers)) return false;
  // The caller's buffers, alike in all choices of a kernel, then scratch.
  const ChoiceRecord& first = package_.choices()[kernel.first_choice];
  bool in_scratch = false;
  for (uint32_t i = 0; i < choice.buffers; ++i) {
    const BufferRecord& buffer = package_.buffers()[choice.first_buffer + i];
    if (!BufferIsGood(kernel, buffer)) return false;
    const bool is_scratch = buffer.access == kScratch;
    if (in_scratch && !is_scratch) return false;
    const bool is_in_first = i < first.buffers && package_.buffers()[first.first_buffer + i].access != kScratch;
    if (is_scratch && !in_scratch && is_in_first) return false;  // the first choice has more of the caller's
    in_scratch = is_scratch;
    if (is_scratch) continue;
    if (!is_in_first) return false;
    const BufferRecord& like = package_.buffers()[first.first_buffer + i];
    if (!IsSameText(buffer.name, like.name)) return false;
    // The type may be that of a baked dim; the loader looks at those that are loaded together.
    if (buffer.access != like.access) return false;
    if ((buffer.symbol == kNone) != (like.symbol == kNone)) return false;
  }
  if (!in_scratch && choice.buffers < first.buffers &&
      package_.buffers()[first.first_buffer + choice.buffers].access != kScratch) {
    return false;
  }
  if (uint64_t{choice.prepares} + choice.steps > kStepsMax) return false;
  if (!IsRange(header.steps, choice.first_prepare, choice.prepares)) return false;
  if (!IsRange(header.steps, choice.first_step, choice.steps)) return false;
  if (choice.constraints > kConstraintsMax) return false;
  references_ += choice.buffers + choice.constraints;
  for (const StepRecord& step : package_.steps().subspan(choice.first_prepare, choice.prepares)) {
    if (!StepIsGood(kernel, choice, step)) return false;
    references_ += 1 + step.arguments;
  }
  for (const StepRecord& step : package_.steps().subspan(choice.first_step, choice.steps)) {
    if (!StepIsGood(kernel, choice, step)) return false;
    references_ += 1 + step.arguments;
  }
  for (uint32_t i = 0; i < choice.constraints; ++i) {
    if (choice.first_constraint > kNone - choice.constraints) return false;
    if (!IsFormula(kernel, choice.first_constraint + i)) return false;
  }
  return true;
}

bool PackageCheck::BufferIsGood(const KernelRecord& kernel, const BufferRecord& buffer) const {
  if (!IsString(buffer.name) || !IsDataType(buffer.data_type) || !IsFormula(kernel, buffer.length)) return false;
  if (buffer.access < kIn || buffer.access > kScratch || buffer.init > kFill) return false;
  if (buffer.init != kUntouched && buffer.access != kOut && buffer.access != kScratch) return false;
  if (buffer.symbol == kNone) return true;
  return IsString(buffer.symbol) && kernel.language == kCuda && buffer.access == kIn;
}

bool PackageCheck::StepIsGood(const KernelRecord& kernel, const ChoiceRecord& choice, const StepRecord& step) const {
  const auto is_none_or_formula = [&](uint32_t formula) { return formula == kNone || IsFormula(kernel, formula); };
  if (!is_none_or_formula(step.when)) return false;
  if (step.kind == kMemsetStep) {
    return step.memset_buffer < choice.buffers && step.memset_byte <= 255 && step.arguments == 0;
  }
  if (step.kind != kKernelStep || !IsString(step.entry) || choice.binary == kNone) return false;
  if (step.flags > (kCooperative | kProgrammaticStreamSerialization | kNonPortableCluster)) return false;
  if (step.carveout > 100) return false;
  const bool is_cuda = kernel.language == kCuda;
  if (is_cuda && (step.grid[0] == kNone || step.block[0] == kNone)) return false;
  for (int axis = 0; axis < 3; ++axis) {
    if (!is_none_or_formula(step.grid[axis]) || !is_none_or_formula(step.block[axis])) return false;
    if (!is_none_or_formula(step.cluster[axis])) return false;
  }
  if (!is_none_or_formula(step.dynamic_shared_bytes)) return false;
  if (step.arguments > kArgumentsMax || !IsRange(package_.header_.arguments, step.first_argument, step.arguments)) {
    return false;
  }
  for (const ArgumentRecord& argument : package_.arguments().subspan(step.first_argument, step.arguments)) {
    switch (argument.kind) {
      case kBufferArgument:
        if (argument.target >= choice.buffers) return false;
        break;
      case kScalarArgument:
        if (!IsDataType(argument.data_type) || !IsFormula(kernel, argument.target)) return false;
        break;
      case kTensorMapArgument:
        if (!is_cuda || argument.target >= package_.header_.tensor_maps.count) return false;
        if (!TensorMapIsGood(kernel, choice, package_.tensor_maps()[argument.target])) return false;
        break;
      default:
        return false;
    }
  }
  return true;
}

bool PackageCheck::TensorMapIsGood(const KernelRecord& kernel, const ChoiceRecord& choice,
                                   const TensorMapRecord& map) const {
  const auto is_none_or_formula = [&](uint32_t formula) { return formula == kNone || IsFormula(kernel, formula); };
  if (map.buffer >= choice.buffers || !IsDataType(map.data_type) || map.rank < 1 || map.rank > 5) return false;
  for (uint32_t i = 0; i < map.rank; ++i) {
    if (!IsFormula(kernel, map.dims[i]) || !IsFormula(kernel, map.box[i])) return false;
    if (!is_none_or_formula(map.element_strides[i])) return false;
    if (i + 1 < map.rank && !IsFormula(kernel, map.byte_strides[i])) return false;
  }
  return is_none_or_formula(map.swizzle) && is_none_or_formula(map.interleave) &&
         is_none_or_formula(map.l2_promotion) && is_none_or_formula(map.base_offset_bytes) && map.oob_fill_nan <= 1;
}

bool PackageCheck::IsFormula(const KernelRecord& kernel, uint32_t formula) const {
  return formula < slots_.size() && slots_[formula] <= kernel.dims + kDeviceSlots + kKernelSlots;
}

}  // namespace tunefarm::launch
