#pragma once

// What compile pools, run pools and probes have in common: how their workers are started.

#include <string>

#include "server/definition/kernel_plan.h"
#include "server/exec/process_evaluator_options.h"
#include "server/exec/worker_command.h"
#include "server/exec/worker_pool.h"

namespace tunefarm {

// Uids of the pools: compile-host, compile-cuda, then each device's, then those that compile Python.
inline constexpr int kUidsPerCompilePool = 256;
inline constexpr int kUidsPerDevice = 4;
inline constexpr int kUidsPerPythonPool = 120;
inline constexpr int kFirstPythonUid = 3 * kUidsPerCompilePool;

// See frame_limits.h. A kernel in Triton is compiled by an interpreter, and runs as CUDA does.
std::string BackendOf(const KernelPlan& plan);
std::string CompileBackendOf(const KernelPlan& plan);

// What holds for every worker, probes too.
WorkerCommandOptions CommandOptions(const ProcessEvaluatorOptions& options);

// The part of a pool's options that says how to start its workers; those of slot n run under first_slot + n. `options`
// must outlive the pool.
WorkerPool::Options PoolOptions(const ProcessEvaluatorOptions& options, WorkerRole role, const std::string& backend,
                                const std::string& name, const std::string& device_uuid, int first_slot);

}  // namespace tunefarm
