/* SPDX-License-Identifier: Apache-2.0 */
/* pread and pwrite behind the interface of a block device: requests queue up, and the thread that
 * reaps them carries them out, one after the other. */
#include <errno.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/block/parts.h"

/* A ring of `depth` requests. */
typedef struct pread_queue {
    uint32_t first, n;
    orr_block_request requests[];
} pread_queue;

static orr_status submit(orr_block_device *self, const orr_block_request *requests, uint32_t n,
                         uint32_t *ret_n, orr_error *err)
{
    orr_block_file *file = self->ctx;
    pread_queue *queue = file->engine;
    const uint32_t room = self->depth - queue->n, begun = n < room ? n : room;
    ORR_TRY(orr_block_check_requests(self, requests, begun, err));
    for (uint32_t k = 0; k < begun; k++)
        queue->requests[(queue->first + queue->n++) % self->depth] = requests[k];
    *ret_n = begun;
    return ORR_OK;
}

static int carry_out(int fd, const orr_block_request *request)
{
    uint8_t *data = request->data;
    uint32_t done = 0;
    while (done < request->bytes) {
        const off_t at = (off_t)(request->at + done);
        const size_t rest = request->bytes - done;
        const ssize_t moved = request->operation == ORR_BLOCK_READ
                                  ? pread(fd, data + done, rest, at)
                                  : pwrite(fd, data + done, rest, at);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved < 0)
            return errno;
        if (moved == 0)
            return EIO; /* the file was cut short under us */
        done += (uint32_t)moved;
    }
    return 0;
}

static orr_status reap(orr_block_device *self, uint32_t least, orr_block_completion *ret,
                       uint32_t room, uint32_t *ret_n, orr_error *err)
{
    (void)err;
    orr_block_file *file = self->ctx;
    pread_queue *queue = file->engine;
    uint32_t wanted = least > 0 ? least : 1; /* who polls is to see an end */
    wanted = wanted < room ? wanted : room;
    wanted = wanted < queue->n ? wanted : queue->n;
    for (uint32_t k = 0; k < wanted; k++) {
        const orr_block_request *request = &queue->requests[queue->first];
        ret[k] = (orr_block_completion){.tag = request->tag, .error = carry_out(file->fd, request)};
        queue->first = (queue->first + 1) % self->depth;
        queue->n--;
    }
    *ret_n = wanted;
    return ORR_OK;
}

orr_status orr_block_use_pread(orr_block_file *file, orr_error *err)
{
    pread_queue *queue =
        orr_calloc(1, sizeof *queue + file->device.depth * sizeof queue->requests[0]);
    if (queue == NULL)
        return orr_fail_memory(err);
    file->engine = queue;
    file->engine_free = orr_free;
    file->device.name = "pread";
    file->device.submit = submit;
    file->device.reap = reap;
    return ORR_OK;
}
