/* SPDX-License-Identifier: Apache-2.0 */
#include "team/access.h"

#include <string.h>

#include "io/socket/address.h"

/* Only processes of this machine reach it. */
static bool is_loopback(const char *where)
{
    static const char *const local[] = {"127.", "localhost:", "[::1]"};
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        if (strncmp(where, local[i], strlen(local[i])) == 0)
            return true;
    return false;
}

orr_status orr_team_access_check(const orr_team_access *access, const char *where, orr_error *err)
{
    orr_address address;
    if (access->key_bytes > 0 || access->insecure || is_loopback(where) ||
        !orr_address_parse(where, strcspn(where, "|"), &address)) /* that is said elsewhere */
        return ORR_OK;
    return orr_fail(
        err, ORR_INVALID,
        "%.*s: whoever reaches this address could join the team, read its state and end "
        "it. Give all of it one key (--key FILE), or say --insecure",
        (int)strcspn(where, "|"), where);
}

orr_net_system_options orr_team_access_net(const orr_team_access *access)
{
    return (orr_net_system_options){.key = {access->key, access->key_bytes}};
}

const char *orr_team_access_mark(const orr_team_access *access)
{
    return access->key_bytes > 0 && !access->encrypt_all ? "|clear" : "";
}
