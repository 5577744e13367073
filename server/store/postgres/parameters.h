#pragma once

// What goes into a statement: the parameters $1, $2, … in PostgreSQL's binary format. A plain value type.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "server/store/shared/sql.h"

namespace tunefarm::postgres {

// Appends an integer in network byte order, as PostgreSQL's binary format has it.
template <typename Unsigned>
void Append(std::string* out, Unsigned value) {
  for (int shift = static_cast<int>(sizeof(value) - 1) * 8; shift >= 0; shift -= 8) {
    out->push_back(static_cast<char>((value >> shift) & 0xff));
  }
}

class Parameters {
 public:
  explicit Parameters(std::initializer_list<SqlValue> values);

  int count() const { return static_cast<int>(types_.size()); }
  const unsigned* types() const { return types_.data(); }
  // For libpq; valid while this lives.
  std::vector<const char*> Values() const;
  const int* lengths() const { return lengths_.data(); }
  const int* formats() const { return formats_.data(); }

 private:
  void Add(int64_t value);
  void Add(bool value);
  void Add(double value);
  void Add(std::string_view text);
  void Add(Blob blob);
  void Add(BlobOrNull blob);
  void Add(ZeroAsNull value);
  void Add(const std::vector<int64_t>* values);
  void Add(const std::vector<double>* values);
  void Add(const Texts* values);
  void Add(const Blobs* values);

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
