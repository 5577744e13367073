#include "server/definition/canonical_digest.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "server/base/hash.h"

namespace tunefarm::definition {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// What follows a field's number. Part of every digest ever stored: never change a letter.
constexpr char kInteger = 'i';  // 8 bytes, little-endian two's complement
constexpr char kDouble = 'd';   // 8 bytes
constexpr char kText = 's';     // length, bytes
constexpr char kMessage = 'm';  // length, encoding
constexpr char kList = 'l';     // count, elements each with their kind
constexpr char kMap = 'p';      // count, entries sorted by their encoding

void AppendFixed(uint64_t value, std::string* out) {
  for (int shift = 0; shift < 64; shift += 8) *out += static_cast<char>(value >> shift & 0xff);
}

void AppendText(char kind, std::string_view text, std::string* out) {
  *out += kind;
  AppendFixed(text.size(), out);
  *out += text;
}

void AppendInteger(int64_t value, std::string* out) {
  *out += kInteger;
  AppendFixed(static_cast<uint64_t>(value), out);
}

void AppendMessageField(const Message& message, std::string* out) {
  std::string inner;
  AppendCanonical(message, &inner);
  AppendText(kMessage, inner, out);
}

// `index` < 0: a singular field.
void AppendElement(const Message& message, const FieldDescriptor* field, int index, std::string* out) {
  const Reflection* reflection = message.GetReflection();
  const bool repeated = index >= 0;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return AppendInteger(
          repeated ? reflection->GetRepeatedInt32(message, field, index) : reflection->GetInt32(message, field), out);
    case FieldDescriptor::CPPTYPE_INT64:
      return AppendInteger(
          repeated ? reflection->GetRepeatedInt64(message, field, index) : reflection->GetInt64(message, field), out);
    case FieldDescriptor::CPPTYPE_UINT32:
      return AppendInteger(
          repeated ? reflection->GetRepeatedUInt32(message, field, index) : reflection->GetUInt32(message, field), out);
    case FieldDescriptor::CPPTYPE_UINT64:
      return AppendInteger(static_cast<int64_t>(repeated ? reflection->GetRepeatedUInt64(message, field, index)
                                                         : reflection->GetUInt64(message, field)),
                           out);
    case FieldDescriptor::CPPTYPE_BOOL:
      return AppendInteger(
          repeated ? reflection->GetRepeatedBool(message, field, index) : reflection->GetBool(message, field), out);
    case FieldDescriptor::CPPTYPE_ENUM:
      return AppendInteger(
          repeated ? reflection->GetRepeatedEnumValue(message, field, index) : reflection->GetEnumValue(message, field),
          out);
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double value = 0;
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_FLOAT) {
        value = repeated ? reflection->GetRepeatedFloat(message, field, index) : reflection->GetFloat(message, field);
      } else {
        value = repeated ? reflection->GetRepeatedDouble(message, field, index) : reflection->GetDouble(message, field);
      }
      *out += kDouble;
      return AppendFixed(std::bit_cast<uint64_t>(value), out);
    }
    case FieldDescriptor::CPPTYPE_STRING:
      return AppendText(
          kText,
          repeated ? reflection->GetRepeatedString(message, field, index) : reflection->GetString(message, field), out);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return AppendMessageField(
          repeated ? reflection->GetRepeatedMessage(message, field, index) : reflection->GetMessage(message, field),
          out);
  }
}

void AppendRepeated(const Message& message, const FieldDescriptor* field, std::string* out) {
  const int count = message.GetReflection()->FieldSize(message, field);
  std::vector<std::string> elements(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) AppendElement(message, field, i, &elements[static_cast<size_t>(i)]);
  if (field->is_map()) std::sort(elements.begin(), elements.end());
  *out += field->is_map() ? kMap : kList;
  AppendFixed(static_cast<uint64_t>(count), out);
  for (const std::string& element : elements) *out += element;
}

template <typename T>
void SortByName(google::protobuf::RepeatedPtrField<T>* list) {
  std::sort(list->begin(), list->end(), [](const T& a, const T& b) { return a.name() < b.name(); });
}

void ForgetPath(v1::DataFile* file) {
  if (file->digest().empty()) return;
  file->clear_path();
  file->clear_data_type();
}

// Content names a data file: where it lay and how it was written there says nothing.
void ForgetPaths(v1::Kernel* kernel) {
  for (v1::Argument& argument : *kernel->mutable_arguments()) {
    if (argument.buffer().fill().has_file()) ForgetPath(argument.mutable_buffer()->mutable_fill()->mutable_file());
    if (argument.constant_symbol().fill().has_file()) {
      ForgetPath(argument.mutable_constant_symbol()->mutable_fill()->mutable_file());
    }
  }
  if (kernel->reference().files_size() == 0) return;
  auto* const files = kernel->mutable_reference()->mutable_files();
  for (v1::ExpectedFile& expected : *files) ForgetPath(expected.mutable_file());
  std::sort(files->begin(), files->end(),
            [](const v1::ExpectedFile& a, const v1::ExpectedFile& b) { return a.buffer() < b.buffer(); });
}

}  // namespace

void AppendCanonical(const Message& message, std::string* out) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  std::sort(fields.begin(), fields.end(),
            [](const FieldDescriptor* a, const FieldDescriptor* b) { return a->number() < b->number(); });
  for (const FieldDescriptor* field : fields) {
    AppendFixed(static_cast<uint64_t>(field->number()), out);
    if (field->is_repeated()) {
      AppendRepeated(message, field, out);
    } else {
      AppendElement(message, field, -1, out);
    }
  }
}

std::string KernelId(const v1::Kernel& canonical) {
  v1::Kernel kernel = canonical;
  kernel.clear_name();
  kernel.clear_program_digest();
  ForgetPaths(&kernel);
  std::string encoding = "tunefarm kernel v1\n";
  AppendCanonical(kernel, &encoding);
  return Sha256(encoding).Hex();
}

std::string ProgramDigest(const v1::Kernel& canonical) {
  v1::Kernel program;
  program.set_language(canonical.language());
  *program.mutable_sources() = canonical.sources();
  if (program.sources_size() > 1) {
    std::sort(program.mutable_sources()->begin() + 1, program.mutable_sources()->end(),
              [](const v1::SourceFile& a, const v1::SourceFile& b) { return a.path() < b.path(); });
  }
  *program.mutable_compile_options() = canonical.compile_options();
  for (const v1::Dim& dim : canonical.dims()) {
    v1::Dim* kept = program.add_dims();
    kept->set_name(dim.name());
    kept->set_type(dim.type());
    kept->set_bind(dim.bind());
  }
  for (const v1::Parameter& parameter : canonical.parameters()) {
    v1::Parameter* kept = program.add_parameters();
    kept->set_name(parameter.name());
    kept->set_type(parameter.type());
    kept->set_bind(parameter.bind());
  }
  *program.mutable_derived() = canonical.derived();
  *program.mutable_arguments() = canonical.arguments();
  SortByName(program.mutable_dims());
  SortByName(program.mutable_parameters());
  SortByName(program.mutable_derived());
  SortByName(program.mutable_arguments());
  *program.mutable_prepare() = canonical.prepare();
  *program.mutable_launches() = canonical.launches();
  for (v1::Step& step : *program.mutable_launches()) step.clear_name();
  if (canonical.has_reference()) *program.mutable_reference() = canonical.reference();
  for (v1::Step& step : *program.mutable_reference()->mutable_steps()) step.clear_name();
  if (!canonical.has_reference()) program.clear_reference();
  ForgetPaths(&program);
  if (canonical.has_tolerance()) *program.mutable_tolerance() = canonical.tolerance();
  if (canonical.has_python()) *program.mutable_python() = canonical.python();
  if (canonical.has_resources()) {
    program.mutable_resources()->set_architecture_specific(canonical.resources().architecture_specific());
    program.mutable_resources()->set_exact_compute_capability(canonical.resources().exact_compute_capability());
    // An estimate without a target is as good as none.
    if (program.resources().ByteSizeLong() == 0) program.clear_resources();
  }
  std::string encoding = "tunefarm program v1\n";
  AppendCanonical(program, &encoding);
  return Sha256(encoding).Hex();
}

}  // namespace tunefarm::definition
