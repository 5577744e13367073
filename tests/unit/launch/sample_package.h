// The package that tests launch from: two kernels for a CPU, and a binary that has them (kernels.c).
#pragma once

#include <string>
#include <string_view>

#include "tests/unit/launch/package_builder.h"

namespace tunefarm::package {

// 64 bytes that pass for a binary as long as nobody loads it.
inline std::string NoBinary() {
  std::string bytes(64, '\0');
  bytes.replace(0, 7, std::string_view("\177ELF\2\1\1", 7));
  return bytes;
}

inline StepRecord HostStep(uint32_t entry, uint32_t first_argument, uint32_t arguments) {
  StepRecord step = {};
  step.kind = kKernelStep;
  step.when = kNone;
  step.entry = entry;
  for (int axis = 0; axis < 3; ++axis) step.grid[axis] = step.block[axis] = step.cluster[axis] = kNone;
  step.dynamic_shared_bytes = kNone;
  step.first_argument = first_argument;
  step.arguments = arguments;
  return step;
}

inline uint32_t SampleClass(PackageBuilder* builder, std::string_view cpu) {
  ClassRecord device_class = {builder->String("host-1"), builder->String(cpu), {}};
  device_class.properties[kSmCount] = 4;
  device_class.properties[kMemoryGib] = 8;
  builder->classes.push_back(device_class);
  return static_cast<uint32_t>(builder->classes.size()) - 1;
}

// "affine": z = factor * x + y, for n elements; tuned for n = 1024 (CHUNK 64) and n = 4096 (CHUNK 128), where n must be
// a multiple of CHUNK, with a default config (CHUNK 1). `dtype` is baked in and always "f32". The second config changes
// its weights first ("double_in_place" on y). Work space: n floats of 4 bytes; z is set to 0 before each launch.
inline PackageBuilder SamplePackage(std::string_view binary, std::string_view cpu) {
  PackageBuilder builder({"n", "dtype"});
  const uint32_t device_class = SampleClass(&builder, cpu);
  BinaryRecord record = {};
  record.kind = kSharedObject;
  record.toolchain = builder.String("cc");
  const uint32_t number = builder.Binary(record, binary);

  DimRecord n = {};
  n.name = builder.String("n");
  n.kind = kInt;
  n.bind = kRun;
  n.rule = kLog;
  n.min = 1;
  n.max = 1 << 20;
  n.default_value = kNone;
  DimRecord dtype = {};
  dtype.name = builder.String("dtype");
  dtype.kind = kString;
  dtype.bind = kBaked;
  dtype.rule = kExact;
  dtype.default_value = builder.AddValue("f32");
  builder.dims = {n, dtype};

  const uint32_t length = builder.Formula("n");
  const uint32_t count = builder.Formula("n if n > 0 else 1");
  const uint32_t factor = builder.Formula("2.5");
  const auto buffer = [&](const char* name, uint32_t access, uint32_t init) {
    BufferRecord added = {};
    added.name = builder.String(name);
    added.data_type = 11;
    added.access = access;
    added.init = init;
    added.length = length;
    added.symbol = kNone;
    builder.buffers.push_back(added);
  };
  buffer("x", kIn, kUntouched);
  buffer("y", kInOut, kUntouched);
  buffer("z", kOut, kZero);
  buffer("w", kScratch, kFill);
  builder.buffers.back().fill = 0x3f80'0000;  // 1.0f

  // affine(x, y, z, w, n, factor): z += factor * x * w + y
  builder.arguments = {{kBufferArgument, 0, 0}, {kBufferArgument, 1, 0},     {kBufferArgument, 2, 0},
                       {kBufferArgument, 3, 0}, {kScalarArgument, count, 7}, {kScalarArgument, factor, 11},
                       {kBufferArgument, 1, 0}, {kScalarArgument, count, 7}};
  builder.steps = {HostStep(builder.String("affine"), 0, 6), HostStep(builder.String("double_in_place"), 6, 2)};

  const auto choice = [&](uint32_t kind, int64_t tuned, int64_t chunk, bool prepares) {
    ChoiceRecord added = {};
    added.kind = kind;
    added.device_class = device_class;
    added.first_dim_value = builder.AddValues({tuned, "f32"});
    added.first_parameter = static_cast<uint32_t>(builder.pairs.size());
    added.parameters = 1;
    builder.pairs.push_back({builder.String("CHUNK"), builder.AddValue(chunk)});
    added.binary = number;
    added.buffers = 4;
    added.steps = 1;
    added.first_prepare = 1;
    added.prepares = prepares ? 1 : 0;
    added.layout = prepares ? 7 : 0;
    added.first_constraint = builder.Formula("n % " + std::to_string(chunk) + " == 0");
    added.constraints = 1;
    added.median_ns = kind == kTuned ? 1000.5 : 0;
    builder.choices.push_back(added);
  };
  choice(kTuned, 1024, 64, false);
  choice(kTuned, 4096, 128, true);
  choice(kDefault, 1, 1, false);

  KernelRecord kernel = {};
  kernel.name = builder.String("affine");
  kernel.kernel_id = builder.String("k1");
  kernel.program_digest = builder.String("p1");
  kernel.language = kHost;
  kernel.dims = 2;
  kernel.choices = 3;
  kernel.lookup_distance_max = 2;
  builder.kernels = {kernel};
  return builder;
}

}  // namespace tunefarm::package
