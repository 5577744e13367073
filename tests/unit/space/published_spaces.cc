#include "tests/unit/space/published_spaces.h"

#include <fmt/core.h>

#include <algorithm>

namespace tunefarm {
namespace {

std::vector<Value> Range(int from, int to, int step = 1) {
  std::vector<Value> values;
  for (int value = from; value <= to; value += step) values.push_back(value);
  return values;
}

std::vector<Value> Powers(int from, int to) {
  std::vector<Value> values;
  for (int value = from; value <= to; value *= 2) values.push_back(value);
  return values;
}

PublishedSpace Dedispersion() {
  PublishedSpace space{"dedispersion", {}, 11130, 0.019};
  space.definition.parameters = {{"block_size_x", Powers(1, 32), {}}, {"block_size_y", Range(32, 256, 8), {}},
                                 {"block_size_z", {1}, {}},           {"tile_size_x", Range(1, 4), {}},
                                 {"tile_size_y", Range(1, 8), {}},    {"tile_stride_x", {0, 1}, {}},
                                 {"tile_stride_y", {0, 1}, {}},       {"loop_unroll_factor_channel", {0}, {}}};
  space.definition.constraints = {{"32 <= block_size_x * block_size_y <= 1024", ""},
                                  {"tile_size_x > 1 or tile_stride_x == 0", ""},
                                  {"tile_size_y > 1 or tile_stride_y == 0", ""}};
  return space;
}

PublishedSpace Convolution() {
  PublishedSpace space{"convolution", {}, 4362, 0};
  space.definition.parameters = {{"block_size_x", Range(16, 256, 16), {}},
                                 {"block_size_y", Powers(1, 16), {}},
                                 {"tile_size_x", Range(1, 4), {}},
                                 {"tile_size_y", Range(1, 4), {}},
                                 {"read_only", {0, 1}, {}},
                                 {"use_padding", {0, 1}, {}},
                                 {"use_shmem", {0, 1}, {}},
                                 {"use_cmem", {1}, {}},
                                 {"filter_height", {15}, {}},
                                 {"filter_width", {15}, {}}};
  space.definition.constraints = {
      {"use_padding==0 or block_size_x % 32 != 0", ""},
      {"block_size_x*block_size_y<=1024", ""},
      {"use_padding==0 or use_shmem != 0", ""},
      {"use_shmem == 0 or (((block_size_x*tile_size_x+(filter_width-1)))*((block_size_y*tile_size_y+"
       "(filter_height-1)))) < 12*1024",
       ""}};
  return space;
}

PublishedSpace CoulombSum() {
  PublishedSpace space{"coulomb_sum", {}, 210, 0};
  space.definition.parameters = {{"WORK_GROUP_SIZE_X", {16, 32}, {}},
                                 {"WORK_GROUP_SIZE_Y", Powers(1, 8), {}},
                                 {"WORK_GROUP_SIZE_Z", {1}, {}},
                                 {"Z_ITERATIONS", Powers(1, 32), {}},
                                 {"INNER_UNROLL_FACTOR", {0, 1, 2, 4, 8, 16, 32}, {}},
                                 {"USE_CONSTANT_MEMORY", {0}, {}},
                                 {"USE_SOA", {0, 1}, {}},
                                 {"VECTOR_SIZE", {1}, {}}};
  space.definition.constraints = {{"INNER_UNROLL_FACTOR < Z_ITERATIONS", ""},
                                  {"WORK_GROUP_SIZE_X * WORK_GROUP_SIZE_Y >= 64", ""}};
  return space;
}

constexpr char kHotspotTile[] =
    "(block_size_x*tile_size_x+ temporal_tiling_factor * 2) * (block_size_y*tile_size_y+ temporal_tiling_factor * 2) "
    "* (2+sh_power) * 4";

PublishedSpace Hotspot(bool has_blocks_per_sm) {
  PublishedSpace space{"hotspot", {}, 82984, 0};
  std::vector<Value> block_x = Powers(1, 16);
  for (const Value& value : Range(32, 1024, 32)) block_x.push_back(value);
  space.definition.parameters = {{"grid_width", {4096}, {}},
                                 {"grid_height", {4096}, {}},
                                 {"block_size_x", block_x, {}},
                                 {"block_size_y", Powers(1, 32), {}},
                                 {"tile_size_x", Range(1, 10), {}},
                                 {"tile_size_y", Range(1, 10), {}},
                                 {"temporal_tiling_factor", Range(1, 10), {}},
                                 {"max_tfactor", {10}, {}},
                                 {"loop_unroll_factor_t", Range(1, 10), {}},
                                 {"sh_power", {0, 1}, {}}};
  space.definition.constraints = {{"block_size_x*block_size_y>= 32", ""},
                                  {"temporal_tiling_factor % loop_unroll_factor_t == 0", ""},
                                  {"block_size_x*block_size_y <= 1024", ""},
                                  {std::string(kHotspotTile) + " <= 49152", ""}};
  if (!has_blocks_per_sm) return space;
  space.name = "hotspot_blocks_per_sm";
  space.valid = 349853;
  space.kernel_tuner_s = 1.40;
  space.definition.parameters.push_back({"blocks_per_sm", Range(0, 4), {}});
  space.definition.constraints.push_back(
      {fmt::format("blocks_per_sm == 0 or (({}) * blocks_per_sm <= 102400)", kHotspotTile), ""});
  return space;
}

PublishedSpace Gemm() {
  PublishedSpace space{"gemm", {}, 116928, 0.22};
  const std::vector<Value> tile = Powers(16, 128);
  const std::vector<Value> threads = {8, 16, 32};
  const std::vector<Value> flag = {0, 1};
  space.definition.parameters = {{"GEMMK", {0}, {}},        {"MWG", tile, {}},         {"NWG", tile, {}},
                                 {"KWG", {16, 32}, {}},     {"MDIMC", threads, {}},    {"NDIMC", threads, {}},
                                 {"MDIMA", threads, {}},    {"NDIMB", threads, {}},    {"KWI", {2}, {}},
                                 {"VWM", Powers(1, 8), {}}, {"VWN", Powers(1, 8), {}}, {"STRM", flag, {}},
                                 {"STRN", flag, {}},        {"SA", flag, {}},          {"SB", flag, {}},
                                 {"KREG", {1}, {}},         {"PRECISION", {32}, {}}};
  space.definition.constraints = {{"KWG % KWI == 0", ""},
                                  {"MWG % (MDIMC * VWM) == 0", ""},
                                  {"NWG % (NDIMC * VWN) == 0", ""},
                                  {"MWG % (MDIMA * VWM) == 0", ""},
                                  {"NWG % (NDIMB * VWN) == 0", ""},
                                  {"KWG % ((MDIMC * NDIMC)/MDIMA) == 0", ""},
                                  {"KWG % ((MDIMC * NDIMC)/NDIMB) == 0", ""},
                                  {"not (MWG == 128 and NWG == 128 and MDIMC == 8 and NDIMC == 8)", ""}};
  return space;
}

PublishedSpace MicroHh() {
  PublishedSpace space{"microhh", {}, 138600, 0.43};
  std::vector<Value> block_x = Powers(1, 32);
  for (const Value& value : Powers(128, 1024)) block_x.push_back(value);
  space.definition.parameters = {{"BLOCK_SIZE_X", block_x, {}},
                                 {"BLOCK_SIZE_Y", Powers(1, 32), {}},
                                 {"BLOCK_SIZE_Z", Powers(1, 4), {}},
                                 {"STATIC_STRIDES", {0}, {}},
                                 {"TILING_FACTOR_X", Powers(1, 8), {}},
                                 {"TILING_FACTOR_Y", Powers(1, 4), {}},
                                 {"TILING_FACTOR_Z", Powers(1, 4), {}},
                                 {"TILING_STRATEGY", {0}, {}},
                                 {"REWRITE_INTERP", {0}, {}},
                                 {"BLOCKS_PER_MP", Range(0, 4), {}},
                                 {"LOOP_UNROLL_FACTOR_X", Powers(1, 8), {}},
                                 {"LOOP_UNROLL_FACTOR_Y", Powers(1, 4), {}},
                                 {"LOOP_UNROLL_FACTOR_Z", Powers(1, 4), {}}};
  space.definition.constraints = {{"BLOCK_SIZE_X * BLOCK_SIZE_Y * BLOCK_SIZE_Z * BLOCKS_PER_MP <= 1024", ""},
                                  {"32 <= BLOCK_SIZE_X * BLOCK_SIZE_Y * BLOCK_SIZE_Z <= 1536", ""}};
  for (const char* axis : {"X", "Y", "Z"}) {
    space.definition.constraints.push_back(
        {fmt::format("LOOP_UNROLL_FACTOR_{0} == 0 or TILING_FACTOR_{0} % LOOP_UNROLL_FACTOR_{0} == 0", axis), ""});
    space.definition.constraints.push_back({fmt::format("BLOCK_SIZE_{0} * TILING_FACTOR_{0} > 0", axis), ""});
  }
  return space;
}

PublishedSpace Expdist() {
  PublishedSpace space{"expdist", {}, 294000, 0.60};
  std::vector<Value> block_x = Powers(32, 1024);
  std::reverse(block_x.begin(), block_x.end());
  space.definition.parameters = {{"block_size_x", block_x, {}},
                                 {"block_size_y", Powers(1, 32), {}},
                                 {"tile_size_x", Range(1, 8), {}},
                                 {"tile_size_y", Range(1, 8), {}},
                                 {"use_shared_mem", {0, 1, 2}, {}},
                                 {"loop_unroll_factor_x", Range(1, 8), {}},
                                 {"loop_unroll_factor_y", Range(1, 8), {}},
                                 {"use_column", {0, 1}, {}},
                                 {"use_separate_acc", {0}, {}},
                                 {"n_y_blocks", Powers(1, 1024), {}}};
  space.definition.constraints = {
      {"use_column != 0 or n_y_blocks <= 1", ""},
      {"use_column != 0 or use_shared_mem != 2", ""},
      {"loop_unroll_factor_x <= tile_size_x and (tile_size_x % loop_unroll_factor_x == 0)", ""},
      {"loop_unroll_factor_y <= tile_size_y and (tile_size_y % loop_unroll_factor_y == 0)", ""},
      {"block_size_x * block_size_y <= 1024", ""}};  // the thread limit that Kernel Tuner adds by itself
  return space;
}

// The shape of ATF's stencil and linking spaces: chains of divisors over [1, size] in two dimensions.
PublishedSpace DivisorChains(int size, uint64_t valid) {
  PublishedSpace space{fmt::format("divisor_chains_{}", size), {}, valid, 0};
  SpaceDefinition& definition = space.definition;
  definition.parameters = {{"CACHE_L_CB", {0, 1}, {}},
                           {"CACHE_P_CB", {0, 1}, {}},
                           {"G_CB_RES_DEST_LEVEL", {2}, {}},
                           {"L_CB_RES_DEST_LEVEL", {2, 1, 0}, {}},
                           {"P_CB_RES_DEST_LEVEL", {2, 1, 0}, {}}};
  definition.constraints = {{"L_CB_RES_DEST_LEVEL <= G_CB_RES_DEST_LEVEL", ""},
                            {"P_CB_RES_DEST_LEVEL <= L_CB_RES_DEST_LEVEL", ""},
                            {"OCL_DIM_L_2 != OCL_DIM_L_1", ""}};
  for (const int axis : {1, 2}) {
    definition.parameters.push_back({fmt::format("INPUT_SIZE_L_{}", axis), {size}, {}});
    for (const char* name : {"L_CB_SIZE_L", "P_CB_SIZE_L"}) {
      definition.parameters.push_back({fmt::format("{}_{}", name, axis), Range(1, size), {}});
    }
    definition.parameters.push_back({fmt::format("OCL_DIM_L_{}", axis), {0, 1}, {}});
    for (const char* name : {"NUM_WG_L", "NUM_WI_L"}) {
      definition.parameters.push_back({fmt::format("{}_{}", name, axis), Range(1, size), {}});
    }
    for (const char* rule : {"INPUT_SIZE_L_{0} % L_CB_SIZE_L_{0} == 0", "L_CB_SIZE_L_{0} % P_CB_SIZE_L_{0} == 0",
                             "(INPUT_SIZE_L_{0} / L_CB_SIZE_L_{0}) % NUM_WG_L_{0} == 0",
                             "(L_CB_SIZE_L_{0} / P_CB_SIZE_L_{0}) % NUM_WI_L_{0} == 0",
                             "NUM_WI_L_{0} <= (INPUT_SIZE_L_{0} + NUM_WG_L_{0} - 1 / NUM_WG_L_{0})"}) {
      definition.constraints.push_back({fmt::format(fmt::runtime(rule), axis), ""});
    }
  }
  for (const char* name : {"L_REDUCTION", "P_WRITE_BACK", "L_WRITE_BACK"}) {
    definition.parameters.push_back({name, {1}, {}});
  }
  return space;
}

}  // namespace

std::vector<PublishedSpace> PublishedSpaces() {
  return {Dedispersion(), Convolution(), CoulombSum(), Hotspot(false),         Hotspot(true),
          Gemm(),         MicroHh(),     Expdist(),    DivisorChains(8, 58800)};
}

SpaceDefinition FftLikeDefinition(bool has_rules) {
  SpaceDefinition definition;
  // Their product is 806,215,680,000.
  const int sizes[] = {4, 5, 2, 3, 9, 4, 3, 5, 2, 4, 3, 4, 9, 5, 2, 3, 4, 3, 5, 2, 4};
  for (const int size : sizes) {
    std::vector<Value> values;
    for (int value = 1; value <= size; ++value) values.push_back(value);
    definition.parameters.push_back({fmt::format("P{}", definition.parameters.size()), values, {}});
  }
  if (!has_rules) return definition;
  std::string sum = "P0";
  for (int i = 0; i + 1 < 21; ++i) {
    definition.constraints.push_back({fmt::format("P{} * P{} % 5 != 0 or P{} == 1", i, i + 1, i), ""});
    sum += fmt::format(" + P{}", i + 1);
  }
  definition.constraints.push_back({sum + " <= 60", ""});
  return definition;
}

}  // namespace tunefarm
