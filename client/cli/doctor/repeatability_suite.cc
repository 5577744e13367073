#include "client/cli/doctor/repeatability_suite.h"

namespace tunefarm::cli {
namespace {

std::vector<std::string> Square(const std::string& size, std::vector<std::string> dims = {}) {
  for (const char* name : {"M=", "N=", "K="}) dims.push_back(name + size);
  return dims;
}

}  // namespace

std::span<const SuiteProblem> RepeatabilitySuite(bool on_gpu) {
  static const std::vector<SuiteProblem> kGpu = {
      {"matmul", Square("256", {"dtype=bf16"}), "compute"},
      {"matmul", Square("1024", {"dtype=bf16"}), "compute"},
      {"matmul", Square("4096", {"dtype=bf16"}), "compute"},
      {"matmul", Square("12288", {"dtype=bf16"}), "compute"},
      // 3 x 4 bytes for each element.
      {"vector_add", {"N=1048576"}, "memory"},
      {"vector_add", {"N=16777216"}, "memory"},
      {"vector_add", {"N=268435456"}, "memory"},
      {"vector_add", {"N=2147483648"}, "memory"},
  };
  static const std::vector<SuiteProblem> kHost = {
      {"matmul_host", Square("64"), "compute"},    {"matmul_host", Square("192"), "compute"},
      {"matmul_host", Square("640"), "compute"},   {"vector_add_host", {"N=16384"}, "memory"},
      {"vector_add_host", {"N=524288"}, "memory"}, {"vector_add_host", {"N=25165824"}, "memory"},
  };
  return on_gpu ? kGpu : kHost;
}

std::string LabelOf(const SuiteProblem& problem) {
  std::string label = problem.kernel;
  for (const std::string& dim : problem.dims) label += " " + dim;
  return label;
}

}  // namespace tunefarm::cli
