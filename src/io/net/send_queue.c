/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "io/net/parts.h"

/* The send queue of a connection: a ring of frames, whose payloads are borrowed from their owners
 * or copied into one buffer. Copies are made and sent in the same order, so that the buffer slides:
 * a copy is addressed by its position in all bytes ever copied, and what lies before the first
 * queued frame is free. */

enum { FIRST_FRAMES = 16, FIRST_COPIES = 4096 };

static bool grow_frames(orr_net_send_queue *queue)
{
    if (queue->n < queue->room)
        return true;
    if (queue->room > UINT32_MAX / 4)
        return false;
    const uint32_t room = queue->room == 0 ? FIRST_FRAMES : 2 * queue->room;
    orr_net_queued_frame *at = orr_calloc(room, sizeof *at);
    if (at == NULL)
        return false;
    for (uint32_t i = 0; i < queue->n; i++)
        at[i] = *orr_net_send_queue_nth(queue, i);
    orr_free(queue->at);
    queue->at = at;
    queue->room = room;
    queue->first = 0;
    return true;
}

/* Frees the copies of frames that are sent, which lie before that of the first queued frame. */
static void forget_copies(orr_net_send_queue *queue)
{
    uint64_t begin = queue->copies_end;
    for (uint32_t i = 0; i < queue->n; i++) {
        const orr_net_queued_frame *out = orr_net_send_queue_nth(queue, i);
        if (out->payload != NULL)
            continue;
        begin = out->copy;
        break;
    }
    const size_t gone = (size_t)(begin - queue->copies_begin);
    if (gone == 0)
        return;
    memmove(queue->copies, queue->copies + gone, (size_t)(queue->copies_end - begin));
    queue->copies_begin = begin;
}

static bool grow_copies(orr_net_send_queue *queue, size_t bytes)
{
    size_t held = (size_t)(queue->copies_end - queue->copies_begin), wanted;
    if (queue->copies_room - held >= bytes)
        return true;
    forget_copies(queue);
    held = (size_t)(queue->copies_end - queue->copies_begin);
    /* Moved only when half is free, so that moving stays linear. */
    if (queue->copies_room - held >= bytes && held <= queue->copies_room / 2)
        return true;
    if (!orr_add_size(2 * held, bytes, &wanted))
        return false;
    if (wanted < FIRST_COPIES)
        wanted = FIRST_COPIES;
    uint8_t *copies = orr_realloc(queue->copies, wanted);
    if (copies == NULL)
        return false;
    queue->copies = copies;
    queue->copies_room = wanted;
    return true;
}

static void copy_in(orr_net_send_queue *queue, const void *payload, size_t bytes)
{
    memcpy(queue->copies + (queue->copies_end - queue->copies_begin), payload, bytes);
    queue->copies_end += bytes;
}

bool orr_net_send_queue_add(orr_net_send_queue *queue, const orr_net_frame *frame,
                            const void *payload, bool keep, size_t moved)
{
    const size_t bytes = frame->bytes;
    const bool copies = !keep && bytes > 0;
    if (!grow_frames(queue) || (copies && !grow_copies(queue, bytes)))
        return false;
    if (queue->n == 0)
        queue->moved = moved;
    orr_net_queued_frame *out = orr_net_send_queue_nth(queue, queue->n++);
    *out = (orr_net_queued_frame){.frame = *frame, .payload = payload, .copy = queue->copies_end};
    queue->bytes += sizeof *frame + bytes - moved;
    if (copies) {
        out->payload = NULL;
        copy_in(queue, payload, bytes);
    }
    return true;
}

const uint8_t *orr_net_send_queue_payload(const orr_net_send_queue *queue,
                                          const orr_net_queued_frame *out)
{
    if (out->payload != NULL || out->frame.bytes == 0)
        return out->payload;
    return queue->copies + (out->copy - queue->copies_begin);
}

int orr_net_send_queue_buffers(const orr_net_send_queue *queue,
                               struct iovec rest[2 * ORR_NET_FRAMES_PER_SEND])
{
    int n = 0;
    size_t moved = queue->moved;
    for (uint32_t i = 0; i < queue->n && i < ORR_NET_FRAMES_PER_SEND; i++, moved = 0) {
        orr_net_queued_frame *out = orr_net_send_queue_nth(queue, i);
        if (moved < ORR_NET_FRAME_BYTES)
            rest[n++] = (struct iovec){(uint8_t *)&out->frame + moved, ORR_NET_FRAME_BYTES - moved};
        const size_t at = moved < ORR_NET_FRAME_BYTES ? 0 : moved - ORR_NET_FRAME_BYTES;
        if (at < out->frame.bytes)
            rest[n++] = (struct iovec){(uint8_t *)orr_net_send_queue_payload(queue, out) + at,
                                       out->frame.bytes - at};
    }
    return n;
}

void orr_net_send_queue_advance(orr_net_send_queue *queue, size_t n)
{
    queue->bytes -= n;
    queue->moved += n;
    while (queue->n > 0) {
        const size_t whole =
            ORR_NET_FRAME_BYTES + (size_t)orr_net_send_queue_nth(queue, 0)->frame.bytes;
        if (queue->moved < whole)
            return;
        queue->moved -= whole;
        queue->first = (queue->first + 1) & (queue->room - 1);
        queue->n--;
    }
    queue->copies_begin = queue->copies_end;
}

/* Copies must lie in the order of frames, so that all are made again. */
bool orr_net_send_queue_copy_payloads(orr_net_send_queue *queue)
{
    orr_net_send_queue owned = {0};
    for (uint32_t i = 0; i < queue->n; i++) {
        const orr_net_queued_frame *out = orr_net_send_queue_nth(queue, i);
        if (!orr_net_send_queue_add(&owned, &out->frame, orr_net_send_queue_payload(queue, out),
                                    false, i == 0 ? queue->moved : 0)) {
            orr_net_send_queue_done(&owned);
            return false;
        }
    }
    orr_net_send_queue_done(queue);
    *queue = owned;
    return true;
}

void orr_net_send_queue_clear(orr_net_send_queue *queue)
{
    queue->n = 0;
    queue->moved = queue->bytes = 0;
    queue->copies_begin = queue->copies_end;
}

void orr_net_send_queue_done(orr_net_send_queue *queue)
{
    orr_free(queue->at);
    orr_free(queue->copies);
    *queue = (orr_net_send_queue){0};
}
