/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CHAKRA_ET_FEEDER_HPP
#define ORR_CHAKRA_ET_FEEDER_HPP

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include <orrery/feeder.h>

/* The feeder of <orrery/feeder.h> in the shape of Chakra's ETFeeder, for simulators that are
 * written for it: `namespace Chakra = orrery::chakra;`. What Chakra's returns as nullptr or throws
 * is so here; the file is never held whole. */
namespace orrery::chakra
{

/* What an attribute that a node lacks throws. */
class MissingAttrError : public std::runtime_error
{
  public:
    using std::runtime_error::runtime_error;
};

class ETFeederNode
{
  public:
    explicit ETFeederNode(const orr_feeder_node *node) : node_(node)
    {
    }

    uint64_t id() const
    {
        return node_->id;
    }
    std::string name() const
    {
        return text(node_->name);
    }
    int type() const
    {
        return node_->type;
    }
    uint64_t runtime() const
    {
        return node_->duration_us;
    }
    uint64_t start_time_micros() const
    {
        return node_->start_us;
    }
    std::string inputs_values() const
    {
        return text(node_->input_values);
    }
    std::string inputs_shapes() const
    {
        return text(node_->input_shapes);
    }
    std::string inputs_types() const
    {
        return text(node_->input_types);
    }
    std::string outputs_values() const
    {
        return text(node_->output_values);
    }
    std::string outputs_shapes() const
    {
        return text(node_->output_shapes);
    }
    std::string outputs_types() const
    {
        return text(node_->output_types);
    }

    bool has_other_attr(const std::string &name) const
    {
        orr_feeder_value value;
        return orr_feeder_attr(node_, name.c_str(), 0, &value);
    }
    orr_feeder_value get_other_attr(const std::string &name, uint32_t index = 0) const
    {
        orr_feeder_value value;
        if (!orr_feeder_attr(node_, name.c_str(), index, &value))
            throw MissingAttrError("node " + std::to_string(id()) + " has no attribute " + name);
        return value;
    }

    /* Each with a default for nodes that lack it; without one, as in Chakra's, they throw. */
#define ORR_ET_FEEDER_NUMBER_(type_, name_)                                                        \
    type_ name_() const                                                                            \
    {                                                                                              \
        return static_cast<type_>(get_other_attr(#name_).number);                                  \
    }                                                                                              \
    type_ name_(type_ otherwise) const                                                             \
    {                                                                                              \
        return static_cast<type_>(                                                                 \
            orr_feeder_number(node_, #name_, static_cast<int64_t>(otherwise)));                    \
    }
    ORR_ET_FEEDER_NUMBER_(bool, is_cpu_op)
    ORR_ET_FEEDER_NUMBER_(uint64_t, num_ops)
    ORR_ET_FEEDER_NUMBER_(uint32_t, tensor_loc)
    ORR_ET_FEEDER_NUMBER_(uint64_t, tensor_size)
    ORR_ET_FEEDER_NUMBER_(int, comm_type)
    ORR_ET_FEEDER_NUMBER_(uint32_t, comm_priority)
    ORR_ET_FEEDER_NUMBER_(uint64_t, comm_size)
    ORR_ET_FEEDER_NUMBER_(uint32_t, comm_src)
    ORR_ET_FEEDER_NUMBER_(uint32_t, comm_dst)
    ORR_ET_FEEDER_NUMBER_(uint32_t, comm_tag)
#undef ORR_ET_FEEDER_NUMBER_
    std::string pg_name(const std::string &otherwise = "") const
    {
        orr_feeder_value value;
        return orr_feeder_attr(node_, "pg_name", 0, &value) ? text(value.text) : otherwise;
    }

  private:
    static std::string text(const orr_feeder_text &t)
    {
        return std::string(t.at, t.n);
    }
    const orr_feeder_node *node_;
};

class ETFeeder
{
  public:
    explicit ETFeeder(const std::string &filename, uint32_t window = 4096 * 256)
    {
        orr_feeder_options options;
        orr_error err;
        orr_feeder_options_init(&options);
        options.window = window;
        check(orr_feeder_open(filename.c_str(), &options, &feeder_, &err), err);
    }
    ~ETFeeder()
    {
        orr_feeder_close(feeder_);
    }
    ETFeeder(const ETFeeder &) = delete;
    ETFeeder &operator=(const ETFeeder &) = delete;

    /* May getNextIssuableNode() give one? Reads on where nothing that was read can be issued. */
    bool hasNodesToIssue()
    {
        if (peeked_ == nullptr)
            peeked_ = next();
        return peeked_ != nullptr;
    }
    std::shared_ptr<ETFeederNode> getNextIssuableNode()
    {
        const orr_feeder_node *node = peeked_ != nullptr ? peeked_ : next();
        peeked_ = nullptr;
        return wrap(node);
    }
    void pushBackIssuableNode(uint64_t node_id)
    {
        orr_error err;
        give_back();
        check(orr_feeder_push_back(feeder_, node_id, &err), err);
    }
    std::shared_ptr<ETFeederNode> lookupNode(uint64_t node_id)
    {
        return wrap(orr_feeder_find(feeder_, node_id));
    }
    /* The node has run. Its handles may be kept, but no longer asked. */
    void freeChildrenNodes(uint64_t node_id)
    {
        orr_error err;
        give_back();
        check(orr_feeder_done(feeder_, node_id, &err), err);
    }
    /* Chakra's frees the node here; it is already freed. */
    void removeNode(uint64_t)
    {
    }
    bool isFinished() const
    {
        return orr_feeder_is_finished(feeder_);
    }

  private:
    static void check(orr_status status, const orr_error &err)
    {
        if (status != ORR_OK)
            throw std::runtime_error(err.text);
    }
    static std::shared_ptr<ETFeederNode> wrap(const orr_feeder_node *node)
    {
        return node == nullptr ? nullptr : std::make_shared<ETFeederNode>(node);
    }
    const orr_feeder_node *next()
    {
        const orr_feeder_node *node = nullptr;
        orr_error err;
        check(orr_feeder_next(feeder_, &node, &err), err);
        return node;
    }
    /* What was looked at is not yet issued: a lower id may come before it. */
    void give_back()
    {
        orr_error err;
        if (peeked_ != nullptr)
            check(orr_feeder_push_back(feeder_, peeked_->id, &err), err);
        peeked_ = nullptr;
    }

    orr_feeder *feeder_ = nullptr;
    const orr_feeder_node *peeked_ = nullptr;
};

} // namespace orrery::chakra

#endif /* ORR_CHAKRA_ET_FEEDER_HPP */
