#pragma once

// What goes into a statement: the parameters $1, $2, … in PostgreSQL's binary format. A plain value type.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tunefarm::postgres {

// Bytes for a bytea column; a plain std::string_view goes as text.
struct Blob {
  std::string_view bytes;
};
// The same, and NULL when empty.
struct BlobOrNull {
  std::string_view bytes;
};
// NULL for 0: "not yet" for times.
struct ZeroAsNull {
  int64_t value;
};
// Arrays, for statements about many rows at once (unnest). Views must outlive the statement.
struct Texts {
  std::vector<std::string_view> values;
};
struct Blobs {
  std::vector<std::string_view> values;
  bool empty_is_null = false;
};

class Parameters {
 public:
  template <typename... Values>
  explicit Parameters(const Values&... values) {
    Reserve(sizeof...(values));
    (Add(values), ...);
  }

  int count() const { return static_cast<int>(types_.size()); }
  const unsigned* types() const { return types_.data(); }
  // For libpq; valid while this lives.
  std::vector<const char*> Values() const;
  const int* lengths() const { return lengths_.data(); }
  const int* formats() const { return formats_.data(); }

 private:
  void Reserve(size_t count);
  void Add(int64_t value);
  void Add(int value) { Add(static_cast<int64_t>(value)); }
  void Add(bool value);
  void Add(double value);
  void Add(std::string_view text);
  void Add(const std::string& text) { Add(std::string_view(text)); }
  void Add(const char* text) { Add(std::string_view(text)); }
  void Add(Blob blob);
  void Add(BlobOrNull blob);
  void Add(ZeroAsNull value);
  void Add(const std::vector<int64_t>& values);
  void Add(const std::vector<double>& values);
  void Add(const Texts& values);
  void Add(const Blobs& values);

  // What is encoded here: an index into owned_. What the caller keeps: a pointer.
  struct Value {
    const char* data = nullptr;
    int owned = -1;
  };
  void AddOwned(unsigned type, std::string bytes);
  void AddView(unsigned type, std::string_view bytes, bool is_null);

  std::vector<unsigned> types_;
  std::vector<Value> values_;
  std::vector<int> lengths_;
  std::vector<int> formats_;
  std::vector<std::string> owned_;
};

}  // namespace tunefarm::postgres
