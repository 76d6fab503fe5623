/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/mpi_config.h"
#include "io/transport/mpi_plugin.h"
#include "io/transport/parts.h"

#ifdef ORR_MPI_PLUGIN_NAME

enum { PATH_ROOM = 4096, WHY_ROOM = 400 };

/* MPI is one to a process, and begun once. */
static const orr_mpi_plugin *plugin;
static orr_transport world;

static orr_status exchange(orr_transport *self, const orr_exchange *x, orr_error *err)
{
    bool done = false;
    orr_status status = orr_transport_begin(self, x, &done, err);
    if (status == ORR_OK && !done) {
        char why[WHY_ROOM] = "";
        status = (orr_status)plugin->exchange(x, why, sizeof why);
        if (status == ORR_CANCELED)
            status = orr_transport_fail_aborted(plugin->given_up(), err);
        else if (status != ORR_OK)
            status = orr_fail(err, status, "%s", why);
    }
    if (status != ORR_OK)
        plugin->abort();
    return status;
}

static void give_up(orr_transport *self)
{
    (void)self;
    plugin->abort();
}

static void leave(orr_transport *self)
{
    if (self != NULL)
        plugin->close();
}

/* Its names must be seen by what MPI itself opens. Never closed: MPI would not survive it. */
static void *open_at(const char *path)
{
    return access(path, R_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
}

/* Where the user says, where it was installed, or as far from the command as it was then. */
static void *open_plugin(void)
{
    const char *told = getenv("ORRERY_MPI_PLUGIN");
    if (told != NULL && *told != '\0')
        return dlopen(told, RTLD_NOW | RTLD_GLOBAL);
    void *module = open_at(ORR_MPI_PLUGIN_DIR "/" ORR_MPI_PLUGIN_NAME);
    char self[PATH_ROOM], path[PATH_ROOM + 256];
    const ssize_t n = module == NULL ? readlink("/proc/self/exe", self, sizeof self - 1) : -1;
    if (n <= 0)
        return module;
    self[n] = '\0';
    snprintf(path, sizeof path, "%s/../%s/" ORR_MPI_PLUGIN_NAME, dirname(self),
             ORR_MPI_PLUGIN_LIBDIR);
    return open_at(path);
}

static orr_status load(orr_error *err)
{
    void *module = open_plugin();
    if (module == NULL) {
        const char *why = dlerror();
        return orr_fail(err, ORR_UNSUPPORTED, "MPI cannot be used: %s",
                        why != NULL ? why : ORR_MPI_PLUGIN_NAME " is not installed");
    }
    const orr_mpi_plugin *found = dlsym(module, ORR_MPI_PLUGIN_SYMBOL);
    if (found == NULL || found->version != ORR_MPI_PLUGIN_VERSION)
        return orr_fail(err, ORR_UNSUPPORTED, ORR_MPI_PLUGIN_NAME " is of another version");
    plugin = found;
    return ORR_OK;
}

orr_status orr_transport_mpi_connect(int64_t deadline_ns, orr_transport **ret, orr_error *err)
{
    if (plugin == NULL)
        ORR_TRY(load(err));
    char why[WHY_ROOM] = "";
    uint32_t rank = 0, ranks = 0;
    const orr_status status = (orr_status)plugin->open(deadline_ns, &rank, &ranks, why, sizeof why);
    if (status != ORR_OK)
        return orr_fail(err, status, "%s", why);
    world = (orr_transport){.rank = rank,
                            .ranks = ranks,
                            .name = "mpi",
                            .exchange = exchange,
                            .abort = give_up,
                            .close = leave};
    *ret = &world;
    return ORR_OK;
}

#else

orr_status orr_transport_mpi_connect(int64_t deadline_ns, orr_transport **ret, orr_error *err)
{
    (void)deadline_ns;
    (void)ret;
    return orr_fail(err, ORR_UNSUPPORTED, "this build has no MPI");
}

#endif
