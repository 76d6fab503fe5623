/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/models/hw_new.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/arguments/factor.h"

/* Each answer is checked when it is given: a person is asked again, an option is an error. */

static orr_status check_device(orr_hw_new *made, const char *text, orr_error *err)
{
    if (orr_entry_is_file(text))
        return orr_fail(err, ORR_INVALID, "'%.80s' is a file: name a device of `orrery hw`", text);
    ORR_TRY(orr_device_load(made->catalog, text, made->session->arena, &made->device, err));
    made->pattern = NULL;
    for (uint32_t i = 0; i < made->catalog->n_clusters && made->pattern == NULL; i++) {
        const orr_cluster *c = made->catalog->clusters[i];
        if (c->device == made->device && orr_cluster_is_scale_up(c, 0))
            made->pattern = &c->levels[0];
    }
    return ORR_OK;
}

static orr_status check_count(const char *text, uint32_t *ret, orr_error *err)
{
    if (orr_parse_power_count("", text, ret, NULL) != ORR_OK || *ret > 1u << 24)
        return orr_fail(err, ORR_INVALID, "'%.40s' is not a number from 1 on, as 2048 or 16k",
                        text);
    return ORR_OK;
}

static orr_status check_gpus(orr_hw_new *made, const char *text, orr_error *err)
{
    return check_count(text, &made->gpus, err);
}

static orr_status check_per_host(orr_hw_new *made, const char *text, orr_error *err)
{
    uint32_t count;
    ORR_TRY(check_count(text, &count, err));
    if (count > made->gpus)
        count = made->gpus;
    if (made->gpus % count != 0)
        return orr_fail(err, ORR_INVALID, "%u devices are not whole hosts of %u", made->gpus,
                        count);
    made->per_host = count;
    return ORR_OK;
}

/* A link by its name, or a bandwidth. */
static orr_status check_join(orr_hw_new *made, const char *text, orr_hw_join *ret, orr_error *err)
{
    const orr_entry_list links = orr_link_list(made->catalog);
    const void *fit[ORR_ENTRY_FITS];
    double bytes_per_s;
    if (isdigit((unsigned char)text[0]) && strchr(text, '/') != NULL) {
        ORR_TRY(orr_parse_bandwidth(text, &bytes_per_s, err));
        *ret = (orr_hw_join){.bandwidth = orr_arena_printf(made->session->arena, "%s", text)};
        return ret->bandwidth != NULL ? ORR_OK : orr_fail_memory(err);
    }
    if (orr_entry_search(&links, text, true, fit) == 1) {
        *ret = (orr_hw_join){.link = fit[0]};
        return !isnan(ret->link->bytes_per_s.value)
                   ? ORR_OK
                   : orr_fail(err, ORR_INVALID,
                              "the bandwidth of '%s' is not known: say it, as 50GB/s",
                              ret->link->name);
    }
    if (orr_parse_bandwidth(text, &bytes_per_s, NULL) == ORR_OK && bytes_per_s > 0) {
        *ret = (orr_hw_join){.bandwidth = orr_arena_printf(made->session->arena, "%s", text)};
        return ret->bandwidth != NULL ? ORR_OK : orr_fail_memory(err);
    }
    return orr_entry_fail("no link", text, &links,
                          "`orrery hw --kind links` lists them; or say a bandwidth, as 400Gbps",
                          made->session->arena, err);
}

static orr_status check_link(orr_hw_new *made, const char *text, orr_error *err)
{
    return check_join(made, text, &made->link, err);
}

static orr_status check_network(orr_hw_new *made, const char *text, orr_error *err)
{
    return check_join(made, text, &made->network, err);
}

static orr_status check_buildings(orr_hw_new *made, const char *text, orr_error *err)
{
    uint32_t count;
    ORR_TRY(check_count(text, &count, err));
    if (count > ORR_SITES_MAX || made->gpus / made->per_host % count != 0)
        return orr_fail(err, ORR_INVALID, "1 to %d buildings, with as many of the %u hosts in each",
                        ORR_SITES_MAX, made->gpus / made->per_host);
    made->buildings = count;
    return ORR_OK;
}

static orr_status check_distance(orr_hw_new *made, const char *text, orr_error *err)
{
    const orr_yaml scalar = {.kind = ORR_YAML_SCALAR, .text = text, .file = ""};
    orr_error why;
    double km;
    if (orr_quantity_read(&scalar, "distance", ORR_QUANTITY_KM, &km, &why) != ORR_OK)
        return orr_fail(err, ORR_INVALID, "'%.40s' is not a distance, as 3km or 500m", text);
    made->distance = orr_arena_printf(made->session->arena, "%s", text);
    return made->distance != NULL ? ORR_OK : orr_fail_memory(err);
}

/* --- what nobody says ------------------------------------------------------------------------- */

static const char *usual_device(const orr_hw_new *made)
{
    (void)made;
    return "h100_sxm_80g";
}

/* Eight hosts, or one domain of the larger ones. */
static const char *usual_gpus(const orr_hw_new *made)
{
    const uint32_t size = made->pattern != NULL ? made->pattern->size : 8;
    return orr_arena_printf(made->session->arena, "%u", size > 16 ? size : 8 * size);
}

static const char *usual_per_host(const orr_hw_new *made)
{
    const uint32_t size = made->pattern != NULL ? made->pattern->size : 8;
    return orr_arena_printf(made->session->arena, "%u", size < made->gpus ? size : made->gpus);
}

static const char *bandwidth_text(const orr_hw_new *made, const orr_fact *fact)
{
    return isnan(fact->value) ? NULL
                              : orr_arena_printf(made->session->arena, "%gGB/s", fact->value / 1e9);
}

static const char *usual_link(const orr_hw_new *made)
{
    const char *technology = made->pattern != NULL ? made->pattern->technology : "";
    const orr_link *link = orr_catalog_link(made->catalog, technology);
    if (link == NULL || link->bytes_per_s.value > 1.03 * made->device->scale_up_bytes_per_s.value)
        return bandwidth_text(made, made->pattern != NULL ? &made->pattern->bytes_per_s
                                                          : &made->device->scale_up_bytes_per_s);
    return link->name;
}

/* The first network as fast as the port that the device usually comes with. */
static const char *usual_network(const orr_hw_new *made)
{
    const orr_fact *port = &made->device->nic_bytes_per_s;
    const orr_link *link = orr_catalog_link(made->catalog, made->device->nic);
    for (uint32_t i = 0; i < made->catalog->n_links && link == NULL; i++)
        if (strcmp(made->catalog->links[i]->kind, "scale-out") == 0 &&
            made->catalog->links[i]->bytes_per_s.value == port->value)
            link = made->catalog->links[i];
    if (link != NULL && !isnan(link->bytes_per_s.value))
        return link->name;
    return isnan(port->value) ? "RoCE 400GbE" : bandwidth_text(made, port);
}

static const char *usual_buildings(const orr_hw_new *made)
{
    (void)made;
    return "1";
}

static const char *usual_distance(const orr_hw_new *made)
{
    (void)made;
    return "3km";
}

/* --- questions -------------------------------------------------------------------------------- */

static bool always(const orr_hw_new *made)
{
    (void)made;
    return true;
}

static bool has_hosts(const orr_hw_new *made)
{
    return made->gpus > made->per_host;
}

static bool has_neighbours(const orr_hw_new *made)
{
    return made->per_host > 1 || made->gpus == 1;
}

static bool has_buildings(const orr_hw_new *made)
{
    return made->buildings > 1;
}

static const struct {
    const char *option, *question;
    size_t setting;
    orr_status (*check)(orr_hw_new *made, const char *text, orr_error *err);
    const char *(*usual)(const orr_hw_new *made); /* NULL: nobody knows */
    bool (*asked)(const orr_hw_new *made);
} QUESTIONS[ORR_HW_ANSWERS] = {
    {"device", "which device", offsetof(orr_settings, device), check_device, usual_device, always},
    {"gpus", "how many of them", offsetof(orr_settings, gpus), check_gpus, usual_gpus, always},
    {"per-host", "how many to a host, or domain of fast links", offsetof(orr_settings, per_host),
     check_per_host, usual_per_host, always},
    {"link", "what joins them in it (a link, or a bandwidth one way)", offsetof(orr_settings, link),
     check_link, usual_link, has_neighbours},
    {"network", "what joins hosts (a link, or a device's bandwidth one way)",
     offsetof(orr_settings, network), check_network, usual_network, has_hosts},
    {"buildings", "in how many buildings", offsetof(orr_settings, buildings), check_buildings,
     usual_buildings, has_hosts},
    {"distance", "how far apart", offsetof(orr_settings, distance), check_distance, usual_distance,
     has_buildings},
};

/* A line of the terminal without blanks around it; "": nothing but Enter; NULL: its end. */
static char *read_line(char line[256])
{
    fflush(stderr);
    if (fgets(line, 256, stdin) == NULL)
        return NULL;
    char *end = line + strlen(line);
    while (end > line && isspace((unsigned char)end[-1]))
        *--end = '\0';
    while (isspace((unsigned char)*line))
        line++;
    return line;
}

/* Asks until an answer is good. */
static orr_status ask(orr_hw_new *made, int q, const char *usual)
{
    orr_error *err = &made->session->err;
    char line[256], *answer;
    for (;;) {
        orr_error why;
        fprintf(stderr, usual != NULL ? "%s [%s]: " : "%s: ", QUESTIONS[q].question, usual);
        if ((answer = read_line(line)) == NULL)
            return orr_fail(err, ORR_CANCELED, "hw: no answer, and nothing is written");
        const char *text = answer[0] != '\0' ? answer : usual;
        made->assumed[q] = answer[0] == '\0';
        if (text != NULL && QUESTIONS[q].check(made, text, &why) == ORR_OK)
            return ORR_OK;
        if (text != NULL)
            fprintf(stderr, "  %s\n", why.text);
    }
}

static orr_status answer_all(orr_hw_new *made, bool by_person)
{
    orr_error *err = &made->session->err;
    for (int q = 0; q < ORR_HW_ANSWERS; q++) {
        const char *said =
            *(const char *const *)((const char *)made->session->settings + QUESTIONS[q].setting);
        if (!QUESTIONS[q].asked(made)) {
            if (said != NULL)
                return orr_fail(err, ORR_INVALID, "hw: --%s says nothing of this cluster",
                                QUESTIONS[q].option);
            continue;
        }
        const char *usual = QUESTIONS[q].usual(made);
        orr_error why;
        if (said == NULL && by_person) {
            ORR_TRY(ask(made, q, usual));
            continue;
        }
        made->assumed[q] = said == NULL;
        if (said == NULL && usual == NULL)
            return orr_fail(err, ORR_INVALID, "hw: --%s is needed: of '%s' nobody says it",
                            QUESTIONS[q].option, made->device->name);
        if (QUESTIONS[q].check(made, said != NULL ? said : usual, &why) != ORR_OK)
            return orr_fail(err, ORR_INVALID, "hw: --%s: %s", QUESTIONS[q].option, why.text);
    }
    return ORR_OK;
}

/* --- the file --------------------------------------------------------------------------------- */

static orr_status check_path(const orr_session *session, const char *path, orr_error *err)
{
    if (!orr_entry_is_file(path))
        return orr_fail(err, ORR_INVALID,
                        "hw: -c would not take '%.80s' for a file: end its name in .yaml", path);
    if (!session->settings->force && access(path, F_OK) == 0)
        return orr_fail(err, ORR_INVALID, "hw: %s is there already; --force writes over it", path);
    return ORR_OK;
}

/* The text is read as -c reads it before anything is written. */
static orr_status write_file(orr_hw_new *made, const char *path)
{
    orr_session *session = made->session;
    orr_output *text;
    const orr_cluster *cluster;
    size_t n;
    ORR_TRY(orr_output_open_memory(&text, &session->err));
    orr_hw_new_write(made, text);
    const char *bytes = orr_output_memory(text, &n);
    orr_status status = bytes != NULL ? ORR_OK : orr_fail_memory(&session->err);
    if (status == ORR_OK)
        status = orr_cluster_read_text(made->catalog, bytes, n, path, session->arena, &cluster,
                                       &session->err);
    if (status == ORR_OK)
        status = orr_output_open(path, &session->out, &session->err);
    if (status == ORR_OK) {
        orr_output_write(session->out, bytes, n);
        status = orr_output_finish(session->out, &session->err);
    }
    orr_output_close(text);
    if (status == ORR_OK && strcmp(path, "-") != 0)
        orr_session_remark(session, "%s: %u %s; orrery simulate MODEL -c %s", path,
                           cluster->n_devices, cluster->device->name, path);
    return status;
}

orr_status orr_hw_new_run(orr_session *session, const orr_catalog *catalog)
{
    const orr_settings *settings = session->settings;
    const char *path = settings->n_args > 0       ? settings->args[0]
                       : settings->output != NULL ? settings->output
                                                  : "-";
    orr_hw_new made = {.session = session, .catalog = catalog, .per_host = 1, .buildings = 1};
    if (settings->n_args > 1 || (settings->n_args > 0 && settings->output != NULL))
        return orr_fail(&session->err, ORR_INVALID, "hw: --new writes one file");
    if (strcmp(path, "-") != 0)
        ORR_TRY(check_path(session, path, &session->err));
    ORR_TRY(answer_all(&made, isatty(STDIN_FILENO) && isatty(STDERR_FILENO)));
    return write_file(&made, path);
}
