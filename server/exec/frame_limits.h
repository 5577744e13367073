#pragma once

// What both ends of a worker's channel agree on: sizes, the protocol's version, and the exit codes of a worker.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tunefarm {

inline constexpr uint32_t kFrameProtocolVersion = 1;

// Of one packet, in bytes; less than the kernel's default for the buffer of a socket, 208 KiB. Anything larger travels
// as a sealed memfd. In JSON the longest log is up to 64 KiB long, 4096 samples are up to 56 KiB.
inline constexpr size_t kFrameBytesMax = 128 << 10;
// Memfds that one packet may carry.
inline constexpr size_t kFrameFdsMax = 4;
// Descriptors of data files behind them, in a Prepare: those of one kernel.
inline constexpr size_t kFrameDataFilesMax = 64;
inline constexpr uint64_t kArtifactBytesMax = 64ull << 20;
// As it is sent: in JSON the sources are a third longer than they are.
inline constexpr uint64_t kKernelBytesMax = 16ull << 20;
// Of the outputs of one reference.
inline constexpr uint64_t kExpectedOutputsBytesMax = 512ull << 20;
// Of what a run worker leaves to those that are started after it.
inline constexpr uint64_t kWarmStartBytesMax = 16ull << 20;
// Of a sentence, and of the log inside a Result.
inline constexpr size_t kFrameMessageBytesMax = 4 << 10;
inline constexpr size_t kFrameLogBytesMax = 32 << 10;
// Of the options that a compiler was told, together.
inline constexpr size_t kFrameOptionsBytesMax = 32 << 10;

// The descriptor on which a worker finds its channel.
inline constexpr int kWorkerChannelFd = 3;

// What a worker compiles and runs is its backend. Of a kernel in Python it tells the kind of device too.
inline constexpr std::string_view kHostBackend = "host";
inline constexpr std::string_view kCudaBackend = "cuda";
inline constexpr std::string_view kPythonHostBackend = "python-host";
inline constexpr std::string_view kPythonCudaBackend = "python-cuda";
constexpr bool IsPythonBackend(std::string_view backend) {
  return backend == kPythonHostBackend || backend == kPythonCudaBackend;
}
// Measures on the processor's cores, where nothing else may work meanwhile.
constexpr bool IsHostBackend(std::string_view backend) {
  return backend == kHostBackend || backend == kPythonHostBackend;
}

// The role of a worker that holds the clock of a GPU.
inline constexpr std::string_view kClocksRole = "clocks";

// Exit codes of tunefarm-worker; everything else says nothing. 0: it was asked to end, or its channel closed.
enum WorkerExitCode : int {
  kWorkerExitOk = 0,
  kWorkerExitUsage = 64,        // bad arguments
  kWorkerExitSandbox = 70,      // no sandbox, no fork, or the parent was gone: nothing was run
  kWorkerExitBackend = 71,      // the backend's libraries or tools are missing
  kWorkerExitProtocol = 76,     // the daemon sent what it must not
  kWorkerExitOutOfMemory = 86,  // an allocation failed
};

}  // namespace tunefarm
