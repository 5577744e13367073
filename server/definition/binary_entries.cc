#include "server/definition/binary_entries.h"

#include <elf.h>
#include <fmt/core.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "server/base/format.h"
#include "server/definition/plan_impl.h"

namespace tunefarm {
namespace {

// Of a cubin's ".nv.info.NAME": an attribute with a payload of its own, and that of one parameter.
constexpr uint8_t kFormatWithPayload = 4;
constexpr uint8_t kParameterAttribute = 0x17;

template <typename Struct>
std::optional<Struct> StructAt(std::string_view bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(Struct)) return std::nullopt;
  Struct read;
  std::memcpy(&read, bytes.data() + offset, sizeof(read));
  return read;
}

std::string_view Part(std::string_view bytes, uint64_t offset, uint64_t size) {
  if (offset > bytes.size() || bytes.size() - offset < size) return {};
  return bytes.substr(offset, size);
}

// The text that begins at `offset` of a string table.
std::string_view TextAt(std::string_view table, uint64_t offset) {
  if (offset >= table.size()) return {};
  const std::string_view rest = table.substr(offset);
  return rest.substr(0, rest.find('\0'));
}

struct Section {
  std::string_view name;
  uint32_t type = 0;
  uint32_t link = 0;
  std::string_view content;
};

// Nothing for what is no 64-bit ELF file.
std::vector<Section> SectionsOf(std::string_view binary) {
  const auto header = StructAt<Elf64_Ehdr>(binary, 0);
  if (!header.has_value() || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64) {
    return {};
  }
  std::vector<Elf64_Shdr> headers;
  for (uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto section = StructAt<Elf64_Shdr>(binary, header->e_shoff + i * sizeof(Elf64_Shdr));
    if (!section.has_value()) return {};
    headers.push_back(*section);
  }
  if (header->e_shstrndx >= headers.size()) return {};
  const std::string_view names =
      Part(binary, headers[header->e_shstrndx].sh_offset, headers[header->e_shstrndx].sh_size);
  std::vector<Section> sections;
  for (const Elf64_Shdr& section : headers) {
    const bool has_content = section.sh_type != SHT_NOBITS;
    sections.push_back({TextAt(names, section.sh_name), section.sh_type, section.sh_link,
                        has_content ? Part(binary, section.sh_offset, section.sh_size) : std::string_view()});
  }
  return sections;
}

bool DefinesSymbol(const std::vector<Section>& sections, std::string_view symbol) {
  for (const Section& section : sections) {
    if ((section.type != SHT_DYNSYM && section.type != SHT_SYMTAB) || section.link >= sections.size()) continue;
    const std::string_view names = sections[section.link].content;
    for (uint64_t offset = 0; offset < section.content.size(); offset += sizeof(Elf64_Sym)) {
      const auto entry = StructAt<Elf64_Sym>(section.content, offset);
      if (!entry.has_value()) break;
      if (entry->st_shndx != SHN_UNDEF && TextAt(names, entry->st_name) == symbol) return true;
    }
  }
  return false;
}

// Whether a step runs for the config. Not known before a binary is loaded, or not to be evaluated: it may.
bool MayRun(const definition::StepFormula& step, const std::vector<Value>& slots) {
  if (!step.when.has_value() || (step.when->uses & definition::kUsesKernel) != 0) return true;
  const absl::StatusOr<bool> runs = definition::EvaluateBool(*step.when, slots);
  return !runs.ok() || *runs;
}

}  // namespace

int ParametersOf(std::string_view cubin, std::string_view symbol) {
  const std::string wanted = fmt::format(".nv.info.{}", symbol);
  for (const Section& section : SectionsOf(cubin)) {
    if (section.name != wanted) continue;
    int parameters = 0;
    uint64_t at = 0;
    while (at + 4 <= section.content.size()) {
      const auto format = static_cast<uint8_t>(section.content[at]);
      const auto attribute = static_cast<uint8_t>(section.content[at + 1]);
      const auto size = StructAt<uint16_t>(section.content, at + 2);
      if (format == kFormatWithPayload && attribute == kParameterAttribute) ++parameters;
      at += 4 + (format == kFormatWithPayload ? *size : 0);
    }
    return parameters;
  }
  return -1;
}

std::string WhyEntriesDoNotFit(const KernelPlan& plan, const ResolvedProblem& problem, const Config& config,
                               const DeviceClass& device, std::string_view binary,
                               const std::map<std::string, std::string>& symbols) {
  if (NeedsInterpreter(plan.language())) return {};  // What compiles them has checked it.
  const std::vector<Section> sections = SectionsOf(binary);
  if (sections.empty()) return {};
  const KernelPlanAccess::Impl& impl = KernelPlanAccess::Of(plan);
  const Config default_config = plan.DefaultConfig(problem);
  for (const auto& [sequence, steps] : impl.sequences) {
    const bool of_config = sequence == Sequence::kLaunches || sequence == Sequence::kPreparePerConfig;
    const std::vector<Value> slots = impl.Slots(problem, of_config ? &config : &default_config, &device, nullptr);
    for (const definition::StepFormula& step : steps) {
      if (step.kind != StepPlan::Kind::kKernel || !MayRun(step, slots)) continue;
      const v1::KernelLaunch& launch = step.step.kernel();
      const auto lowered = symbols.find(launch.entry());
      const std::string& symbol = lowered == symbols.end() ? launch.entry() : lowered->second;
      if (!DefinesSymbol(sections, symbol)) {
        return fmt::format("{}: the binary has no function '{}'; declare it extern \"C\", or correct the entry",
                           step.path, launch.entry());
      }
      if (plan.language() != v1::LANGUAGE_CUDA) continue;
      const int parameters = ParametersOf(binary, symbol);
      if (parameters >= 0 && parameters != launch.arguments_size()) {
        return fmt::format("{}: '{}' takes {}, but {} passed", step.path, launch.entry(),
                           FormatCount(parameters, "parameter"),
                           FormatCount(launch.arguments_size(), "argument is", "arguments are"));
      }
    }
  }
  return {};
}

}  // namespace tunefarm
