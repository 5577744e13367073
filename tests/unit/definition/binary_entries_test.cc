#include "server/definition/binary_entries.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "server/base/status.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;

template <typename Struct>
void Append(const Struct& value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// An ELF file with a symbol table that defines `symbols`, and an .nv.info section with `parameters` entries for each.
std::string MakeBinary(const std::vector<std::string>& symbols, int parameters) {
  std::string names(1, '\0'), table, section_names(1, '\0'), info;
  Append(Elf64_Sym{}, &table);
  for (const std::string& symbol : symbols) {
    Elf64_Sym entry = {};
    entry.st_name = static_cast<uint32_t>(names.size());
    entry.st_shndx = 1;
    Append(entry, &table);
    names += symbol + '\0';
  }
  for (int i = 0; i < parameters; ++i) info += std::string("\x04\x17\x0c\x00", 4) + std::string(12, '\0');
  info += std::string("\x03\x1b\xff\x00", 4);
  std::string file(sizeof(Elf64_Ehdr), '\0');
  std::vector<Elf64_Shdr> sections(1);
  const auto add = [&](const std::string& name, uint32_t type, uint32_t link, const std::string& content) {
    Elf64_Shdr section = {};
    section.sh_name = static_cast<uint32_t>(section_names.size());
    section.sh_type = type;
    section.sh_link = link;
    section.sh_offset = file.size();
    section.sh_size = content.size();
    section_names += name + '\0';
    file += content;
    sections.push_back(section);
  };
  add(".strtab", SHT_STRTAB, 0, names);
  add(".symtab", SHT_SYMTAB, 1, table);
  for (const std::string& symbol : symbols) add(".nv.info." + symbol, SHT_LOPROC, 0, info);
  const std::string all_names = section_names + ".shstrtab" + '\0';
  add(".shstrtab", SHT_STRTAB, 0, all_names);
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_shoff = file.size();
  header.e_shnum = static_cast<uint16_t>(sections.size());
  header.e_shstrndx = static_cast<uint16_t>(sections.size() - 1);
  for (const Elf64_Shdr& section : sections) Append(section, &file);
  std::memcpy(file.data(), &header, sizeof(header));
  return file;
}

std::shared_ptr<const KernelPlan> Plan(const std::string& language, const std::string& more = "") {
  auto kernel = ParseKernelText("display_name: \"k\" language: " + language + R"pb(
                                      sources { path: "k" content: "int x;" }
                                      dims {
                                        name: "N"
                                        default_value { int_value: 4 }
                                      }
                                      arguments {
                                        name: "y"
                                        buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT }
                                      }
                                      launches {
                                        kernel {
                                          entry: "run"
                                          arguments: [ "y" ]
                                          grid: "1"
                                          block: "1"
                                        }
                                      }
                                      unverified_reason: "only compiled"
                                    )pb" +
                                    more,
                                "k");
  EXPECT_TRUE(kernel.ok()) << MessageOf(kernel.status());
  if (language == "LANGUAGE_HOST_CXX") {
    kernel->mutable_launches(0)->mutable_kernel()->clear_grid();
    kernel->mutable_launches(0)->mutable_kernel()->clear_block();
  }
  const auto plan = KernelPlan::Compile(*kernel);
  EXPECT_TRUE(plan.ok()) << MessageOf(plan.status());
  return plan.ok() ? *plan : nullptr;
}

// For the default problem, and the config of this text.
std::string WhyEntriesDoNotFit(const KernelPlan& plan, const std::string& binary,
                               const std::map<std::string, std::string>& symbols, int64_t path = 0) {
  const absl::StatusOr<ResolvedProblem> problem = plan.ResolveProblem(v1::Problem());
  EXPECT_TRUE(problem.ok()) << MessageOf(problem.status());
  Config config = plan.DefaultConfig(*problem);
  if (path != 0) config.Set("path", Value(path));
  return tunefarm::WhyEntriesDoNotFit(plan, *problem, config, DeviceClass(), binary, symbols);
}

TEST(BinaryEntriesTest, AMissingEntryIsNamed) {
  const auto plan = Plan("LANGUAGE_HOST_CXX");
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(WhyEntriesDoNotFit(*plan, MakeBinary({"other", "run"}, 0), {{"run", "run"}}), "");
  EXPECT_THAT(WhyEntriesDoNotFit(*plan, MakeBinary({"other", "_Z3runPf"}, 0), {{"run", "run"}}),
              HasSubstr("launches[0]: the binary has no function 'run'; declare it extern \"C\""));
}

TEST(BinaryEntriesTest, ArgumentsOfCudaKernelsAreCounted) {
  const auto plan = Plan("LANGUAGE_CUDA");
  ASSERT_NE(plan, nullptr);
  const auto why = [&plan](int parameters) {
    return WhyEntriesDoNotFit(*plan, MakeBinary({"_Z3runPf"}, parameters), {{"run", "_Z3runPf"}});
  };
  EXPECT_EQ(why(1), "");
  EXPECT_EQ(why(0), "launches[0]: 'run' takes 0 parameters, but 1 argument is passed");
  EXPECT_EQ(why(2), "launches[0]: 'run' takes 2 parameters, but 1 argument is passed");
  EXPECT_EQ(ParametersOf(MakeBinary({"run"}, 3), "run"), 3);
  EXPECT_EQ(ParametersOf(MakeBinary({"run"}, 3), "walk"), -1);
}

TEST(BinaryEntriesTest, StepsOfOtherConfigsAreLeftOut) {
  const auto plan = Plan("LANGUAGE_CUDA", R"pb(
    parameters {
      name: "path"
      values { ints: [ 1, 2, 3 ] }
    }
    launches {
      kernel {
        entry: "run"
        arguments: [ "y", "y" ]
        grid: "1"
        block: "1"
      }
      when: "path == 2"
    }
    launches {
      kernel {
        entry: "walk"
        arguments: [ "y" ]
        grid: "1"
        block: "1"
      }
      when: "path == 3"
    }
  )pb");
  ASSERT_NE(plan, nullptr);
  const std::string binary = MakeBinary({"run"}, 1);
  EXPECT_EQ(WhyEntriesDoNotFit(*plan, binary, {}, 1), "");
  EXPECT_EQ(WhyEntriesDoNotFit(*plan, binary, {}, 2),
            "launches[1]: 'run' takes 1 parameter, but 2 arguments are passed");
  EXPECT_THAT(WhyEntriesDoNotFit(*plan, binary, {}, 3), HasSubstr("launches[2]: the binary has no function"));
}

TEST(BinaryEntriesTest, AnyBytesAreRead) {
  const auto plan = Plan("LANGUAGE_CUDA");
  ASSERT_NE(plan, nullptr);
  const std::string whole = MakeBinary({"run"}, 1);
  for (size_t size = 0; size < whole.size(); ++size) {
    (void)WhyEntriesDoNotFit(*plan, whole.substr(0, size), {{"run", "run"}});
    std::string changed = whole;
    changed[size] = static_cast<char>(0xff);
    (void)WhyEntriesDoNotFit(*plan, changed, {{"run", "run"}});
  }
  EXPECT_EQ(WhyEntriesDoNotFit(*plan, "no ELF file", {}), "");
}

}  // namespace
}  // namespace tunefarm
