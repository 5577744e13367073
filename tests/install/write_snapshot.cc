// write_snapshot FILE: a snapshot with one best of "matmul" for M=64 on "Test GPU".
#include "client/cpp/snapshot/snapshot_writer.h"
#include "server/base/check.h"
#include "server/base/file.h"

int main(int argc, char** argv) {
  TUNEFARM_CHECK(argc == 2);
  tunefarm::snapshot::Best best;
  best.class_id = "gpu-1";
  best.class_name = "Test GPU";
  best.problem = "M=64";
  best.dims = {{"M", int64_t{64}}};
  best.config = {{"TILE", int64_t{5}}};
  tunefarm::snapshot::Contents contents;
  contents.kernels = {{"matmul", "id", "program", {{"M", {}}}, {best}}};
  const auto bytes = tunefarm::snapshot::Encode(contents);
  TUNEFARM_CHECK_OK(bytes);
  TUNEFARM_CHECK_OK(tunefarm::WriteFileAtomically(argv[1], *bytes));
  return 0;
}
