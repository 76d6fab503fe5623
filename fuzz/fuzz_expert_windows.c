/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"
#include "../tests/robust/route_checks.h"
#include "experts/routes/windows.h"

/* Windows of loads, as JSON and CSV. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_expert_windows windows;
    orr_stream *stream;
    orr_error err = {0};
    if (orr_stream_open_memory(bytes, len, &stream, &err) == ORR_OK) {
        const orr_status status = orr_windows_read_stream(stream, "input", arena, &windows, &err);
        FUZZ_CHECK(status == ORR_OK ? windows_are_sound(&windows)
                                    : is_refusal(status) && err.text[0] != '\0');
        orr_stream_close(stream);
    }
    orr_arena_free(arena);
    return 0;
}
