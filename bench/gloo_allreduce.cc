// SPDX-License-Identifier: Apache-2.0
// What bench_team_allreduce is held against: gloo's ring all-reduce of the same numbers over TCP.
//
//   gloo_allreduce RANKS [BYTES [ROUNDS]]
//
// As many processes as ranks, each bound to a core where there are enough. A JSON line as that of
// bench_team_allreduce.
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

namespace {

constexpr int kWarm = 3;

double NowUs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(now).count();
}

void BindToCore(int rank, int ranks) {
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(rank, &core);
  if (ranks <= sysconf(_SC_NPROCESSORS_ONLN))
    sched_setaffinity(0, sizeof core, &core);
}

void RunRank(const std::string& folder, int rank, int ranks, size_t bytes, int rounds) {
  BindToCore(rank, ranks);
  gloo::transport::tcp::attr where;
  where.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(where);
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->connectFullMesh(store, device);
  const size_t n = bytes / sizeof(float);
  std::vector<float> in(n), out(n);
  for (size_t i = 0; i < n; i++)
    in[i] = static_cast<float>(i % 1000) + static_cast<float>(rank);
  std::vector<double> times;
  for (int i = -kWarm; i < rounds; i++) {
    const double begin_us = NowUs();
    gloo::AllreduceOptions options(context);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setInput(in.data(), n);
    options.setOutput(out.data(), n);
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
    options.setTag(static_cast<uint32_t>(i + kWarm));
    gloo::allreduce(options);
    if (i >= 0)
      times.push_back(NowUs() - begin_us);
  }
  std::sort(times.begin(), times.end());
  const double us = times[times.size() / 2];
  if (rank == 0)
    std::printf("{\"transport\": \"gloo tcp\", \"ranks\": %d, \"bytes\": %zu, \"us\": %.2f, "
                "\"GB_per_s\": %.3f, \"busbw_GB_per_s\": %.3f}\n",
                ranks, bytes, us, 1e-3 * static_cast<double>(bytes) / us,
                2e-3 * static_cast<double>(bytes) / us * (ranks - 1) / ranks);
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? atoi(argv[1]) : 2;
  const size_t bytes = argc > 2 ? strtoul(argv[2], nullptr, 10) : 8 << 20;
  const size_t most = (size_t{1} << 30) / (bytes + 64);
  const int rounds = argc > 3 ? atoi(argv[3]) : static_cast<int>(std::clamp<size_t>(most, 11, 2001));
  char folder[] = "/tmp/gloo_XXXXXX";
  if (ranks < 1 || bytes < sizeof(float) || rounds < 1 || mkdtemp(folder) == nullptr)
    return 2;
  for (int rank = 0; rank < ranks; rank++)
    if (fork() == 0) {
      RunRank(folder, rank, ranks, bytes, rounds);
      std::fflush(stdout);
      _exit(0);
    }
  int failed = 0, status = 0;
  while (wait(&status) > 0)
    failed |= status;
  std::string command = std::string("rm -rf ") + folder;
  failed |= system(command.c_str());
  return failed == 0 ? 0 : 1;
}
