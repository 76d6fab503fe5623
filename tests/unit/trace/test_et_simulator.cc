// SPDX-License-Identifier: Apache-2.0
// Recordings consumed through the C++ header as ASTRA-sim's workload layer consumes Chakra's:
// whatever is free is asked for, what finds its unit taken is pushed back, what ends frees others,
// and collectives end on all ranks at once.
#include <orrery/chakra/et_feeder.hpp>
#include <orrery/trace.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <queue>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

namespace Chakra = orrery::chakra;

static int checks = 0, failures = 0;

static void check(bool holds, const std::string &what)
{
    std::printf("%s %d - %s\n", holds ? "ok" : "not ok", ++checks, what.c_str());
    failures += !holds;
}

enum Unit { HOST, COMPUTE, NETWORK, UNITS };

static Unit unit_of(Chakra::ETFeederNode &node)
{
    if (node.type() >= ORR_FEEDER_SEND)
        return NETWORK;
    return node.is_cpu_op(true) ? HOST : COMPUTE;
}

struct Run {
    uint64_t from, to;
};
using Runs = std::map<uint64_t, Run>; // by id

// One NPU: its feeder, and how many nodes each unit runs at most.
struct Npu {
    Npu(const std::string &path, uint32_t window, uint32_t width)
        : feeder(path, window), width(width)
    {
    }
    Chakra::ETFeeder feeder;
    uint32_t width, busy[UNITS] = {}, n_collectives = 0;
    Runs runs;
};

struct Event {
    uint64_t at;
    uint32_t npu;
    uint64_t id;
    Unit unit;
    bool operator<(const Event &other) const // the earliest is on top
    {
        return at != other.at ? at > other.at : npu != other.npu ? npu > other.npu : id > other.id;
    }
};

// The k-th collective of every NPU is one, and takes what its last member takes, from when that
// came.
struct Meeting {
    uint32_t come = 0;
    uint64_t last = 0, takes = 0;
    std::vector<Event> members;
};

class System
{
  public:
    System(const std::vector<std::string> &files, uint32_t window, uint32_t width)
    {
        for (const auto &file : files)
            npus.emplace_back(std::make_unique<Npu>(file, window, width));
    }

    uint64_t run()
    {
        for (uint32_t i = 0; i < npus.size(); i++)
            issue(i);
        while (!events.empty()) {
            const Event event = events.top();
            events.pop();
            now = event.at;
            Npu &npu = *npus[event.npu];
            npu.busy[event.unit]--;
            npu.feeder.freeChildrenNodes(event.id);
            issue(event.npu);
            npu.feeder.removeNode(event.id);
        }
        return now;
    }

    std::vector<std::unique_ptr<Npu>> npus;
    uint64_t now = 0, pushed_back = 0;

  private:
    void issue(uint32_t i)
    {
        Npu &npu = *npus[i];
        std::vector<uint64_t> taken;
        while (const auto node = npu.feeder.getNextIssuableNode()) {
            const Unit unit = unit_of(*node);
            if (npu.busy[unit] >= npu.width) {
                taken.push_back(node->id());
                continue;
            }
            npu.busy[unit]++;
            begin(i, *node, unit);
        }
        for (const uint64_t id : taken)
            npu.feeder.pushBackIssuableNode(id);
        pushed_back += taken.size();
    }

    void begin(uint32_t i, Chakra::ETFeederNode &node, Unit unit)
    {
        Npu &npu = *npus[i];
        const Event event{now + node.runtime(), i, node.id(), unit};
        if (node.type() != ORR_FEEDER_COLLECTIVE || npus.size() == 1)
            return end(event);
        Meeting &meeting = meetings[npu.n_collectives++];
        meeting.members.push_back(event);
        meeting.last = now;
        meeting.takes = std::max<uint64_t>(meeting.takes, node.runtime());
        npu.runs[node.id()] = {now, now};
        if (++meeting.come < npus.size())
            return;
        for (Event member : meeting.members) {
            member.at = meeting.last + meeting.takes;
            end(member);
        }
    }

    void end(const Event &event)
    {
        Runs &runs = npus[event.npu]->runs;
        if (runs.find(event.id) == runs.end())
            runs[event.id] = {now, event.at};
        runs[event.id].to = event.at;
        events.push(event);
    }

    std::priority_queue<Event> events;
    std::map<uint32_t, Meeting> meetings;
};

// What the file says, through the reader instead of the feeder.
struct File {
    const orr_graph *g = nullptr;
    uint64_t longest = 0, all = 0;
    explicit File(const std::string &path)
    {
        orr_read_options options;
        orr_error err;
        orr_read_options_init(&options);
        options.lowered = true;
        if (orr_trace_read(path.c_str(), &options, &g, nullptr, &err) != ORR_OK)
            throw std::runtime_error(err.text);
        std::vector<uint64_t> end(g->n_nodes);
        for (orr_node_id v = 0; v < g->n_nodes;
             v++) { // in the order of the file nothing waits for what comes later
            for (uint32_t d = g->dep_first[v]; d < g->dep_first[v + 1]; d++)
                if (g->dep_kind[d] == ORR_DEP_DATA)
                    end[v] = std::max(end[v], end[g->dep[d]]);
            end[v] += takes(v);
            longest = std::max(longest, end[v]);
            all += takes(v);
        }
    }
    ~File()
    {
        orr_graph_free(g);
    }
    uint64_t takes(orr_node_id v) const // duration_micros of the file
    {
        orr_attr self;
        int64_t ns = g->duration_ns[v];
        if (orr_graph_find_attr(g, v, "self_ns", &self))
            (void)orr_attr_int(&self, &ns);
        return (static_cast<uint64_t>(ns) + 500) / 1000;
    }
    bool keeps(const Runs &runs) const
    {
        if (runs.size() != g->n_nodes)
            return false;
        for (orr_node_id v = 0; v < g->n_nodes; v++)
            for (uint32_t d = g->dep_first[v]; d < g->dep_first[v + 1]; d++)
                if (g->dep_kind[d] == ORR_DEP_DATA &&
                    runs.at(g->source_id[g->dep[d]]).to > runs.at(g->source_id[v]).from)
                    return false;
        return true;
    }
};

static void one_npu(const std::string &name, const std::string &path)
{
    const File file(path);
    System unbounded({path}, 4096 * 256, UINT32_MAX);
    check(unbounded.run() == file.longest,
          name + ": with units without end it takes its longest path");
    check(file.keeps(unbounded.npus[0]->runs), name + ": each node once, after what it waits for");
    for (const uint32_t window : {16u, 4096u * 256}) {
        System bounded({path}, window, 1);
        const uint64_t end = bounded.run();
        check(end >= file.longest && end <= file.all,
              name + ": with one of each unit no shorter, and no idle time");
        check(file.keeps(bounded.npus[0]->runs), name + ": each node once there, too");
        check(bounded.npus[0]->feeder.isFinished(), name + ": the feeder is finished");
        check(window == 16 || bounded.pushed_back > 0, name + ": units were taken");
    }
}

static void all_npus(const std::string &name, const std::vector<std::string> &paths)
{
    System system(paths, 4096 * 256, 1);
    const uint64_t end = system.run();
    uint64_t longest = 0;
    for (size_t i = 0; i < paths.size(); i++) {
        const File file(paths[i]);
        longest = std::max(longest, file.longest);
        check(file.keeps(system.npus[i]->runs),
              name + ": every NPU runs all of its nodes in order");
    }
    check(end >= longest, name + ": no shorter than the longest path of an NPU");
}

static std::vector<std::string> converted(const std::string &job, const std::string &folder)
{
    const char *path = job.c_str();
    const orr_job *read;
    const orr_job_file *files;
    size_t n;
    orr_error err;
    orr_arena *arena = orr_arena_new(0, 0);
    std::vector<std::string> made;
    if (orr_job_read(&path, 1, nullptr, arena, &read, &files, &n, &err) != ORR_OK)
        throw std::runtime_error(err.text);
    for (uint32_t i = 0; i < read->n_graphs; i++) {
        made.push_back(folder + "/rank" + std::to_string(i) + ".et");
        if (orr_trace_write(made.back().c_str(), ORR_FORMAT_CHAKRA, read->graphs[i], &err) !=
            ORR_OK)
            throw std::runtime_error(err.text);
    }
    orr_job_free(read);
    orr_arena_free(arena);
    return made;
}

int main()
{
    const char *source = std::getenv("ORRERY_SOURCE");
    char folder[] = "/tmp/orrery-et-XXXXXX";
    if (mkdtemp(folder) == nullptr)
        return 1;
    for (const char *name : {"mlp_ddp_gloo_w2", "gpt_ddp_gloo_w2", "moe_gloo_w2"}) {
        const auto paths =
            converted(std::string(source ? source : ".") + "/examples/traces/" + name, folder);
        one_npu(name, paths[0]);
        all_npus(name, paths);
        for (const auto &path : paths)
            unlink(path.c_str());
    }
    rmdir(folder);
    std::printf("1..%d\n", checks);
    return failures != 0;
}
