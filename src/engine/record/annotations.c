/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/record/recorder_state.h"

/* Writes annotations (events beside the calls) to the graph: each lane of notes as a thread, after
 * those of programs. */

typedef struct note_attrs {
    orr_attr attrs[3];
    orr_str text;
} note_attrs;

static orr_status text_of(orr_graph_builder *b, const char *words, orr_str *ret, orr_error *err)
{
    return orr_builder_str(b, words, strlen(words), ret, err);
}

static orr_status add_attrs(orr_graph_builder *b, orr_node_id node,
                            const orr_recorded_annotation *note, orr_error *err)
{
    note_attrs a = {.attrs = {{.kind = ORR_ATTR_UINT64, .count = 1, .values = &note->epoch},
                              {.kind = ORR_ATTR_UINT64, .count = 1, .values = &note->step},
                              {.kind = ORR_ATTR_STRING, .count = 1}}};
    a.attrs[2].values = &a.text;
    ORR_TRY(text_of(b, "epoch", &a.attrs[0].name, err));
    ORR_TRY(text_of(b, "step", &a.attrs[1].name, err));
    ORR_TRY(text_of(b, "text", &a.attrs[2].name, err));
    ORR_TRY(text_of(b, note->text, &a.text, err));
    return orr_builder_attrs(b, node, a.attrs, 3, err);
}

static orr_status lane_of(orr_graph_builder *b, const orr_recorded_annotation *note, uint32_t rank,
                          orr_lane_id *ret, orr_error *err)
{
    orr_lane lane = {
        .kind = ORR_LANE_HOST, .device = -1, .pid = rank, .tid = ORR_LANES_MAX + 1 + note->lane};
    ORR_TRY(text_of(b, "orrery", &lane.process, err));
    ORR_TRY(text_of(b, note->name, &lane.name, err));
    return orr_builder_lane(b, &lane, ret, err);
}

orr_status orr_recorder_add_annotations(const orr_recorder *r, orr_graph_builder *b, uint32_t rank,
                                        orr_error *err)
{
    orr_node_id last[ORR_ANNOTATION_LANES];
    memset(last, 0xff, sizeof last);
    for (size_t i = 0; i < r->notes.n; i++) {
        const orr_recorded_annotation *note = &r->notes.at[i];
        orr_node node = {.kind = ORR_NODE_ANNOTATION,
                         .start_ns = note->start_ns,
                         .duration_ns = note->end_ns - note->start_ns,
                         .parent = ORR_NONE};
        orr_node_id id;
        ORR_TRY(text_of(b, note->name, &node.name, err));
        ORR_TRY(lane_of(b, note, rank, &node.lane, err));
        ORR_TRY(orr_builder_node(b, &node, &id, err));
        if (last[note->lane] != ORR_NONE)
            ORR_TRY(orr_builder_dep(b, id, last[note->lane], ORR_DEP_THREAD, err));
        ORR_TRY(add_attrs(b, id, note, err));
        last[note->lane] = id;
    }
    return ORR_OK;
}
