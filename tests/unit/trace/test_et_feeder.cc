// SPDX-License-Identifier: Apache-2.0
// The C++ header, used as a simulator uses Chakra's: every node issued, pushed back once, and done.
#include <orrery/chakra/et_feeder.hpp>

#include <cstdio>
#include <cstdlib>
#include <set>

namespace Chakra = orrery::chakra;

static int checks = 0, failures = 0;

static void check(bool holds, const char *what)
{
    std::printf("%s %d - %s\n", holds ? "ok" : "not ok", ++checks, what);
    failures += !holds;
}

static unsigned run(const std::string &path, uint32_t window)
{
    Chakra::ETFeeder feeder(path, window);
    std::set<uint64_t> seen;
    bool pushed = false;
    while (feeder.hasNodesToIssue()) {
        const auto node = feeder.getNextIssuableNode();
        if (!pushed) { // resources are taken: later
            feeder.pushBackIssuableNode(node->id());
            pushed = true;
            continue;
        }
        check(seen.insert(node->id()).second, "a node is issued once");
        check(feeder.lookupNode(node->id()) != nullptr, "a node that runs is found");
        check(node->num_ops(17) == 17 || node->has_other_attr("num_ops"), "a default");
        feeder.freeChildrenNodes(node->id());
        feeder.removeNode(node->id());
    }
    check(feeder.isFinished(), "all are done");
    return static_cast<unsigned>(seen.size());
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        for (const uint32_t window : {1u, 4096u})
            check(run(argv[i], window) == 2, "both nodes of the file");
    try {
        Chakra::ETFeeder feeder("no such file.et");
        check(false, "a file that is not there throws");
    } catch (const std::runtime_error &) {
    }
    std::printf("1..%d\n", checks);
    return failures != 0;
}
