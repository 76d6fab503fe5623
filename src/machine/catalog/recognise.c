/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include <orrery/machine.h>

static bool is_word(char c)
{
    return isalnum((unsigned char)c) != 0;
}

/* Does the name contain the text as whole words? "NVIDIA GH200" does not contain "H200". */
static bool has_words(const char *name, const char *text)
{
    const size_t len = strlen(text);
    for (const char *at = name; strlen(at) >= len; at++) {
        if (strncasecmp(at, text, len) == 0 && (at == name || !is_word(at[-1])) &&
            !is_word(at[len]))
            return len > 0;
        if (*at == '\0')
            break;
    }
    return false;
}

/* The longest match wins: "H100 PCIe" over "H100". */
const orr_device *orr_catalog_recognise(const orr_catalog *catalog, const char *device_name)
{
    const orr_device *found = NULL;
    size_t longest = 0;
    for (uint32_t i = 0; i < catalog->n_devices; i++) {
        const orr_device *device = catalog->devices[i];
        for (uint32_t m = 0; m < device->n_matches; m++) {
            const size_t len = strlen(device->matches[m]);
            if (len > longest && has_words(device_name, device->matches[m])) {
                found = device;
                longest = len;
            }
        }
    }
    return found;
}
