#include "server/cost/peak_rates.h"

namespace tunefarm {
namespace {

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;

// NVIDIA's data sheets of T4, A100 (SXM, 80 GB), L40S, H100 (SXM), H200 and B200; without sparsity. 0: no such unit.
struct Product {
  std::string_view display_name;
  double gigabytes;
  double fp32, fp64, tf32, f16, fp8, i8;  // tera-operations; f16 and bf16 are alike
};
constexpr Product kProducts[] = {
    {"Tesla T4", 320, 8.1, 0.25, 0, 65, 0, 130},         {"NVIDIA A100-SXM4-80GB", 2039, 19.5, 9.7, 156, 312, 0, 624},
    {"NVIDIA L40S", 864, 91.6, 1.4, 183, 362, 733, 733}, {"NVIDIA H100 80GB HBM3", 3352, 67, 34, 495, 989, 1979, 1979},
    {"NVIDIA H200", 4800, 67, 34, 495, 989, 1979, 1979}, {"NVIDIA B200", 8000, 75, 37, 1125, 2250, 4500, 4500},
};

double FlopsOf(const Product& product, std::string_view unit) {
  if (unit == "fp32") return product.fp32;
  if (unit == "fp64") return product.fp64;
  if (unit == "tensor_tf32") return product.tf32;
  if (unit == "tensor_f16" || unit == "tensor_bf16") return product.f16;
  if (unit == "tensor_fp8") return product.fp8;
  if (unit == "tensor_i8") return product.i8;
  return 0;
}

}  // namespace

PeakRates PeakRatesOf(const DeviceClass& device, std::string_view flops_unit) {
  if (!device.mig_profile.empty()) return {};
  for (const Product& product : kProducts) {
    if (product.display_name == device.display_name) {
      return {FlopsOf(product, flops_unit) * kTera, product.gigabytes * kGiga};
    }
  }
  return {};
}

}  // namespace tunefarm
