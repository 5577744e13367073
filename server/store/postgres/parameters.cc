#include "server/store/postgres/parameters.h"

#include <cstring>
#include <utility>

namespace tunefarm::postgres {
namespace {

// Of pg_type.dat; they never change.
constexpr unsigned kBool = 16, kBytea = 17, kInt8 = 20, kText = 25, kFloat8 = 701;
constexpr unsigned kByteaArray = 1001, kTextArray = 1009, kInt8Array = 1016, kFloat8Array = 1022;
constexpr int kBinary = 1;

uint64_t BitsOf(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// The head of an array with one dimension; one without values has none.
std::string BeginArray(unsigned element, size_t count, bool has_nulls, size_t bytes) {
  std::string out;
  out.reserve(20 + bytes + 4 * count);
  Append(&out, uint32_t{count > 0 ? 1U : 0U});
  Append(&out, uint32_t{has_nulls ? 1U : 0U});
  Append(&out, uint32_t{element});
  if (count == 0) return out;
  Append(&out, static_cast<uint32_t>(count));
  Append(&out, uint32_t{1});
  return out;
}

std::string EncodeViews(unsigned element, const std::vector<std::string_view>& values, bool empty_is_null) {
  size_t bytes = 0;
  for (const std::string_view value : values) bytes += value.size();
  std::string out = BeginArray(element, values.size(), empty_is_null, bytes);
  for (const std::string_view value : values) {
    if (value.empty() && empty_is_null) {
      Append(&out, static_cast<uint32_t>(-1));
      continue;
    }
    Append(&out, static_cast<uint32_t>(value.size()));
    out.append(value);
  }
  return out;
}

}  // namespace

std::vector<const char*> Parameters::Values() const {
  std::vector<const char*> pointers;
  pointers.reserve(values_.size());
  for (const Value& value : values_) {
    pointers.push_back(value.owned >= 0 ? owned_[static_cast<size_t>(value.owned)].data() : value.data);
  }
  return pointers;
}

Parameters::Parameters(std::initializer_list<SqlValue> values) {
  types_.reserve(values.size());
  values_.reserve(values.size());
  lengths_.reserve(values.size());
  formats_.reserve(values.size());
  owned_.reserve(values.size());
  for (const SqlValue& value : values) std::visit([this](const auto& added) { Add(added); }, value);
}

void Parameters::AddOwned(unsigned type, std::string bytes) {
  types_.push_back(type);
  lengths_.push_back(static_cast<int>(bytes.size()));
  formats_.push_back(kBinary);
  values_.push_back({nullptr, static_cast<int>(owned_.size())});
  owned_.push_back(std::move(bytes));
}

void Parameters::AddView(unsigned type, std::string_view bytes, bool is_null) {
  types_.push_back(type);
  lengths_.push_back(static_cast<int>(bytes.size()));
  formats_.push_back(kBinary);
  // An empty view may have no address, which would be taken for NULL.
  values_.push_back({is_null ? nullptr : (bytes.empty() ? "" : bytes.data()), -1});
}

void Parameters::Add(int64_t value) {
  std::string bytes;
  Append(&bytes, static_cast<uint64_t>(value));
  AddOwned(kInt8, std::move(bytes));
}

void Parameters::Add(bool value) { AddOwned(kBool, std::string(1, value ? '\1' : '\0')); }

void Parameters::Add(double value) {
  std::string bytes;
  Append(&bytes, BitsOf(value));
  AddOwned(kFloat8, std::move(bytes));
}

void Parameters::Add(std::string_view text) { AddView(kText, text, false); }
void Parameters::Add(Blob blob) { AddView(kBytea, blob.bytes, false); }
void Parameters::Add(BlobOrNull blob) { AddView(kBytea, blob.bytes, blob.bytes.empty()); }

void Parameters::Add(ZeroAsNull value) {
  if (value.value != 0) return Add(value.value);
  AddView(kInt8, "", true);
}

void Parameters::Add(const std::vector<int64_t>* values) {
  std::string out = BeginArray(kInt8, values->size(), false, values->size() * sizeof(int64_t));
  for (const int64_t value : *values) {
    Append(&out, uint32_t{sizeof(value)});
    Append(&out, static_cast<uint64_t>(value));
  }
  AddOwned(kInt8Array, std::move(out));
}

void Parameters::Add(const std::vector<double>* values) {
  std::string out = BeginArray(kFloat8, values->size(), false, values->size() * sizeof(double));
  for (const double value : *values) {
    Append(&out, uint32_t{sizeof(value)});
    Append(&out, BitsOf(value));
  }
  AddOwned(kFloat8Array, std::move(out));
}

void Parameters::Add(const Texts* values) { AddOwned(kTextArray, EncodeViews(kText, values->values, false)); }
void Parameters::Add(const Blobs* values) {
  AddOwned(kByteaArray, EncodeViews(kBytea, values->values, values->empty_is_null));
}

}  // namespace tunefarm::postgres
