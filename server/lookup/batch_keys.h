// The keys of a batch's problems, put together from the texts of their values for the price of copying them: what
// ResolveProblem would file each problem under if it accepted it, which is not looked at here. One thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/definition/kernel_plan.h"
#include "tunefarm/v1/lookup_service.pb.h"

namespace tunefarm {

class BatchKeys {
 public:
  // `first`: the first problem, resolved, which says what all dims are called and what those without a column are. The
  // request's columns must fit each other; it must outlive this.
  BatchKeys(const tunefarm::v1::BatchLookupConfigsRequest& request, const ResolvedProblem& first);

  // False where a column is not of its dim's type, is there twice or is no dim's: then no key is right.
  bool works() const { return works_; }
  // Valid until the next call.
  std::string_view Key(int row);

 private:
  // Text that all keys share, then a column's value.
  struct Piece {
    std::string before;
    const tunefarm::v1::DimColumn* column = nullptr;  // null: the end
    std::vector<std::string> strings;                 // escaped, of a column of strings
  };

  size_t KeyBytesMax() const;

  bool works_ = false;
  std::vector<Piece> pieces_;
  std::string key_;  // room for the longest one
};

}  // namespace tunefarm
