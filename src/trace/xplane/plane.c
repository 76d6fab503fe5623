/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "trace/xplane/plane.h"

static uint8_t stat_by_name(orr_text text)
{
    static const char *const names[] = {
#define STAT_NAME(name, text) text,
        XPLANE_STATS(STAT_NAME)
#undef STAT_NAME
    };
    for (uint8_t i = 0; i < XPLANE_N_STATS; i++)
        if (orr_text_equal(text, names[i], strlen(names[i])))
            return i;
    return XPLANE_N_STATS;
}

/* An entry of one of the two maps: its key, and its value, a message. False: broken. */
static bool read_entry(const orr_proto_field *entry, uint64_t *ret_key, orr_proto_field *ret_value)
{
    orr_proto p = orr_proto_of(entry->bytes, entry->len);
    *ret_key = 0;
    *ret_value = (orr_proto_field){.bytes = entry->bytes};
    for (orr_proto_field f; orr_proto_next(&p, &f);) {
        if (f.number == XNAME_KEY && f.wire == ORR_PROTO_VARINT)
            *ret_key = f.value;
        else if (f.number == XNAME_VALUE && f.wire == ORR_PROTO_BYTES)
            *ret_value = f;
    }
    return !p.failed;
}

static bool read_name(const orr_proto_field *value, xplane_event_name *ret)
{
    orr_proto p = orr_proto_of(value->bytes, value->len);
    orr_text shown = {"", 0};
    *ret = (xplane_event_name){.name = {"", 0}, .message = value->bytes, .len = value->len};
    for (orr_proto_field f; orr_proto_next(&p, &f);) {
        if (f.number == XNAME_NAME && f.wire == ORR_PROTO_BYTES)
            ret->name = xplane_field_text(&f);
        else if (f.number == XNAME_DISPLAY_NAME && f.wire == ORR_PROTO_BYTES)
            shown = xplane_field_text(&f);
        ret->has_stats |= f.number == XNAME_STAT;
    }
    /* The name of a TPU's operator is its whole HLO text; what is shown is "fusion.3". */
    if (shown.n > 0)
        ret->name = shown;
    return !p.failed;
}

static orr_status add_name(xplane *plane, const orr_proto_field *entry, orr_error *err)
{
    uint64_t key;
    orr_proto_field value;
    xplane_event_name name;
    if (!read_entry(entry, &key, &value) || !read_name(&value, &name)) {
        plane->broken = entry->raw;
        return ORR_PARSE;
    }
    if (entry->number == XPLANE_EVENT_NAME) {
        ORR_TRY(orr_idmap_set(&plane->event_of, key, (uint32_t)plane->event_names.n, err));
        return orr_array_push(&plane->event_names, name) ? ORR_OK : orr_fail_memory(err);
    }
    const xplane_stat_name stat = {name.name, stat_by_name(name.name)};
    ORR_TRY(orr_idmap_set(&plane->stat_of, key, (uint32_t)plane->stat_names.n, err));
    return orr_array_push(&plane->stat_names, stat) ? ORR_OK : orr_fail_memory(err);
}

static bool is_stream(const orr_proto_field *line)
{
    orr_proto p = orr_proto_of(line->bytes, line->len);
    for (orr_proto_field f; orr_proto_next(&p, &f) && f.number < XLINE_EVENT;)
        if (f.number == XLINE_NAME && f.wire == ORR_PROTO_BYTES)
            return xplane_begins(xplane_field_text(&f), "Stream #");
    return false;
}

orr_status xplane_read(xplane *plane, const uint8_t *bytes, size_t len, orr_error *err)
{
    *plane = (xplane){.fields = orr_proto_of(bytes, len), .name = {"", 0}};
    orr_proto p = plane->fields;
    for (orr_proto_field f; orr_proto_next(&p, &f);) {
        if (f.wire != ORR_PROTO_BYTES)
            continue;
        if (f.number == XPLANE_NAME)
            plane->name = xplane_field_text(&f);
        else if (f.number == XPLANE_LINE)
            plane->has_streams |= is_stream(&f);
        else if (f.number == XPLANE_EVENT_NAME || f.number == XPLANE_STAT_NAME)
            ORR_TRY(add_name(plane, &f, err));
    }
    if (!p.failed)
        return ORR_OK;
    plane->broken = p.at;
    return ORR_PARSE;
}

void xplane_done(xplane *plane)
{
    orr_idmap_done(&plane->event_of);
    orr_idmap_done(&plane->stat_of);
    orr_array_done(&plane->event_names);
    orr_array_done(&plane->stat_names);
}

const xplane_event_name *xplane_event_name_of(const xplane *plane, uint64_t id)
{
    const uint32_t at = orr_idmap_get(&plane->event_of, id);
    return at == UINT32_MAX ? NULL : &plane->event_names.at[at];
}

static const xplane_stat_name *stat_name_of(const xplane *plane, uint64_t id)
{
    const uint32_t at = orr_idmap_get(&plane->stat_of, id);
    return at == UINT32_MAX ? NULL : &plane->stat_names.at[at];
}

static bool add_stat(const xplane *plane, const orr_proto_field *stat, xplane_stats *stats)
{
    const xplane_stat_name *name = NULL, *referred;
    orr_proto p = orr_proto_of(stat->bytes, stat->len);
    orr_proto_field value = {.number = 0};
    for (orr_proto_field f; orr_proto_next(&p, &f);) {
        if (f.number == XSTAT_NAME_ID && f.wire == ORR_PROTO_VARINT)
            name = stat_name_of(plane, f.value);
        else
            value = f;
    }
    if (name == NULL || name->stat == XPLANE_N_STATS)
        return !p.failed;
    const uint32_t bit = UINT32_C(1) << name->stat;
    if ((value.number == XSTAT_UINT || value.number == XSTAT_INT) &&
        value.wire == ORR_PROTO_VARINT) {
        stats->ints |= bit;
        stats->value[name->stat] = (int64_t)value.value;
    } else if (value.number == XSTAT_TEXT && value.wire == ORR_PROTO_BYTES) {
        stats->texts |= bit;
        stats->text[name->stat] = xplane_field_text(&value);
    } else if (value.number == XSTAT_REFERENCE && value.wire == ORR_PROTO_VARINT &&
               (referred = stat_name_of(plane, value.value)) != NULL) {
        stats->texts |= bit;
        stats->text[name->stat] = referred->text;
    }
    return !p.failed;
}

bool xplane_add_stats(const xplane *plane, const uint8_t *message, size_t len, uint32_t number,
                      xplane_stats *stats)
{
    orr_proto p = orr_proto_of(message, len);
    for (orr_proto_field f; orr_proto_next(&p, &f);)
        if (f.number == number && f.wire == ORR_PROTO_BYTES && !add_stat(plane, &f, stats))
            return false;
    return !p.failed;
}
