#pragma once

// What every connection must do that facets written once for all databases use (server/store/shared/sql.h).

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "server/store/shared/sql.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {

struct SqlFactory {
  std::string name;
  // To an empty database of the directory's.
  std::function<absl::StatusOr<std::unique_ptr<Sql>>(const std::string& directory)> connect;
};
inline void PrintTo(const SqlFactory& factory, std::ostream* out) { *out << factory.name; }

class SqlConformance : public testing::TestWithParam<SqlFactory> {
 protected:
  void SetUp() override;

  TemporaryDirectory directory_;
  std::unique_ptr<Sql> sql_;
};

}  // namespace tunefarm
