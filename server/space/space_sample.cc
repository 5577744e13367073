// Uniform sampling without listing. Groups of parameters that no rule connects are independent, so a uniform solution
// of each makes a uniform config. Search programs draw by exact counts. Where they cannot (a rule that cannot be
// evaluated somewhere, or more to remember than there is room for), there are two exact methods for a component, chosen
// once:
//   - rejection: uniform points of its Cartesian product until one is valid; taken where a fair share of points is
//   valid;
//   - counting: the exact number of solutions below each of up to some thousands of prefixes; a number drawn below the
//     total picks the prefix, and a walk below it finds the solution of that rank.
// (Restarting a depth-first search from random values is neither: it favours solutions in sparse subtrees.)
#include <fmt/core.h>

#include <algorithm>

#include "server/base/format.h"
#include "server/base/random.h"
#include "server/base/saturating.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/space/space_internal.h"

namespace tunefarm {

using space_internal::Binding;
using space_internal::Component;
using space_internal::ComponentSampler;
using space_internal::Sampler;
using space_internal::Verdict;
using space_internal::WalkEnd;

namespace {

constexpr uint64_t kTrialSeed = 0x7472'6961'6c73'6565;
constexpr int kTrials = 4096;
constexpr int kTrialsValidMin = 40;              // about 1 %: rejection then costs about 100 points a sample
constexpr double kCountFirstCartesianMax = 1e6;  // below, counting is a matter of milliseconds
constexpr double kPrefixesMax = 50'000;
constexpr uint64_t kRejectionTriesMax = 20'000'000;

}  // namespace

Verdict Space::Impl::DrawPoint(const Component& component, PhiloxStream& random, Binding* binding,
                               std::vector<uint16_t>* row, absl::Status* fault) const {
  *fault = absl::OkStatus();
  for (size_t depth = 0; depth < component.parameters.size(); ++depth) {
    const auto& domain = component.domains[depth];
    const uint16_t value = domain[random.UniformInt(domain.size())];
    Bind(component.parameters[depth], value, binding);
    (*row)[component.parameters[depth]] = value;
  }
  for (const auto& at_depth : component.rules_at) {
    for (const int rule : at_depth) {
      const Verdict verdict = Judge(rule, *binding);
      if (verdict == Verdict::kReject) return Verdict::kReject;
      if (verdict == Verdict::kFault && fault->ok()) *fault = FaultStatus(rule, *binding);
    }
  }
  return fault->ok() ? Verdict::kPass : Verdict::kFault;
}

Sampler Space::Impl::MakeSampler() const {
  Sampler sampler;
  if (is_rejected_by_constant_rule) {
    sampler.status = NotFound("the space is empty: a rule without parameters rejects everything");
    return sampler;
  }
  sampler.status = constant_fault;
  if (constant_fault.ok() && MakeProgramSamplers(&sampler.programs)) {
    const bool is_empty = is_rejected_by_program || std::any_of(sampler.programs.begin(), sampler.programs.end(),
                                                                [](const auto& program) { return program.total == 0; });
    if (is_empty) sampler.status = NotFound("the space is empty");
    return sampler;
  }
  sampler.programs.clear();
  for (const Component& component : components) {
    ComponentSampler part;
    Binding binding(parameters.size());
    absl::Status fault;
    if (component.FreeProduct(0) == 0) {
      sampler.status = NotFound("the space is empty");
      return sampler;
    }
    if (component.free_from == 0) {  // no rules: every point is valid
      sampler.components.push_back(std::move(part));
      continue;
    }
    int valid = 0;
    if (component.cartesian > kCountFirstCartesianMax) {
      PhiloxStream random(kTrialSeed);
      std::vector<uint16_t> row(parameters.size(), 0);
      for (int i = 0; i < kTrials; ++i) {
        if (DrawPoint(component, random, &binding, &row, &fault) == Verdict::kPass) ++valid;
      }
    }
    if (valid < kTrialsValidMin) {
      // Count the solutions below each prefix.
      double prefixes = 1;
      while (part.prefix_depth < component.free_from) {
        prefixes *= static_cast<double>(component.domains[part.prefix_depth].size());
        if (prefixes > kPrefixesMax) break;
        ++part.prefix_depth;
      }
      std::vector<uint16_t> indices(component.parameters.size(), 0);
      uint64_t nodes = options.nodes_max;
      uint64_t total = 0;
      const size_t width = static_cast<size_t>(part.prefix_depth);
      const auto visit = [&](const std::vector<uint16_t>& solution, uint64_t multiplicity) {
        total = SaturatingAdd(total, multiplicity);
        const bool is_new = part.prefixes.empty() ||
                            !std::equal(part.prefixes.back().begin(), part.prefixes.back().end(), solution.begin());
        if (is_new) {
          part.prefixes.emplace_back(solution.begin(), solution.begin() + static_cast<std::ptrdiff_t>(width));
          part.cumulative.push_back(0);
        }
        part.cumulative.back() = total;
        return true;
      };
      const WalkEnd end = Walk(component, 0, &indices, &binding, &nodes, &fault, visit);
      if (end == WalkEnd::kFault && sampler.status.ok()) sampler.status = fault;
      if (end == WalkEnd::kDone && total == 0) {
        sampler.status = NotFound("the space is empty");
        return sampler;
      }
      // Where counting did not end, or the count does not fit, rejection remains.
      part.mode = end == WalkEnd::kDone && total != UINT64_MAX ? ComponentSampler::Mode::kCounted
                                                               : ComponentSampler::Mode::kRejection;
      if (part.mode == ComponentSampler::Mode::kRejection) part = ComponentSampler();
    }
    sampler.components.push_back(std::move(part));
  }
  return sampler;
}

absl::Status Space::Impl::DrawComponent(size_t index, const ComponentSampler& sampler, PhiloxStream& random,
                                        std::vector<uint16_t>* row) const {
  const Component& component = components[index];
  Binding binding(parameters.size());
  absl::Status fault;
  if (sampler.mode == ComponentSampler::Mode::kRejection) {
    for (uint64_t tries = 0; tries < kRejectionTriesMax; ++tries) {
      const Verdict verdict = DrawPoint(component, random, &binding, row, &fault);
      if (verdict == Verdict::kPass) return absl::OkStatus();
      if (verdict == Verdict::kFault) return fault;
    }
    return ResourceExhausted(
        "none of {} random points satisfies the rules and the space is too large to count; add constraints over fewer "
        "parameters or list fewer values",
        FormatCount(static_cast<int64_t>(kRejectionTriesMax)));
  }
  const uint64_t rank = random.UniformInt(sampler.cumulative.back());
  const size_t which = static_cast<size_t>(
      std::upper_bound(sampler.cumulative.begin(), sampler.cumulative.end(), rank) - sampler.cumulative.begin());
  uint64_t rest = rank - (which == 0 ? 0 : sampler.cumulative[which - 1]);
  std::vector<uint16_t> indices(component.parameters.size(), 0);
  for (size_t depth = 0; depth < sampler.prefixes[which].size(); ++depth) {
    indices[depth] = sampler.prefixes[which][depth];
    Bind(component.parameters[depth], indices[depth], &binding);
  }
  uint64_t nodes = UINT64_MAX;  // counted before
  const auto visit = [&](const std::vector<uint16_t>&, uint64_t multiplicity) {
    if (rest >= multiplicity) {
      rest -= multiplicity;
      return true;
    }
    return false;
  };
  // The walk stops at the solution with the rank; `rest` is then its rank among the free combinations below.
  const WalkEnd end = Walk(component, sampler.prefix_depth, &indices, &binding, &nodes, &fault, visit);
  if (end == WalkEnd::kFault) return fault;
  if (end != WalkEnd::kStopped) return Internal("solution {} of a counted space was not found again", rank);
  for (int depth = component.depth() - 1; depth >= component.free_from; --depth) {
    const auto& domain = component.domains[depth];
    indices[depth] = domain[rest % domain.size()];
    rest /= domain.size();
  }
  for (int depth = 0; depth < component.depth(); ++depth) (*row)[component.parameters[depth]] = indices[depth];
  return absl::OkStatus();
}

const Sampler& Space::Impl::TheSampler() const {
  const MutexLock lock(&sampler_mutex);
  if (made_sampler == nullptr) made_sampler = std::make_unique<const Sampler>(MakeSampler());
  return *made_sampler;
}

absl::StatusOr<std::vector<uint16_t>> Space::SampleUniform(PhiloxStream& random) const {
  const Sampler* const sampler = &impl_->TheSampler();
  RETURN_IF_ERROR(sampler->status);
  std::vector<uint16_t> row(impl_->parameters.size(), 0);
  for (size_t i = 0; i < sampler->programs.size(); ++i) {
    if (impl_->DrawFromProgram(i, sampler->programs[i], random, &row)) continue;
    return Internal("a rule failed that did not fail when the space was counted");
  }
  for (size_t i = 0; i < sampler->components.size(); ++i) {
    RETURN_IF_ERROR(impl_->DrawComponent(i, sampler->components[i], random, &row));
  }
  return row;
}

}  // namespace tunefarm
